import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import type { Approval } from '../../src/system/approvals/approval-queue.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { Repository } from '../workspaces/repository.js';
import { type AcpConfig, acpAgent, converse } from './acp-world.js';

const TEXT = 'The parser is fixed:\n\n- empty input is an empty list\n- all tests pass';

interface More {
  readonly agent?: NonNullable<Config['agents']>[string];
  readonly policy?: Config['policy'];
}

async function start(cluster: Cluster, acp: AcpConfig, { agent, policy }: More = {}): Promise<ProcessNode> {
  const config = { roster: false, agents: { worker: { acp, ...agent } }, ...(policy && { policy }) };
  const node = await cluster.start('desk', { args: ['--no-dht'], config });
  // The agent writes to its home until it ends, which it does with its node.
  cluster.onEnd(async () => void (await node.stop()));
  return node;
}

const worker = async (node: ProcessNode) => (await node.call<ProviderRow[]>('providers'))[0]!;

interface Task {
  readonly status: { readonly state: string };
  readonly artifacts?: readonly { readonly parts: readonly { text?: string }[] }[];
}

/** Gives the worker a task without a context, over A2A: the answer when it has ended. */
async function send(node: ProcessNode, text: string): Promise<{ result?: { task: Task } }> {
  const { http, token } = node.ready;
  const message = { messageId: text, role: 'ROLE_USER', parts: [{ text }] };
  const response = await fetch(`${http}/a2a/rpc`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { tenant: 'worker', message } }),
  });
  return (await response.json()) as { result?: { task: Task } };
}

async function runTask(node: ProcessNode, text: string): Promise<Task> {
  const answer = await send(node, text);
  if (!answer.result) throw new Error(JSON.stringify(answer));
  return answer.result.task;
}

const textOf = ({ artifacts = [] }: Task) =>
  artifacts.map(({ parts }) => parts.map(({ text }) => text).join('')).join('|');

describe.each(['claude', 'gemini', 'opencode'] as const)('%s over the Agent Client Protocol', (id) => {
  it(
    'answers a proposal with its streamed text as one [T-E2]',
    inCluster(async (cluster) => {
      const { model, url } = await converse(cluster, [{ text: TEXT }, { text: TEXT }]);
      const node = await start(cluster, acpAgent(cluster, id, url));
      const { stdout } = await node.run('propose', 'worker', 'fix the parser', '--deadline', '90s', '--json');
      expect(JSON.parse(stdout.trim().split('\n').at(-1)!), stdout).toMatchObject({ result: TEXT });
      const task = await runTask(node, 'fix it again');
      expect(task.status.state).toBe('TASK_STATE_COMPLETED');
      expect(textOf(task)).toBe(TEXT);
      expect(model.faults).toEqual([]);
    }),
  );
});

describe('claude over the Agent Client Protocol', () => {
  it(
    'does ten tasks in a row in one process within the default memory [T-E1]',
    inCluster(async (cluster) => {
      const count = 10;
      const { model, url } = await converse(
        cluster,
        Array.from({ length: count }, (_, n) => ({ text: `answer ${n}` })),
      );
      const node = await start(cluster, acpAgent(cluster, 'claude', url));
      const answers: string[] = [];
      const pids = new Set<number>();
      for (let n = 0; n < count; n++) {
        answers.push(textOf(await runTask(node, `task ${n}`)));
        const [lane] = await node.call<{ providers: { pid: number }[] }[]>('lanes');
        pids.add(lane!.providers[0]!.pid);
      }
      expect(answers).toEqual(Array.from({ length: count }, (_, n) => `answer ${n}`));
      expect(pids.size).toBe(1);
      expect(await worker(node)).toMatchObject({ completed: count, failed: 0, state: 'healthy' });
      expect(model.faults).toEqual([]);
    }),
  );

  it(
    'works in a worktree of its own, and its answer has the branch with the commit [WT.18]',
    inCluster(async (cluster) => {
      const repository = Repository.create();
      cluster.onEnd(async () => repository.remove());
      const { model, url } = await converse(cluster, [
        { tool: 'Bash', input: { command: 'pwd && echo "by claude" >> a.txt', description: 'Appends a line' } },
        { text: 'Appended.' },
      ]);
      const acp = { ...acpAgent(cluster, 'claude', url), cwd: repository.folder };
      const node = await start(cluster, acp, {
        agent: { workspace: { worktree: true } },
        policy: [{ action: '*', decision: 'allow' }],
      });
      const { status, artifacts = [] } = await runTask(node, 'append a line to a.txt');
      expect(status.state).toBe('TASK_STATE_COMPLETED');
      const said = artifacts.flatMap(({ parts }) => parts.map(({ text }) => text));
      expect(said).toContain('Appended.');
      expect(said).toContainEqual(
        expect.stringMatching(/^branch ecliptic\/worker\/\w+: 1 commit, 1 file changed, \+1 -0$/),
      );
      const [row] = await node.call<{ branch: string; folder: string }[]>('workspaces');
      expect(
        model
          .of('worker')
          .results.map(({ text }) => text)
          .join(),
      ).toContain(row!.folder);
      expect(repository.git('show', `${row!.branch}:a.txt`)).toBe('one\nby claude');
      expect(readFileSync(join(repository.folder, 'a.txt'), 'utf8')).toBe('one\n');
      expect(model.faults).toEqual([]);
    }),
  );

  for (const [how, reason] of [
    ['without a login', /wants its user to log in first/],
    ['with a key that its API refuses', /Invalid API key/],
  ] as const) {
    it(
      `${how} says so in health and doctor after its first work, and more work fails at once [T-E6 T-E7]`,
      inCluster(async (cluster) => {
        const { url } = await converse(cluster, [{ status: 401 }]);
        const env = how === 'without a login' ? {} : undefined;
        const node = await start(cluster, acpAgent(cluster, 'claude', url, env));
        await send(node, 'the first');
        await assertRefused(node, reason);
      }),
    );
  }
});

describe('gemini over the Agent Client Protocol', () => {
  it(
    'without a login says so in health and doctor, and work fails at once [T-E6 T-E7]',
    inCluster(async (cluster) => {
      const { url } = await converse(cluster, []);
      const node = await start(cluster, acpAgent(cluster, 'gemini', url, {}));
      await assertRefused(node, /Gemini API key is missing/);
    }),
  );

  it(
    'takes work that was sent while it started, and creates a file with the default settings [T-E5 T-E16]',
    inCluster(async (cluster) => {
      const file = join(cluster.folder, 'desk', 'data', 'lanes', 'worker', 'notes.md');
      const { model, url } = await converse(cluster, [
        { tool: 'write_file', input: { file_path: file, content: '# Notes\n' } },
        { text: 'written' },
      ]);
      const { command, args, env } = acpAgent(cluster, 'gemini', url);
      // It takes longer than the registry waits for a program.
      const slow = { command: '/bin/sh', args: ['-c', 'sleep 5; exec "$0" "$@"', command, ...args!] };
      const node = await start(cluster, { ...slow, env: env! });
      expect(await worker(node)).toMatchObject({ state: 'starting' });
      const working = runTask(node, 'write notes.md');
      const asked = await until(async () => (await node.call<Approval[]>('approvals'))[0], 'it asks for permission');
      await node.run('approvals', 'allow-once', asked.id);
      const task = await working;
      expect({ state: task.status.state, text: textOf(task), faults: model.faults }).toEqual({
        state: 'TASK_STATE_COMPLETED',
        text: 'written',
        faults: [],
      });
      expect(existsSync(file) && readFileSync(file, 'utf8')).toBe('# Notes\n');
    }),
  );
});

/** Health, doctor and each kind of work give the reason, without a wait. */
async function assertRefused(node: ProcessNode, reason: RegExp): Promise<void> {
  await until(async () => (await worker(node)).state === 'unavailable', 'health shows it');
  const { message } = await worker(node);
  const { findings } = await node.doctor();
  const problem = findings.find(({ level, text }) => level === 'problem' && text.includes('"worker"'));
  const began = performance.now();
  const task = JSON.stringify(await send(node, 'more'));
  const { code, stderr } = await node.run('propose', 'worker', 'hello', '--deadline', '60s');
  expect({ code, isQuick: performance.now() - began < 20_000 }).toEqual({ code: 1, isQuick: true });
  if (process.env.ECLIPTIC_SHOW) console.log({ message, problem, task, stderr });
  for (const said of [message, problem?.text, task, stderr]) expect(said).toMatch(reason);
}

describe('opencode over the Agent Client Protocol', () => {
  it(
    'without a model says so in health and doctor, and work fails at once [T-G3 T-E7]',
    inCluster(async (cluster) => {
      const { env, ...program } = acpAgent(cluster, 'opencode', (await converse(cluster, [])).url);
      const config = { OPENCODE_CONFIG_CONTENT: '{"disabled_providers":["opencode","scripted"]}' };
      const node = await start(cluster, { ...program, env: { ...env, ...config } });
      await assertRefused(node, /has no model/);
    }),
  );
});
