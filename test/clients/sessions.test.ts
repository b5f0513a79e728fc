import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { TaskDetail } from '../../src/node/control/rows.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import type { Approval } from '../../src/system/approvals/approval-queue.js';
import { type Cluster, finish, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';
import { type AcpConfig, acpAgent, converse } from './acp-world.js';

interface Devices {
  readonly desktop: ProcessNode;
  readonly laptop: ProcessNode;
}

/** A desktop with the agent mars, and a laptop of the same owner. */
async function devices(cluster: Cluster, acp: AcpConfig): Promise<Devices> {
  const desktop = await cluster.start('desktop', {
    args: ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`],
    config: { agents: { mars: { acp } } },
  });
  cluster.onEnd(async () => void (await desktop.stop()));
  const laptop = await cluster.start('laptop', { args: ['--no-dht', '--listen', '127.0.0.1:0'] });
  await desktop.admit(laptop, { owner: true });
  await untilConnected([desktop, laptop]);
  return { desktop, laptop };
}

/** Runs a command on a node while the test does other things. */
function begin(cluster: Cluster, node: ProcessNode, ...args: string[]) {
  return finish(cluster.launch([...args, '--data', node.data], node.home));
}

describe('claude on the desktop', () => {
  it(
    'does tasks from the laptop, which watches, answers its requests, and goes on in the same session after a crash [SN.1 AP.1]',
    inCluster(async (cluster) => {
      const project = join(cluster.folder, 'project');
      mkdirSync(project);
      const file = join(project, 'notes.md');
      const { model, url } = await converse(cluster, [
        { tool: 'Write', input: { file_path: file, content: '# Notes\n' } },
        { tool: 'Bash', input: { command: 'wc -l notes.md > lines', description: 'count the lines' } },
        { text: 'The notes are written.' },
        { text: 'They are about the parser.' },
        { text: 'The parser, still.' },
      ]);
      const { desktop, laptop } = await devices(cluster, { ...acpAgent(cluster, 'claude', url), cwd: project });

      const first = begin(cluster, laptop, 'task', 'send', 'mars@desktop', 'Write the notes');
      const requestOn = (node: ProcessNode, text: string) =>
        until(async () => {
          const { stdout } = await node.run('approval', 'list');
          return stdout
            .split('\n')
            .find((line) => line.includes(text))
            ?.split(' ')[0];
        }, `${text} is asked on ${node.name}`);
      const write = await requestOn(laptop, 'Write notes.md');
      expect(write).toContain('@');
      const { stdout: shown } = await laptop.run('approval', 'show', write);
      expect(shown).toContain('+# Notes');
      expect(shown).toContain(project);
      expect(shown).toContain(
        '{"agent":"mars","action":"permission.edit","match":"Write notes.md","decision":"allow"}',
      );
      expect((await laptop.run('waiting')).stdout).toContain('Write notes.md');
      expect(existsSync(file)).toBe(false);
      expect((await laptop.run('approval', 'allow-once', write)).stdout).toContain('confirmed by desktop');

      const bash = await requestOn(laptop, 'wc -l notes.md > lines');
      expect((await laptop.run('approval', 'show', bash)).stdout).toMatch(/command +wc -l notes\.md > lines/);
      await laptop.run('approval', 'allow-once', bash);

      const { code, stdout, stderr } = await first;
      expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: 'The notes are written.\n' });
      expect(readFileSync(file, 'utf8')).toBe('# Notes\n');
      expect(stderr).toContain('waits for its owner’s approval: mars asks: Write notes.md');
      expect(stderr).toMatch(/Write notes\.md: completed/);
      const context = /--context (\S+)/.exec(stderr)![1]!;

      const second = await laptop.run('task', 'send', 'mars@desktop', 'What are they about?', '--context', context);
      expect(second.stdout).toBe('They are about the parser.\n');
      expect(model.of('worker').latest.join('\n')).toMatch(/Write the notes[\s\S]*What are they about/);

      // The scripted model tells 100 tokens in and 10 out for each of its answers.
      const tasks = await laptop.json<{ id: string }[]>('task', 'list', '--kind', 'a2a');
      expect(tasks).toHaveLength(2);
      const details = await Promise.all(tasks.map(({ id }) => laptop.run('task', 'show', id)));
      expect(details[0]!.stdout).toMatch(/session +\S+ \(continued\)\ncost +100 tokens in, 10 out, \$0\.\d+\n/);
      expect(details[1]!.stdout).toMatch(/session +\S+ \(new\)\ncost +300 tokens in, 30 out, \$0\.\d+\n/);
      const { stdout: summed } = await desktop.run('provider', 'show', 'mars', '--json');
      expect(JSON.parse(summed).about.usage).toMatchObject({ inputTokens: 400, outputTokens: 40 });

      await desktop.crash();
      await desktop.start();
      await untilConnected([desktop, laptop]);
      const third = await laptop.run('task', 'send', 'mars@desktop', 'Sure?', '--context', context);
      expect({ stdout: third.stdout, code: third.code }, third.stderr).toEqual({
        stdout: 'The parser, still.\n',
        code: 0,
      });
      expect(third.stderr).toContain('has loaded the session of this conversation');
      expect(model.of('worker').latest.join('\n')).toMatch(/Write the notes[\s\S]*What are they about[\s\S]*Sure\?/);
      expect(model.faults).toEqual([]);
    }),
  );
});

describe('claude in one process', () => {
  it(
    'answers ten tasks at once, and fifty in a row, within its memory [SN.1]',
    { timeout: 900_000 },
    inCluster(async (cluster) => {
      const count = 60;
      const { model, url } = await converse(
        cluster,
        Array.from({ length: count }, (_, n) => ({ text: `answer ${n}` })),
      );
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { roster: false, agents: { worker: { acp: acpAgent(cluster, 'claude', url) } } },
      });
      cluster.onEnd(async () => void (await node.stop()));
      const pids = new Set<number>();
      const give = async (text: string) => {
        const task = await node.call<TaskDetail>('task.send', { to: 'worker', text });
        const [lane] = await node.call<{ providers: { pid: number; memoryMb?: number }[] }[]>('lanes');
        pids.add(lane!.providers[0]!.pid);
        return { state: task.state, answer: task.task.artifacts?.[0]?.parts[0]?.text };
      };
      const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => give(`at once ${n}`)));
      for (let n = 10; n < count; n++) answers.push(await give(`in a row ${n}`));
      expect(answers.filter(({ state }) => state !== 'TASK_STATE_COMPLETED')).toEqual([]);
      expect(new Set(answers.map(({ answer }) => answer)).size).toBe(count);
      expect(pids.size, 'processes of the agent').toBe(1);
      expect((await node.call<ProviderRow[]>('providers'))[0]).toMatchObject({ completed: count, failed: 0 });
      expect(model.faults).toEqual([]);
    }),
  );
});

describe('codex', () => {
  it(
    'asks before it changes a file, in the mode of the configuration [SN.5 T-A12 AP.1]',
    inCluster(async (cluster) => {
      const project = join(cluster.folder, 'project');
      mkdirSync(project);
      const patch = '*** Begin Patch\n*** Add File: notes.md\n+hello\n*** End Patch';
      const { model, url } = await converse(cluster, [{ tool: 'apply_patch', input: patch }, { text: 'patched' }]);
      const acp = { ...acpAgent(cluster, 'codex', url), cwd: project, mode: 'read-only' };
      const { desktop, laptop } = await devices(cluster, acp);
      const task = begin(cluster, laptop, 'task', 'send', 'mars@desktop', 'Write the notes');
      const asked = await until(async () => (await desktop.call<Approval[]>('approvals'))[0], 'it asks for permission');
      expect(existsSync(join(project, 'notes.md'))).toBe(false);
      await laptop.run('approval', 'allow-once', `${asked.id}@${desktop.key}`);
      const { code, stdout, stderr } = await task;
      expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: 'patched\n' });
      expect(readFileSync(join(project, 'notes.md'), 'utf8')).toBe('hello\n');
      expect(model.faults).toEqual([]);
    }),
  );
});
