import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TaskDetail, TaskRow } from '../../src/node/control/rows.js';
import { BIN } from '../source-files.js';

let folder: string;
let node: ChildProcess;
let url: string;
let token: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-tasks-'));
  writeFileSync(
    join(folder, 'ecliptic.json'),
    '{ "data": "./state", "agents": { "talker": { "module": "./talker.mjs", "capabilities": ["talk"] } } }',
  );
  writeFileSync(
    join(folder, 'talker.mjs'),
    `export function setup(agent) {
      agent.onTask(async (task) => {
        task.progress('thinking\\u001b[2J');
        if (task.text === 'wait') return new Promise(() => {});
        if (task.text === 'fail') throw new Error('no paper');
        if (task.text === 'ask') return 'you chose ' + (await task.ask('which one?')).parts[0].text;
        const id = task.artifact('you said ', { lastChunk: false });
        task.artifact(task.text, { id, append: true });
      });
    }`,
  );
  node = launch(['up', '--json', '--port', '0']);
  const [line] = (await once(createInterface({ input: node.stdout! }), 'line')) as [string];
  ({ http: url, token } = JSON.parse(line) as { http: string; token: string });
});

afterAll(async () => {
  node.kill('SIGTERM');
  await once(node, 'close');
  rmSync(folder, { recursive: true, force: true });
});

describe('card', () => {
  it('shows the card of this node, of an agent, and of a remote agent with the verdict on its signature', async () => {
    expect(JSON.parse((await run(['card'])).stdout)).toMatchObject({ name: 'Ecliptic' });
    expect(JSON.parse((await run(['card', 'talker', '--json'])).stdout)).toMatchObject({ id: 'talker' });
    const shown = await run(['card', url]);
    expect(shown.stdout).toMatch(/^Ecliptic \d/);
    expect(shown.stdout).toMatch(/^signature +valid/m);
    const told = JSON.parse((await run(['card', url, '--json'])).stdout);
    expect(told).toMatchObject({ card: { name: 'Ecliptic' }, signature: { verified: true } });
  });
});

describe('invoke', () => {
  it('prints the answer, and the progress beside it', async () => {
    const { code, stdout, stderr } = await invoke('hello');
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'you said hello\n' });
    expect(stderr).toMatch(/thinking\ufffd/);
    expect((await invoke('hello', '--no-stream')).stdout).toBe('you said hello\n');
  });

  it('starts a new line for the state when the answer does not end with a line break [T-B9]', async () => {
    const words = [BIN, 'invoke', url, 'hello', '--token', token, '--skill', 'talk'];
    // Both outputs in one pipe, as on a terminal.
    const child = spawn('sh', ['-c', 'exec "$0" "$@" 2>&1', process.execPath, ...words], { cwd: folder });
    const lines = (await finish(child)).stdout.split('\n');
    expect(lines).toContain('you said hello');
    expect(lines).toContain('… completed');
  });

  it('prints events as JSON', async () => {
    const events = (await invoke('hello', '--json')).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events[0]).toHaveProperty('task');
    expect(events.at(-1)).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  it('says why a task failed, and which answer it waits for', async () => {
    expect(await invoke('fail')).toMatchObject({ code: 1, stderr: expect.stringMatching(/REMOTE_FAILED: .*failed/) });
    const asked = await invoke('ask');
    expect(asked).toMatchObject({ code: 1, stderr: expect.stringContaining('which one?') });
    const [, id] = /--task (\S+)\)/.exec(asked.stderr)!;
    expect(await invoke('red', '--task', id!)).toMatchObject({ code: 0, stdout: 'you chose red\n' });
  });

  it('stops at its time limit, and the task is canceled', async () => {
    const { code, stderr } = await invoke('wait', '--timeout', '800ms');
    expect([code, stderr]).toEqual([1, expect.stringContaining('Timed out after 800ms')]);
    const [latest] = await tasks();
    expect(latest).toMatchObject({ state: 'TASK_STATE_CANCELED' });
  });

  it('is not led to a private address that the URL does not name', async () => {
    expect(await run(['invoke', 'http://10.0.0.1/', 'x'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^FETCH_REFUSED/),
    });
    expect((await run(['invoke', url, 'x'])).stderr).toMatch(/^TOKEN_REQUIRED/);
    expect((await run(['invoke', url])).code).toBe(2);
  });
});

describe('tasks, task and cancel', () => {
  it('show every caller’s tasks, follow one and cancel it', async () => {
    const alice = JSON.parse((await run(['token', 'create', 'alice', '--json'])).stdout).token as string;
    const waiting = launch(['invoke', url, 'wait', '--token', alice, '--skill', 'talk']);
    const ended = finish(waiting);
    let row: TaskRow | undefined;
    while (!row) [row] = await tasks('--caller', 'alice', '--state', 'working');
    expect(row).toMatchObject({ caller: 'alice', agent: 'talker', state: 'TASK_STATE_WORKING' });
    expect((await run(['tasks'])).stdout).toMatch(
      /^ID +KIND +STATE +CALLER +AGENT +UPDATED +TASK\n\w+ +a2a +working +alice +talker +\S+ +wait\n/,
    );
    const shown = await run(['task', row.id]);
    expect(shown.stdout).toMatch(/caller +alice[\s\S]*caller > +wait[\s\S]*agent {2}> +thinking\ufffd/);
    const detail = JSON.parse((await run(['task', row.id, '--json'])).stdout) as TaskDetail;
    expect(detail).toMatchObject({ id: row.id, task: { id: row.id } });
    const follower = launch(['task', row.id, '--follow']);
    const following = finish(follower);
    await once(follower.stdout!, 'data');
    expect((await run(['cancel', row.id])).stdout).toBe(`The task ${row.id} is canceled.\n`);
    expect((await following).stdout).toMatch(/… canceled/);
    expect(await ended).toMatchObject({ code: 1, stderr: expect.stringContaining('canceled') });
    expect((await run(['cancel', 'nobody'])).stderr).toMatch(/^TASK_NOT_FOUND/);
    expect((await run(['tasks', '--state', 'dancing'])).code).not.toBe(0);
    expect(await tasks('--limit', '1')).toHaveLength(1);
  });

  it('answer the question of the owner’s task, and of no other caller’s [FC.14]', async () => {
    const asked = await invoke('ask');
    expect([asked.code, asked.stderr]).toEqual([1, expect.stringContaining('which one?')]);
    const [row] = await tasks('--state', 'input-required');
    expect((await run(['task', 'answer', row!.id, 'blue'])).code).toBe(0);
    let detail: TaskDetail | undefined;
    while (detail?.state !== 'TASK_STATE_COMPLETED') {
      detail = JSON.parse((await run(['task', row!.id, '--json'])).stdout) as TaskDetail;
    }
    expect(JSON.stringify(detail.task)).toContain('you chose blue');
    const alice = JSON.parse((await run(['token', 'create', 'asker', '--json'])).stdout).token as string;
    await run(['invoke', url, 'ask', '--token', alice, '--skill', 'talk']);
    const [other] = await tasks('--state', 'input-required', '--caller', 'asker');
    expect((await run(['task', 'answer', other!.id, 'red'])).stderr).toMatch(
      /^SENDER_REFUSED: .*asker, who must answer/,
    );
  });

  it('list proposals and sub-tasks of swarms beside the tasks of A2A clients, each with its kind [T-G5]', async () => {
    await invoke('hello');
    expect((await run(['propose', 'talker', 'sing'])).code).toBe(0);
    expect((await run(['propose', 'talker', 'fail'])).code).toBe(1);
    expect((await run(['swarm', 'a choir', '--capability', 'talk'])).code).toBe(0);
    const of = async (kind: string, ...more: string[]) => {
      const rows = await tasks('--kind', kind, ...more);
      return rows.map(({ kind, state, caller, agent, text }) => [kind, state, caller.split('@')[0], agent, text]);
    };
    expect(await of('proposal')).toEqual([
      ['proposal', 'TASK_STATE_FAILED', 'operator', 'talker', 'fail'],
      ['proposal', 'TASK_STATE_COMPLETED', 'operator', 'talker', 'sing'],
    ]);
    expect(await of('swarm', '--state', 'completed')).toEqual([
      ['swarm', 'TASK_STATE_COMPLETED', 'sun', expect.stringMatching(/^talker@/), expect.any(String)],
    ]);
    const all = await tasks();
    expect(all.slice(0, 4).map(({ kind }) => kind)).toEqual(['swarm', 'proposal', 'proposal', 'a2a']);
    expect((await run(['tasks'])).stdout).toMatch(/^\w{26} +proposal +completed +operator +talker +\S+ +sing$/m);
    // The id leads to the command that shows this kind of work.
    const [swarm, proposal] = all;
    expect((await run(['swarm', 'show', swarm!.id.split('/')[0]!])).code).toBe(0);
    expect((await run(['thread', proposal!.id])).stdout).toContain('task-proposal');
    expect((await run(['task', proposal!.id])).stderr).toMatch(/^TASK_NOT_FOUND: .*\n.*thread ID/);
    expect(await run(['tasks', '--kind', 'dance'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('swarm'),
    });
  });

  it('take a shortened id, and refuse an ambiguous one [T-B4]', async () => {
    await invoke('one');
    await invoke('two');
    const [latest] = await tasks('--kind', 'a2a');
    const shown = await run(['task', latest!.id.slice(0, -2), '--json']);
    expect(JSON.parse(shown.stdout)).toMatchObject({ id: latest!.id, text: 'two' });
    expect(await run(['task', latest!.id.slice(0, 4)])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^AMBIGUOUS_ID: several ids begin with "\w{4}": \w{26}, \w{26}/),
    });
  });
});

function invoke(message: string, ...options: string[]) {
  return run(['invoke', url, message, '--token', token, '--skill', 'talk', ...options]);
}

async function tasks(...options: string[]): Promise<TaskRow[]> {
  return JSON.parse((await run(['tasks', '--json', ...options])).stdout);
}

function run(args: readonly string[]) {
  return finish(launch(args));
}

function launch(args: readonly string[]): ChildProcess {
  const { ECLIPTIC_TOKEN: _, ...env } = process.env;
  return spawn(process.execPath, [BIN, ...args], { cwd: folder, env: { ...env, NO_COLOR: '1' } });
}

async function finish(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    once(child, 'close') as Promise<[number]>,
  ]);
  return { code, stdout, stderr };
}
