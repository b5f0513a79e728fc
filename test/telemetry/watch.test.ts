import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { type Cluster, finish, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';

vi.setConfig({ testTimeout: 60_000 });

/** Gives a command a terminal. */
const SCRIPT = '/usr/bin/script';
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
const STEERING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;

const ECHO = `export const setup = (agent) => agent.onRequest((message) => message.payload).onNotification(() => {});`;

async function desk(cluster: Cluster): Promise<ProcessNode> {
  const module = join(cluster.folder, 'echo.mjs');
  writeFileSync(module, ECHO);
  return cluster.start('desk', {
    args: ['--no-dht'],
    config: { roster: false, agents: { sun: { tier: 0 }, mars: { module, tier: 2 }, mercury: { tier: 1 } } },
  });
}

/** What happens while someone watches: a message with control characters, a refusal, and a question to the owner. */
async function makeItHappen(cluster: Cluster, node: ProcessNode): Promise<void> {
  await node.request('sun', 'mars', { said: '\u001b[2J\u009b31mred\u202e' });
  await node.call('send', { as: 'mercury', to: 'mars', payload: 1 }).catch(() => {});
  const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
  await alice.call('mesh_send', { to: 'operator', text: 'Which branch?', needs: 'reply' });
}

function started(cluster: Cluster, args: readonly string[]) {
  const child = cluster.launch(args);
  const seen = { text: '' };
  child.stdout!.on('data', (data) => {
    seen.text += data;
  });
  return { child, seen, finished: finish(child) };
}

describe('ecliptic watch', () => {
  it(
    'prints a line for each message, refusal and item that waits where there is no terminal [FC.47]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      const { child, seen, finished } = started(cluster, ['watch', '--data', node.data]);
      await until(() => seen.text.includes('agents: '), 'watch has begun');
      await makeItHappen(cluster, node);
      await until(() => seen.text.includes('for you: alice'), 'the question is shown');
      child.kill('SIGINT');
      expect(await finished).toMatchObject({ code: 0, stderr: '' });
      const lines = seen.text.trimEnd().split('\n');
      for (const line of lines) expect(line).toMatch(/^\d\d:\d\d:\d\d /);
      for (const line of lines) expect(line).not.toMatch(STEERING);
      const all = lines.map((line) => line.slice(9));
      expect(all).toEqual(
        expect.arrayContaining([
          expect.stringMatching(/^agents: /),
          expect.stringMatching(/^sun → mars request \{"said":.*\} ✓ [\d.]+ (µs|ms)$/),
          expect.stringMatching(/^mercury → mars notification ✕ TIER_VIOLATION: /),
          expect.stringMatching(
            /^▲ for you: alice: Which branch\? {2}\(ecliptic waiting answer mail:\w+ reply TEXT \| done\)$/,
          ),
        ]),
      );
      // The line that it prints answers the item.
      const [, id] = /answer (mail:\w+) /.exec(seen.text)!;
      expect((await node.run('waiting', 'answer', id!, 'reply', 'The first.')).code).toBe(0);
    }),
  );

  it(
    'emits events with --json [FC.47]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      const { child, seen, finished } = started(cluster, ['watch', '--json', '--data', node.data]);
      await until(() => seen.text.includes('"event":"agents"'), 'watch has begun');
      await makeItHappen(cluster, node);
      await until(() => seen.text.includes('"items":[{'), 'the question is shown');
      child.kill('SIGINT');
      expect((await finished).code).toBe(0);
      const events = seen.text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(events.find(({ event, items }) => event === 'waiting' && items.length > 0)?.items[0]).toMatchObject({
        kind: 'mail',
        title: 'Which branch?',
      });
      expect(events).toContainEqual(expect.objectContaining({ event: 'message', sender: 'sun', recipient: 'mars' }));
      expect(events).toContainEqual(expect.objectContaining({ event: 'message', code: 'TIER_VIOLATION' }));
    }),
  );

  it(
    'redraws one screen in place on a terminal, and rings it for what begins to wait [FC.47 PM.5]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      const command = `stty rows 30 cols 100; exec ${process.execPath} ${BIN} watch --data ${node.data}`;
      const child = spawn(SCRIPT, ['-qec', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'ignore'] });
      cluster.onEnd(async () => {
        child.kill('SIGKILL');
      });
      let text = '';
      child.stdout.on('data', (data) => {
        text += data;
      });
      /** The last of the screens that were drawn, without the codes that erase the one before. */
      const screen = () => text.split('\u001b[J').at(-1)!.replaceAll('\r', '');
      await until(() => screen().includes('agents: '), 'watch has begun');
      expect(text).not.toContain('\u0007');
      await makeItHappen(cluster, node);
      await until(
        () => /for you: 1;[\s\S]*alice \(needs reply\): Which branch\?/.test(screen()),
        'the question is shown',
      );
      const last = screen();
      expect(text.split('\u0007')).toHaveLength(2);
      expect(last).toMatch(/ecliptic waiting answer mail:\w+ reply TEXT \| done\n/);
      expect(last).toMatch(/refused:\n {2}\d\d:\d\d:\d\d mercury → mars notification ✕ TIER_VIOLATION/);
      expect(last).toMatch(/messages:\n[\s\S]*sun → mars request/);
      for (const line of last.split('\n')) expect(line).not.toMatch(STEERING);
      child.stdin.write('\u0003');
      await new Promise((resolve) => child.once('exit', resolve));
    }),
  );
});

describe('ecliptic tail', () => {
  it(
    'prints events as they are recorded with --raw [FC.48]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      const { child, seen, finished } = started(cluster, ['tail', '--raw', '--data', node.data]);
      await until(async () => {
        await node.request('sun', 'mars', 1);
        return seen.text.includes('message-received');
      }, 'events are printed');
      child.kill('SIGINT');
      await finished;
      const types = new Set(
        seen.text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line).type),
      );
      expect([...types]).toEqual(expect.arrayContaining(['message-sent', 'routing-decision', 'message-received']));
    }),
  );
});

describe('the log of a node', () => {
  it(
    'is JSON without a terminal, and lines for people on one [FC.49]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      for (const line of node.log.trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('msg');
      await node.stop();
      const command = `exec ${process.execPath} ${BIN} up --data ${node.data} --port 0 --no-dht --no-browser`;
      const child = spawn(SCRIPT, ['-qec', command, '/dev/null'], {
        cwd: node.home,
        stdio: ['pipe', 'pipe', 'ignore'],
      });
      cluster.onEnd(async () => {
        child.kill('SIGKILL');
      });
      let text = '';
      child.stdout.on('data', (data) => {
        text += data;
      });
      await until(() => text.includes('Ctrl-C stops it.'), 'the node is up');
      expect(text).toMatch(/^\d\d:\d\d:\d\d info {2}node started {2}node=\w+ {2}agents=3 {2}/m);
      expect(text).not.toContain('{"level"');
      child.stdin.write('\u0003');
      await new Promise((resolve) => child.once('exit', resolve));
    }),
  );
});
