import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EclipticError } from '../runtime/errors.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { Children } from '../system/process/children.js';
import type { LoopAgent } from './dispatcher.js';
import { Judge } from './judge.js';
import type { Validator } from './plan-schema.js';

const runtime = systemRuntime();
let folder: string;
let children: Children;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-judge-'));
  children = await Children.open(runtime, { folder: join(folder, 'children') });
});

afterEach(async () => {
  await children.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Asked {
  readonly to: string;
  readonly payload: unknown;
}

/** Judges a result as a plan says; agents answer with what they are given. */
function judge(validate: Validator, result: unknown, answers: Record<string, unknown> = {}, signal = never()) {
  const asked: Asked[] = [];
  const agent = {
    id: 'sun',
    request: async (to: string, payload: unknown) => {
      asked.push({ to, payload });
      return answers[to];
    },
  } as unknown as LoopAgent;
  const task = { id: 'a', description: 'Do it.', agent: 'mars', input: { x: 1 }, validate };
  const run = { id: 'r', key: 'k', name: 'n', agent: 'sun', createdAt: 0, folder, plan: { tasks: [task] } };
  const settings = { id: 'a', dependsOn: [], tier: 2, retries: 0, timeoutMs: 5_000, validated: true } as const;
  const input = { run: 'r', task: 'a', attempt: 2, input: { x: 1 }, results: {} };
  const lost: number[] = [];
  const judgement = new Judge(() => agent, children).judge({ run, task, settings, input, lost, signal }, result);
  return { judgement, asked };
}

function never(): AbortSignal {
  return new AbortController().signal;
}

function node(code: string): Validator {
  return { command: [process.execPath, '-e', code] };
}

describe('a result is judged [RL3]', () => {
  it('by a JSON Schema', async () => {
    const schema = { type: 'object', required: ['ok'], properties: { ok: { const: true } } };
    expect(await judge({ schema }, { ok: true }).judgement).toMatchObject({ verdict: 'approved' });
    const { verdict, feedback } = await judge({ schema }, { ok: false }).judgement;
    expect(verdict).toBe('needs-revision');
    expect(feedback).toMatch(/^the result does not fit its schema: .*ok/);
  });

  it('by a command that gets it as JSON and prints feedback', async () => {
    const read = `let text = ''; process.stdin.on('data', (d) => text += d).on('end', () => `;
    const right = `${read} process.exit(JSON.parse(text).ok ? 0 : 1))`;
    expect(await judge(node(right), { ok: true }).judgement).toMatchObject({ verdict: 'approved' });
    expect(await judge(node(right), { ok: 0 }).judgement).toMatchObject({ verdict: 'needs-revision' });
    const talkative = `console.log('line', process.env.ECLIPTIC_TASK, process.env.ECLIPTIC_ATTEMPT, process.cwd());
      console.error('and more'); process.exitCode = 3`;
    expect(await judge(node(talkative), null).judgement).toEqual({
      verdict: 'needs-revision',
      feedback: `line a 2 ${folder}\nand more`,
    });
  });

  it('by a command that reads nothing, or writes without end', async () => {
    const large = 'x'.repeat(1_000_000);
    expect(await judge(node('process.exit(0)'), large).judgement).toMatchObject({ verdict: 'approved' });
    const flood = `process.stdout.write('y'.repeat(1_000_000) + 'the end', () => process.exit(1))`;
    const { feedback } = await judge(node(flood), 1).judgement;
    expect(feedback).toMatch(/^y+the end$/);
    expect(feedback!.length).toBeLessThan(10_000);
  });

  it('without a verdict, if the command cannot be started, is killed, or takes too long', async () => {
    await expect(judge({ command: ['/no/such/program'] }, 1).judgement).rejects.toMatchObject({
      code: 'PROCESS_START_FAILED',
    });
    await expect(judge(node(`process.kill(process.pid, 'SIGKILL')`), 1).judgement).rejects.toMatchObject({
      code: 'PROCESS_ENDED',
    });
    const late = new AbortController();
    const { judgement } = judge(node('setInterval(() => {}, 1000)'), 1, {}, late.signal);
    late.abort(new EclipticError('REQUEST_TIMEOUT', 'too late'));
    await expect(judgement).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' });
    await vi.waitFor(() => expect(children.size).toBe(0), 20_000);
  });

  it.each([
    ['approved', { verdict: 'approved', feedback: undefined }],
    [
      { verdict: 'NEEDS_REVISION', feedback: 'shorter' },
      { verdict: 'needs-revision', feedback: 'shorter' },
    ],
    [
      { verdict: 'rejected', feedback: 5 },
      { verdict: 'rejected', feedback: undefined },
    ],
    // Of an agent without structured output.
    ['{"verdict":"approved","feedback":"good"}', { verdict: 'approved', feedback: 'good' }],
    ['\n```json\n{"verdict":"rejected"}\n```\n', { verdict: 'rejected', feedback: undefined }],
  ])('by an agent that says %j', async (answer, expected) => {
    const { judgement, asked } = judge({ agent: 'mercury' }, { built: 1 }, { mercury: answer });
    expect(await judgement).toEqual(expected);
    const payload = { task: 'a', description: 'Do it.', attempt: 2, input: { x: 1 }, result: { built: 1 } };
    expect(asked).toEqual([
      { to: 'mercury', payload: { ...payload, text: expect.any(String), outputSchema: expect.any(Object) } },
    ]);
  });

  // The last one quotes the agent that is judged.
  it.each([null, 5, {}, 'maybe', { verdict: true }, 'It says:\n```json\n{"verdict":"approved"}\n```\nwhich is wrong.'])(
    'without a verdict, if an agent answers %j',
    async (answer) => {
      await expect(judge({ agent: 'mercury' }, 1, { mercury: answer }).judgement).rejects.toMatchObject({
        code: 'INVALID_RESULT',
        message: expect.stringContaining('mercury gave no verdict'),
      });
    },
  );

  it('by each that the plan names, until one does not approve', async () => {
    const all = { schema: { type: 'number' }, ...node('console.log("fine")'), agent: 'mercury' };
    const first = judge(all, 'text', { mercury: 'approved' });
    expect(await first.judgement).toMatchObject({ verdict: 'needs-revision' });
    expect(first.asked).toEqual([]);
    const verdict = { verdict: 'approved', feedback: 'good' };
    expect(await judge(all, 1, { mercury: verdict }).judgement).toEqual({
      verdict: 'approved',
      feedback: 'fine\ngood',
    });
  });
});
