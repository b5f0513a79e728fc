import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { A2AMetrics } from '../src/mesh/observability.js';
import type { A2AEnvelope, A2ALogEvent, A2AMessageType, AgentCard, RoutingResult } from '../src/mesh/schemas.js';
import { ControlClient } from '../src/node/control/client.js';
import { stoppedAt } from '../src/node/control/data-folder.js';
import type { AgentRow, ProposalEvent } from '../src/node/control/rows.js';
import type { RunView } from '../src/plans/run-news.js';
import { PLANETARY_ROSTER } from '../src/roster/planetary-roster.js';
import type { EclipticError } from '../src/runtime/errors.js';
import { childEnvironment } from './child-environment.js';
import { ECHO, echoing } from './echo-agents.js';
import { expectJsonOutput } from './json-output.js';
import { BIN, ROOT } from './source-files.js';

/** Words and nouns in the overview. */
const SHOWN = ['up', 'down', 'agents', 'send', 'request', 'tail', 'message', 'policy', 'config', 'setup', 'invite'];
const COMMANDS = [
  'up',
  'down',
  'agents',
  'card',
  'send',
  'request',
  'broadcast',
  'tail',
  'thread',
  'metrics',
  'policy',
  'config',
];
/** Control characters of a terminal, and those that change the writing direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for control characters
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;
const HOSTILE = '\u001b[2J\u009b31m\u0007\u202e\u007f\r';
const HELD_BACK = '#!/bin/sh\nwhile [ ! -e "$0.released" ]; do sleep 0.05; done\necho "no subscription" >&2\nexit 3\n';
const asRoot = process.getuid?.() === 0;

let folder: string;
let started: Set<ChildProcess>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-cli-'));
  started = new Set();
});

afterEach(async () => {
  await endAll(started);
  rmSync(folder, { recursive: true, force: true });
});

describe('the commands of a running node', () => {
  let home: string;
  let node: RunningNode;
  let client: ControlClient;
  const children = new Set<ChildProcess>();

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'ecliptic-cli-node-'));
    writeAll(home, {
      'ecliptic.json': `{
        // A node with agents of its own.
        "data": "./state",
        "agents": {
          "greeter": { "module": "./greeter.ts", "sandbox": "lab", "capabilities": ["text.greet"] },
          "hostile": { "module": "./hostile.mjs", "description": ${JSON.stringify(HOSTILE)} },
          "broken": { "module": "./broken.mjs" },
          "hanging": { "module": "./hanging.mjs" },
          "slow": { "module": "./slow.mjs" },
          "mars": { "module": ${JSON.stringify(ECHO)} },
        },
        "sandbox": { "enforced": true, "crossSandboxAllowList": ["sun"] },
      }`,
      'greeter.ts': `interface Message { from: string; payload: unknown }
        interface Agent { id: string; onRequest(handler: (message: Message) => unknown): void }
        export function setup(agent: Agent): void {
          agent.onRequest(({ from, payload }: Message) => ({ greeting: \`hello \${from}\`, payload }));
        }`,
      'hostile.mjs': `const text = ${JSON.stringify(HOSTILE)};
        export function setup(agent) {
          agent.onRequest((message) => {
            if (message.payload === 'throw') throw new Error(text + '\\n' + text);
            return { text };
          });
          agent.onNotification(() => { throw new Error('a fault of its own\\n' + text); });
        }`,
      'broken.mjs': `export function setup() { throw new Error(${JSON.stringify(`not today ${HOSTILE}`)}); }`,
      'hanging.mjs': `export function setup(agent) { agent.onRequest(() => new Promise(() => {})); }`,
      'slow.mjs': slowModule(300),
    });
    // A coding agent that is installed here, and answers nothing until it is released.
    const programs = join(home, 'programs');
    mkdirSync(programs);
    writeFileSync(join(programs, 'opencode'), HELD_BACK, { mode: 0o755 });
    const env = { PATH: `${programs}${delimiter}${process.env.PATH}` };
    node = await up([], { cwd: home, folder: home, children, env });
    client = await ControlClient.connect(node.ready.control);
  });

  afterAll(async () => {
    client?.close();
    await endAll(children);
    rmSync(home, { recursive: true, force: true });
  });

  const ecliptic = (args: readonly string[], init: Partial<RunInit> = {}) =>
    run(args, { cwd: home, folder: home, ...init });

  describe('agents', () => {
    it('lists all agents in a table, and says how to staff those without a worker [T-A2]', async () => {
      const { code, stdout, stderr } = await ecliptic(['agents']);
      const rows = stdout.trimEnd().split('\n');
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(rows[0]).toMatch(/^AGENT +TIER +SANDBOX +STATE +CAPABILITIES$/);
      const hint = rows.splice(-2);
      expect(hint[0]).toMatch(/^12 agents are unstaffed: .* refuse requests and tasks\.$/);
      expect(hint[1]).toMatch(/^To find workers for all of them: ecliptic staff .* ecliptic staff --roles earth$/);
      expect(rows).toHaveLength(1 + PLANETARY_ROSTER.length + 5);
      expect(rows.find((row) => row.startsWith('mars '))).toMatch(/^mars +L2 +- +ready +backend\.api, backend\.logic$/);
      expect(rows.find((row) => row.startsWith('venus '))).toMatch(/^venus +L2 +- +unstaffed +frontend/);
      expect(rows.find((row) => row.startsWith('greeter '))).toMatch(/^greeter +L3 +lab +ready +text\.greet$/);
    });

    it('lists all agents as JSON', async () => {
      const rows = await json<AgentRow[]>(['agents', '--json']);
      expect(rows.map(({ id }) => id).sort()).toEqual(
        [...PLANETARY_ROSTER.map(({ id }) => id), 'greeter', 'hostile', 'broken', 'hanging', 'slow'].sort(),
      );
      expect(rows.find(({ id }) => id === 'mars')).toMatchObject({
        tier: 2,
        sandbox: null,
        state: 'ready',
        failure: null,
      });
    });

    it('shows an agent whose module failed, and why', async () => {
      const rows = await json<AgentRow[]>(['agents', '--json']);
      const broken = rows.find(({ id }) => id === 'broken');
      expect(broken).toMatchObject({ state: 'failed', failure: expect.stringContaining('not today') });
      const { stdout } = await ecliptic(['agents']);
      expect(stdout).toMatch(/^broken .*failed: .*broken\.mjs.*not today/m);
    });

    it.each<[string[], string[]]>([
      [['--tier', '0'], ['sun']],
      [
        ['--tier', '1'],
        ['mercury', 'earth', 'jupiter'],
      ],
      [['--capability', 'security.review'], ['enceladus']],
      [['--sandbox', 'lab'], ['greeter']],
      [['--sandbox', 'lab', '--tier', '1'], []],
      [['--capability', 'toString'], []],
    ])('with %j lists only those that match', async (filter, expected) => {
      const rows = await json<AgentRow[]>(['agents', ...filter, '--json']);
      expect(rows.map(({ id }) => id)).toEqual(expected);
    });

    it('says so when no agent matches', async () => {
      expect(await ecliptic(['agents', '--sandbox', 'nowhere'])).toMatchObject({
        code: 0,
        stdout: 'no agents match\n',
      });
    });
  });

  describe('card', () => {
    it.each([[[]], [['--json']]])('shows one agent with %j', async (flags) => {
      const { code, stdout } = await ecliptic(['card', 'mars', ...flags]);
      expect(code).toBe(0);
      expect(JSON.parse(stdout) as AgentCard).toMatchObject({ id: 'mars', tier: 2, origin: 'local', revision: 0 });
      expect(stdout.trimEnd().split('\n').length === 1).toBe(flags.length === 1);
    });
  });

  describe('send', () => {
    it('says where the message went', async () => {
      expect(await ecliptic(['send', '--as', 'sun', '--to', 'mars', '{"build":"login"}'])).toEqual({
        code: 0,
        stdout: 'delivered to mars (local)\n',
        stderr: '',
      });
    });

    it('gives the routing result as JSON', async () => {
      const sent = await json<RoutingResult>(['send', '--as', 'sun', '--to', 'mars', '1', '--json']);
      expect(sent).toMatchObject({ delivered: true, path: 'local', targetAgentId: 'mars' });
    });

    it('finds an agent that offers a capability', async () => {
      const sent = await json<RoutingResult>(['send', '--as', 'sun', '--capability', 'backend.api', '1', '--json']);
      expect(sent).toMatchObject({ delivered: true, targetAgentId: 'mars' });
    });

    it('takes a type and a justification', async () => {
      const both = await ecliptic(['send', '--as', 'sun', '--to', 'mars', '--capability', 'backend.api', '1']);
      expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('--to or --capability, not both') });
      const proposal = ['send', '--as', 'mars', '--to', 'sun', '--type', 'task-proposal', '{}'];
      expect(await ecliptic([...proposal, '--justification', 'blocked'])).toMatchObject({ code: 0 });
    });

    it('takes the payload from standard input', async () => {
      const payload = { text: 'ü🌍', list: [1, null] };
      const args = ['send', '--as', 'sun', '--to', 'mars', '--thread', 'from-stdin', '-'];
      expect(await ecliptic(args, { input: `\n${JSON.stringify(payload)}\n` })).toMatchObject({ code: 0 });
      const [envelope] = await client.call('thread', { id: 'from-stdin' });
      expect(envelope!.payload).toEqual(payload);
    });
  });

  describe('request', () => {
    it.each([[[]], [['--json']]])('prints the answer with %j', async (flags) => {
      const { code, stdout } = await ecliptic(['request', '--as', 'sun', '--to', 'mars', '{"hello":"mars"}', ...flags]);
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ id: 'mars', tier: 2, echo: { hello: 'mars' } });
      expect(stdout.trimEnd().split('\n').length === 1).toBe(flags.length === 1);
    });

    it('is answered by an agent that is a TypeScript module', async () => {
      const answer = await json(['request', '--as', 'sun', '--capability', 'text.greet', '[1]', '--json']);
      expect(answer).toEqual({ greeting: 'hello sun', payload: [1] });
    });

    it('takes the payload from standard input', async () => {
      const args = ['request', '--as', 'sun', '--to', 'mars', '-', '--json'];
      const { stdout } = await ecliptic(args, { input: '"by pipe"' });
      expect(JSON.parse(stdout)).toMatchObject({ echo: 'by pipe' });
    });

    it('waits for the given time, in milliseconds or with a unit [T-B9]', async () => {
      const args = ['request', '--as', 'sun', '--to', 'slow', '1'];
      expect(await ecliptic([...args, '--timeout', '20'])).toMatchObject({
        code: 1,
        stderr: startingWith('REQUEST_TIMEOUT'),
      });
      expect(await ecliptic([...args, '--timeout', '0.02s'])).toMatchObject({ code: 1 });
      expect(await ecliptic([...args, '--timeout', '5m', '--json'])).toMatchObject({ code: 0, stdout: '"done"\n' });
      expect(await ecliptic([...args, '--timeout', '4000000000', '--json'])).toEqual({
        code: 0,
        stdout: '"done"\n',
        stderr: '',
      });
    });
  });

  describe('broadcast', () => {
    it('counts the agents that it reached', async () => {
      const others = PLANETARY_ROSTER.length + 5 - 1;
      const { code, stdout } = await ecliptic(['broadcast', '--as', 'sun', '{"directive":"freeze"}']);
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: `delivered to ${others} of ${others} agents; withheld from 0, failed for 0\n`,
      });
      const result = await json<RoutingResult>(['broadcast', '--as', 'mercury', '1', '--json']);
      expect(result).toMatchObject({ path: 'broadcast', broadcast: { recipients: others, delivered: 3, failed: 0 } });
    });

    it('lists the agents from which it was withheld with the reason, and counts no outside caller [T-B9]', async () => {
      // Makes the owner a member.
      await client.call('propose', { to: 'mars', description: 'count' });
      const { stdout } = await ecliptic(['broadcast', '--as', 'mercury', '1']);
      expect(stdout).toMatch(/^delivered to 3 of 25 agents; withheld from 22 \(22 TIER_VIOLATION\), failed for 0$/m);
    });
  });

  describe('thread', () => {
    it('shows the messages of a conversation', async () => {
      await client.call('send', { as: 'sun', to: 'mars', payload: { n: 1 }, thread: 'talk' });
      await client.call('send', { as: 'sun', to: 'venus', payload: 'x'.repeat(200), thread: 'talk' });
      const { code, stdout } = await ecliptic(['thread', 'talk']);
      const [headings, first, second] = stdout.split('\n');
      expect(code).toBe(0);
      expect(headings).toMatch(/^TIME +FROM +TO +TYPE +PAYLOAD$/);
      expect(first).toMatch(/^\d\d:\d\d:\d\d\.\d{3} +sun +mars +notification +\{"n":1\}$/);
      expect(second).toMatch(/^\d\d:\d\d:\d\d\.\d{3} +sun +venus +notification +"x{78}…$/);
      const envelopes = await json<A2AEnvelope[]>(['thread', 'talk', '--json']);
      expect(envelopes.map(({ recipient }) => recipient)).toEqual(['mars', 'venus']);
    });

    it('shows the conversation of a proposal, a run or a durable message by its id [T-B9]', async () => {
      const events: ProposalEvent[] = [];
      await client.call('propose', { to: 'mars', description: 'talk' }, (event) => events.push(event as ProposalEvent));
      const [first] = events;
      const { proposalId } = (first as Exclude<ProposalEvent, { event: 'progress' }>).proposal;
      const proposed = await json<A2AEnvelope[]>(['thread', proposalId, '--json']);
      expect(proposed.map(({ type }) => type)).toContain('task-proposal');
      const plan = 'name: threads\ntasks: [{ id: only, description: Do it., agent: mars }]';
      const { id } = await client.call('run.start', { text: plan, file: join(home, 'threads.yaml') });
      await client.call('run.follow', { id });
      const ran = await json<A2AEnvelope[]>(['thread', id, '--json']);
      expect(ran).toContainEqual(expect.objectContaining({ type: 'task-proposal', recipient: 'mars' }));
      const payload = { kept: 'for hanging' };
      const { messageId } = await client.call('send', {
        as: 'sun',
        to: 'broken',
        payload,
        durable: true,
      });
      const { stdout } = await ecliptic(['thread', messageId!]);
      expect(stdout).toMatch(/sun +broken +notification +\{"kept":"for hanging"\}/);
    });

    it('takes shortened ids of proposals, runs, messages and threads, and says which messages are not stored [T-B9] [T-A3]', async () => {
      const short = (id: string) => id.slice(0, -1);
      // Ids of one millisecond may differ in their last character only: makes another until its beginning is its own.
      const distinct = async (make: () => Promise<string>): Promise<string> => {
        for (let tries = 0; tries < 50; tries++) {
          const id = await make();
          if ((await ecliptic(['thread', short(id)])).code === 0) return id;
        }
        throw new Error('every id shares its beginning with another');
      };
      const proposalId = await distinct(async () => {
        const events: ProposalEvent[] = [];
        await client.call('propose', { to: 'mars', description: 'short' }, (event) =>
          events.push(event as ProposalEvent),
        );
        return (events[0] as Exclude<ProposalEvent, { event: 'progress' }>).proposal.proposalId;
      });
      const messageId = await distinct(async () => {
        const sent = await client.call('send', { as: 'sun', to: 'mars', payload: 'gone', durable: true });
        return sent.messageId!;
      });
      await client.call('send', { as: 'sun', to: 'mars', payload: 'first', thread: 'long-thread-name' });
      const proposed = await json<A2AEnvelope[]>(['thread', short(proposalId), '--json']);
      expect(proposed.map(({ type }) => type)).toContain('task-proposal');
      expect((await ecliptic(['thread', 'long-thr'])).stdout).toContain('"first"');
      const read = async () => (await client.call('receipt', { id: messageId })).state === 'done';
      await vi.waitFor(async () => expect(await read()).toBe(true), 20_000);
      expect((await ecliptic(['thread', short(messageId)])).stdout).toMatch(/sun +mars +notification +not kept\n/);
      const [envelope] = await json<A2AEnvelope[]>(['thread', messageId, '--json']);
      expect(envelope).not.toHaveProperty('payload');
      const several = await ecliptic(['thread', messageId.slice(0, 2)]);
      expect(several).toMatchObject({ code: 1, stderr: startingWith('AMBIGUOUS_ID') });
    });

    it('says so when there is none', async () => {
      expect(await ecliptic(['thread', 'unknown'])).toMatchObject({ code: 0, stdout: startingWith('no messages') });
      expect(await json(['thread', 'unknown', '--json'])).toEqual([]);
    });
  });

  describe('metrics', () => {
    it('counts for people, for programs and for Prometheus', async () => {
      const before = await client.call('metrics');
      await client.call('send', { as: 'sun', to: 'mars', payload: 1 });
      const after = await json<A2AMetrics>(['metrics', '--json']);
      expect(after.totalMessagesSent).toBe(before.totalMessagesSent + 1);
      const { stdout } = await ecliptic(['metrics']);
      expect(stdout).toMatch(new RegExp(`^sent +${after.totalMessagesSent} `, 'm'));
      const prometheus = await ecliptic(['metrics', '--prometheus']);
      expect(prometheus).toMatchObject({ code: 0, stdout: startingWith('# HELP ecliptic_') });
      expect(prometheus.stdout).toMatch(/^ecliptic_messages_sent_total\{type="notification"\} [1-9]\d*$/m);
    });

    it('are served at /metrics to bearers of a token, with histograms, queues, peers and memory [T-B10]', async () => {
      await client.call('broadcast', { as: 'sun', payload: 1 });
      const place = `${node.ready.http}/metrics`;
      expect((await fetch(place)).status).toBe(401);
      const served = await fetch(place, { headers: { Authorization: `Bearer ${node.ready.token}` } });
      expect(served.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
      const text = await served.text();
      expect(text).toMatch(/^ecliptic_routing_latency_seconds_bucket\{le="\+Inf"\} [1-9]\d*$/m);
      expect(text).toMatch(/^# TYPE ecliptic_tool_duration_seconds histogram$/m);
      expect(text).toMatch(/^ecliptic_queue_length\{queue="mailboxes"\} \d+$/m);
      expect(text).toMatch(/^ecliptic_queue_length\{queue="outbox"\} \d+$/m);
      expect(text).toMatch(/^# TYPE ecliptic_peers gauge$/m);
      expect(text).toMatch(/^ecliptic_memory_bytes\{kind="rss"\} [1-9]\d*$/m);
      const names = (of: string, pattern: RegExp) => [...of.matchAll(pattern)].map(([, name]) => name).sort();
      const documented = names(readFileSync(join(ROOT, 'docs', 'telemetry.md'), 'utf8'), /^\| `(ecliptic_\w+)` \|/gm);
      // Those of the exporter are served where there is one.
      const withoutExporter = documented.filter((name) => !name?.startsWith('ecliptic_otlp_'));
      expect(names(text, /^# TYPE (\w+) /gm)).toEqual(withoutExporter);
      const { token } = await client.call('token.create', { name: 'boxed', sandbox: 'lab' });
      expect((await fetch(place, { headers: { Authorization: `Bearer ${token}` } })).status).toBe(403);
    });
  });

  describe('run', () => {
    const plan = 'name: shown\ntasks: [{ id: only, description: Say it., agent: mars }]';

    it('prints each task’s result, and takes a shortened id [T-B3 T-B4]', async () => {
      writeFileSync(join(home, 'shown.yaml'), plan);
      const { code, stdout } = await ecliptic(['run', 'shown.yaml']);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^only: done by mars\n {2}\{\n {4}"id": "mars",$/m);
      expect(stdout).toMatch(/^done: 1 done in .*$/m);
      const [latest] = await json<RunView[]>(['runs', '--json']);
      const id = latest!.id;
      expect(await json<RunView>(['run', 'show', id.slice(0, -2), '--json'])).toMatchObject({ id, status: 'done' });
      expect(await ecliptic(['run', 'show', 'nonsense'])).toMatchObject({ stderr: startingWith('RUN_NOT_FOUND') });
    });
  });

  describe('a shortened id', () => {
    it('of a message finds its receipt, and an ambiguous one is refused with the candidates [T-B4]', async () => {
      const send = () => client.call('send', { as: 'sun', to: 'venus', payload: 1, durable: true });
      const ids = [(await send()).messageId!, (await send()).messageId!];
      const short = ids[1]!.slice(0, -1);
      const same = short === ids[0]!.slice(0, -1);
      const receipt = await ecliptic(['receipt', same ? ids[1]! : short, '--json']);
      expect(JSON.parse(receipt.stdout)).toMatchObject({ id: ids[1] });
      const ambiguous = await ecliptic(['receipt', ids[0]!.slice(0, 4)]);
      expect(ambiguous).toMatchObject({ code: 1, stderr: startingWith('AMBIGUOUS_ID: several ids begin with') });
      for (const id of ids) expect(ambiguous.stderr).toContain(id);
    });
  });

  describe('policy', () => {
    it('says yes', async () => {
      const question = ['policy', '--from', 'sun', '--to', 'mars'];
      expect(await ecliptic(question)).toEqual({ code: 0, stdout: 'sun may send mars a request\n', stderr: '' });
      expect(await ecliptic([...question, '--json'])).toEqual({ code: 0, stdout: '{"allowed":true}\n', stderr: '' });
    });

    it('says no, and why, with exit code 1', async () => {
      const question = ['policy', '--from', 'mercury', '--to', 'mars'];
      const human = await ecliptic(question);
      expect(human).toMatchObject({ code: 1, stdout: '', stderr: startingWith('TIER_VIOLATION: L1 (mercury)') });
      const program = await ecliptic([...question, '--json']);
      expect(program.code).toBe(1);
      expect(JSON.parse(program.stdout)).toMatchObject({ allowed: false, code: 'TIER_VIOLATION' });
    });

    it('says what a justification changes', async () => {
      const question = ['policy', '--from', 'mars', '--to', 'sun', '--type', 'task-proposal'];
      expect(await ecliptic(question)).toMatchObject({ code: 1, stderr: startingWith('ESCALATION_REQUIRED') });
      expect(await ecliptic([...question, '--justification', 'blocked'])).toMatchObject({ code: 0 });
    });

    const kinds: [string, { type: A2AMessageType; justification?: string }][] = [
      ['a request', { type: 'request' }],
      ['a notification', { type: 'notification' }],
      ['a proposal', { type: 'task-proposal' }],
      ['a justified proposal', { type: 'task-proposal', justification: 'blocked' }],
    ];
    it.each(kinds)('gives the answer that sending %s gets, between every two Planetary agents', async (_, message) => {
      const ids = PLANETARY_ROSTER.map(({ id }) => id);
      const pairs = ids.flatMap((from) => ids.map((to) => ({ from, to })));
      const codes = { predicted: [] as string[], found: [] as string[] };
      for (const { from, to } of pairs) {
        const decision = await client.call('policy', { from, to, ...message });
        const outcome = await client
          .call('send', { as: from, to, payload: null, ...message })
          .then(() => 'allowed')
          .catch((error: EclipticError) => error.code);
        codes.predicted.push(`${from} to ${to}: ${decision.allowed ? 'allowed' : decision.code}`);
        codes.found.push(`${from} to ${to}: ${outcome}`);
      }
      expect(pairs).toHaveLength(21 * 21);
      expect(codes.found).toEqual(codes.predicted);
    });
  });

  describe('cancel', () => {
    it('withdraws a proposal that tasks lists [T-B9]', async () => {
      const proposing = client.call('propose', { to: 'hanging', description: 'wait' }).catch((error) => error.code);
      const open = () => client.call('tasks', { kind: 'proposal', state: 'TASK_STATE_WORKING' });
      await vi.waitFor(async () => expect(await open()).toHaveLength(1), 20_000);
      const { id } = (await open())[0]!;
      expect(await ecliptic(['cancel', id.slice(0, -2)])).toMatchObject({
        code: 0,
        stdout: `The task ${id} is canceled.\n`,
      });
      expect(await proposing).toMatch(/^[A-Z_]+$/);
      const [row] = await client.call('tasks', { kind: 'proposal', state: 'TASK_STATE_CANCELED' });
      expect(row).toMatchObject({ id, agent: 'hanging' });
      expect(Date.parse(row!.updatedAt!)).toBeGreaterThan(row!.createdAt);
      expect((await client.call('proposals', {})).find(({ proposal }) => proposal.proposalId === id)).toMatchObject({
        work: 'canceled',
      });
      expect(await client.call('story', { id: `proposal:${id}` })).toMatchObject({ state: 'canceled', over: true });
      const again = await ecliptic(['cancel', id]);
      expect(again).toMatchObject({ code: 1, stderr: startingWith('TASK_NOT_CANCELABLE') });
    });
  });

  describe('tail', () => {
    it.each([[[]], [['--json']]])('follows events with %j until Ctrl-C, which exits with 0', async (flags) => {
      const tail = await startTail(flags);
      const line = await tail.firstAfter(() => client.call('send', { as: 'sun', to: 'mars', payload: 1 }));
      if (flags.length > 0) expect(JSON.parse(line)).toMatchObject({ sender: 'sun', recipient: 'mars', payload: 1 });
      else expect(line).toMatch(/^\d\d:\d\d:\d\d sun → mars notification 1 ✓ [\d.]+ (µs|ms)$/);
      tail.child.kill('SIGINT');
      expect(await tail.finished).toMatchObject({ code: 0, stderr: '' });
    });

    it('shows one line for each message, with its payload and the verdict, also of a refusal [T-B3 FC.48]', async () => {
      const tail = await startTail([]);
      await tail.firstAfter(() => client.call('send', { as: 'sun', to: 'venus', payload: 'begin' }));
      await client.call('request', { as: 'sun', to: 'mars', payload: { ask: 'once' } });
      await client.call('send', { as: 'mercury', to: 'mars', payload: 1 }).catch(() => {});
      await client.call('send', { as: 'sun', to: 'venus', payload: 'x'.repeat(2_000) });
      const end = () => tail.lines.findIndex((line) => line.includes('over 1 kB'));
      while (end() < 0) await once(tail.child.stdout!, 'data');
      const lines = tail.lines.filter((line) => !line.includes('"begin"')).map((line) => line.slice(9));
      expect(lines).toEqual([
        expect.stringMatching(/^sun → mars request \{"ask":"once"\} ✓ [\d.]+ (µs|ms)$/),
        expect.stringMatching(/^mars → sun response \{"id":"mars",.{60,80}… ✓ [\d.]+ (µs|ms)$/),
        expect.stringMatching(/^mercury → mars notification ✕ TIER_VIOLATION: /),
        expect.stringMatching(/^sun → venus notification \(over 1 kB; see: ecliptic log\) ✓ [\d.]+ (µs|ms)$/),
      ]);
      tail.child.kill('SIGINT');
      await tail.finished;
    });

    it('refuses an unknown event type, and lists the known ones [T-B3]', async () => {
      expect(await ecliptic(['tail', '--type', 'bogus'])).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(
          /^USAGE: there are no events of type "bogus"; there are message-sent, .*security/,
        ),
      });
    });

    it('refuses an agent that does not exist, and takes one that is only a mailbox [T-B9]', async () => {
      expect(await ecliptic(['tail', '--agent', 'bogus'])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^AGENT_NOT_FOUND: .*bogus/),
      });
      const other = await ControlClient.connect(node.ready.control);
      const seen: unknown[] = [];
      const following = ['mars', 'operator'].map((agent) => other.call('tail', { agent }, (event) => seen.push(event)));
      // A message that is sent before the node takes the call is not seen.
      await vi.waitFor(async () => {
        await client.call('send', { as: 'sun', to: 'mars', payload: 1 });
        expect(seen).not.toEqual([]);
      }, 20_000);
      other.close();
      for (const one of following) await expect(one).rejects.not.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    });

    it('prints every event of one type', async () => {
      const tail = await startTail(['--json', '--type', 'security']);
      const refused = () => client.call('send', { as: 'mercury', to: 'mars', payload: 1 }).catch(() => {});
      await tail.firstAfter(async () => {
        await client.call('send', { as: 'sun', to: 'mars', payload: 1 });
        await refused();
      });
      const seen = tail.lines.length;
      for (let n = 0; n < 20; n++) await refused();
      await tail.reach(seen + 20);
      for (const line of tail.lines)
        expect(JSON.parse(line)).toMatchObject({ type: 'security', code: 'TIER_VIOLATION' });
      tail.child.kill('SIGINT');
      await tail.finished;
    });

    it('prints the events of one agent', async () => {
      const tail = await startTail(['--json', '--agent', 'venus']);
      await tail.firstAfter(async () => {
        await client.call('send', { as: 'sun', to: 'mars', payload: 1 });
        await client.call('send', { as: 'sun', to: 'venus', payload: 1 });
      });
      for (const line of tail.lines) expect(JSON.parse(line)).toMatchObject({ recipient: 'venus' });
      tail.child.kill('SIGINT');
      await tail.finished;
    });

    it('prints one clean line for an event, whatever an agent put into it', async () => {
      const tail = await startTail(['--type', 'error']);
      await tail.firstAfter(() => client.call('send', { as: 'sun', to: 'hostile', payload: 1 }));
      tail.child.kill('SIGINT');
      const { stdout } = await tail.finished;
      expect(stdout).not.toMatch(STEERING);
      for (const line of stdout.trimEnd().split('\n'))
        expect(line).toMatch(/^\d\d:\d\d:\d\d {2}error .*a fault of its own/);
    });

    it('ends quietly when its output is closed', async () => {
      const tail = await startTail([]);
      const sendOne = () => client.call('send', { as: 'sun', to: 'mars', payload: 1 });
      await tail.firstAfter(sendOne);
      tail.child.stdout!.destroy();
      let ended = false;
      const finished = tail.finished.finally(() => {
        ended = true;
      });
      while (!ended) await sendOne();
      expect((await finished).stderr).toBe('');
    });

    async function startTail(flags: readonly string[]) {
      const child = launch(['tail', ...flags], { cwd: home, folder: home, children: started });
      const lines: string[] = [];
      const finished = finish(child);
      createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line));
      const reach = async (count: number) => {
        while (lines.length < count) await once(child.stdout!, 'data');
      };
      /** Does something again and again until it shows: a tail does not say when it has begun to listen. */
      const firstAfter = async (act: () => Promise<unknown>) => {
        while (lines.length === 0) await act();
        return lines[0]!;
      };
      return { child, lines, finished, reach, firstAfter };
    }
  });

  describe('doctor', () => {
    it('prints each finding at once, and names the check that is running [T-B9]', async () => {
      const child = launch(['doctor'], { cwd: home, folder: home, children: started });
      const finished = finish(child);
      let early = '';
      child.stdout!.on('data', (data) => {
        early += data;
      });
      const [waiting] = await once(child.stderr!, 'data');
      expect(String(waiting)).toMatch(/^probing \d+ coding agents of this machine …$/m);
      while (!early.includes('broken')) await once(child.stdout!, 'data');
      expect(early).toMatch(/^node \w+, ecliptic/);
      expect(early).not.toContain('OpenCode');
      writeFileSync(join(home, 'programs', 'opencode.released'), '');
      const { stdout } = await finished;
      expect(stdout).toMatch(/^ {2}warning OpenCode .* does not answer: /m);
    });
  });

  describe('config', () => {
    it('checks the file of the working folder, or another', async () => {
      const file = join(home, 'ecliptic.json');
      expect(await ecliptic(['config', 'check'])).toEqual({
        code: 0,
        stdout: `${file} is valid: it configures 6 agents\n`,
        stderr: '',
      });
      writeFileSync(join(folder, 'other.json'), '{}');
      const other = await json(['config', 'check', join(folder, 'other.json'), '--json']);
      expect(other).toEqual({ ok: true, file: join(folder, 'other.json'), agents: 0 });
      expect(await json(['config', 'check', '--json'], { cwd: folder })).toEqual({ ok: true, file: null, agents: 0 });
    });

    it('reports every fault with its place', async () => {
      writeFileSync(join(folder, 'ecliptic.json'), '{\n  "log": "loud",\n  "roster": 1\n}');
      const { code, stderr } = await ecliptic(['config', 'check'], { cwd: folder });
      expect(code).toBe(1);
      expect(stderr).toMatch(/^INVALID_CONFIG: /);
      expect(stderr).toContain(`${join(folder, 'ecliptic.json')}:2:10: log: `);
      expect(stderr).toContain(`${join(folder, 'ecliptic.json')}:3:13: roster: `);
    });

    it('refuses modules and programs that are missing or not executable, by file and agent [T-B5]', async () => {
      writeAll(folder, {
        'ecliptic.json': `{
          "agents": {
            "absent": { "module": "./absent.ts" },
            "coder": { "acp": { "command": "no-such-agent-program" } },
            "printer": { "command": "./plain.txt" },
            "ready": { "command": ${JSON.stringify(process.execPath)} },
            "listed": { "acp": { "command": "node" } },
          },
          "mcpServers": { "files": { "command": "./no-such-server" }, "off": { "command": "nothing", "disabled": true } },
        }`,
        'plain.txt': 'no program',
      });
      const { code, stdout, stderr } = await ecliptic(['config', 'check', '--json'], { cwd: folder });
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      const { error } = JSON.parse(stderr);
      const file = join(folder, 'ecliptic.json');
      expect(error).toMatchObject({ code: 'INVALID_CONFIG', details: { file } });
      expect(error.details.faults).toEqual([
        `${file}:3:35: agents.absent.module: there is no file ${join(folder, 'absent.ts')}`,
        `${file}:4:31: agents.coder.acp: there is no program "no-such-agent-program" on the PATH`,
        `${file}:5:37: agents.printer.command: ${join(folder, 'plain.txt')} may not be executed`,
        `${file}:9:49: mcpServers.files.command: there is no program ${join(folder, 'no-such-server')}`,
      ]);
    });

    it('prints the published schema', async () => {
      const { code, stdout } = await ecliptic(['config', 'schema']);
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toEqual(JSON.parse(readFileSync(join(ROOT, 'schema/ecliptic.schema.json'), 'utf8')));
    });
  });

  describe('a refusal', () => {
    it.each<[string[], string]>([
      [['card', 'vulcan'], 'AGENT_NOT_FOUND'],
      [['card', '__proto__'], 'AGENT_NOT_FOUND'],
      [['send', '--as', 'vulcan', '--to', 'mars', '1'], 'AGENT_NOT_FOUND'],
      [['send', '--as', 'sun', '--to', 'vulcan', '1'], 'AGENT_NOT_FOUND'],
      [['send', '--as', 'mercury', '--to', 'mars', '1'], 'TIER_VIOLATION'],
      [['send', '--as', 'greeter', '--to', 'mars', '1'], 'SANDBOX_VIOLATION'],
      [['send', '--as', 'mars', '--to', 'sun', '--type', 'task-proposal', '1'], 'ESCALATION_REQUIRED'],
      [['send', '--as', 'sun', '--to', 'mars', '{"__proto__":1}'], 'INVALID_ENVELOPE'],
      [['request', '--as', 'sun', '--capability', 'no.such', '1'], 'CAPABILITY_NOT_FOUND'],
      [['request', '--as', 'sun', '--to', 'broken', '1'], 'NO_WORKER'],
      [['request', '--as', 'sun', '--to', 'hostile', '"throw"'], 'HANDLER_FAILED'],
      [['request', '--as', 'sun', '--to', 'hanging', '--timeout', '20', '1'], 'REQUEST_TIMEOUT'],
      [['broadcast', '--as', 'vulcan', '1'], 'AGENT_NOT_FOUND'],
      [['policy', '--from', 'sun', '--to', 'vulcan'], 'AGENT_NOT_FOUND'],
      [['config', 'check', 'missing.json'], 'INVALID_CONFIG'],
      [['up'], 'NODE_EXISTS'],
    ])('of %j exits with 1 and %s on standard error, for people and for programs', async (args, error) => {
      expect(await ecliptic(args)).toMatchObject({ code: 1, stdout: '', stderr: startingWith(`${error}: `) });
      const program = await ecliptic([...args, '--json']);
      expect(program).toMatchObject({ code: 1, stdout: '' });
      expect(JSON.parse(program.stderr)).toMatchObject({ error: { code: error, message: expect.any(String) } });
    });

    it.each([
      { args: ['request', '--as', 'sun', '--to', 'venus', '1'] },
      { args: ['request', '--as', 'sun', '--capability', 'frontend.ui', '1'] },
      { args: ['propose', 'venus', 'Draw it'] },
    ])('of $args says that the agent has no worker and what staffs it [T-A2]', async ({ args }) => {
      const { code, stdout, stderr } = await ecliptic([...args, '--json']);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      const { error } = JSON.parse(stderr);
      expect(error.code).toBe('NO_WORKER');
      expect(error.message).toContain(' has no worker for a ');
      expect(error.message).toContain(
        'To staff it: ecliptic staff --roles venus, or in ecliptic.json "agents": { "venus"',
      );
    });

    it('names a remedy if there is one [T-G5]', async () => {
      const untold = await ecliptic(['tell', 'vulcan', 'hello']);
      expect(untold).toMatchObject({ code: 1, stderr: startingWith('AGENT_NOT_FOUND: no agent is called "vulcan"') });
      expect(untold.stderr).toContain('ecliptic agents');
      expect(untold.stderr).not.toContain('mesh_');
      expect((await ecliptic(['card', 'vulcan'])).stderr).toContain('ecliptic agents');
      expect((await ecliptic(['up'])).stderr).toContain('ecliptic down');
    });

    it('of a payload above the limit names the limit, and the node keeps running', async () => {
      const args = ['send', '--as', 'sun', '--to', 'mars', '-'];
      const large = await ecliptic(args, { input: JSON.stringify('x'.repeat(1_100_000)) });
      expect(large).toMatchObject({ code: 1, stderr: startingWith('PAYLOAD_TOO_LARGE') });
      const huge = await ecliptic(args, { input: JSON.stringify('x'.repeat(9_000_000)) });
      expect(huge.code).toBe(1);
      expect(huge.stderr).toMatch(/^(PAYLOAD_TOO_LARGE|INVALID_FRAME): /);
      expect(await ecliptic(args, { input: '1' })).toMatchObject({ code: 0 });
    });
  });

  describe('text from an agent', () => {
    it('reaches programs unchanged', async () => {
      expect(await json(['request', '--as', 'sun', '--to', 'hostile', '1', '--json'])).toEqual({ text: HOSTILE });
    });

    it.each<[string, string[]]>([
      ['an answer', ['request', '--as', 'sun', '--to', 'hostile', '1']],
      ['an error', ['request', '--as', 'sun', '--to', 'hostile', '"throw"']],
      ['a card', ['card', 'hostile']],
      ['a conversation', ['thread', 'hostile-talk']],
      ['the list of agents', ['agents']],
    ])('does not steer a terminal that shows %s', async (_, args) => {
      await client.call('send', { as: 'sun', to: 'mars', payload: HOSTILE, thread: 'hostile-talk' });
      const { stdout, stderr } = await ecliptic(args);
      expect(stdout + stderr).not.toBe('');
      expect(stdout + stderr).not.toMatch(STEERING);
    });

    it('cannot send control sequences to the node’s terminal', async () => {
      const human = launch(['up', '--data', join(folder, 'data')], { cwd: home, folder, children: started });
      const seen = await linesUntil(human, 'Ctrl-C');
      expect(seen.join('\n')).toContain('broken failed');
      expect(seen.join('\n')).not.toMatch(STEERING);
    });
  });

  describe('colors', () => {
    const hasTerminal = existsSync('/usr/bin/script');

    it.each([[['agents']], [['thread', 'talk']], [['--help']], [['card', 'vulcan']]])(
      'are kept out of files and pipes by %j',
      async (args) => {
        const { stdout, stderr } = await ecliptic(args, { env: { FORCE_COLOR: '1' } });
        expect(stdout + stderr).not.toContain('\u001b');
      },
    );

    it.skipIf(!hasTerminal)('are shown on a terminal, unless NO_COLOR is set', async () => {
      const onTerminal = async (env: Record<string, string>) => {
        const command = `${process.execPath} ${BIN} agents --tier 0`;
        const child = spawn('/usr/bin/script', ['-qec', command, '/dev/null'], {
          cwd: home,
          env: environment(home, env),
          stdio: ['ignore', 'pipe', 'ignore'],
        });
        started.add(child);
        return text(child.stdout!);
      };
      expect(await onTerminal({})).toContain('\u001b[1m');
      const plain = await onTerminal({ NO_COLOR: '1' });
      expect(plain).toContain('sun');
      expect(plain).not.toContain('\u001b');
    });
  });

  describe('the log', () => {
    it('is JSON on standard error, with each failure and its reason', async () => {
      await client.call('send', { as: 'sun', to: 'hostile', payload: 1 });
      await vi.waitFor(() => expect(node.stderr()).toContain('agent: handler failed'), 20_000);
      const lines = node
        .stderr()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      for (const line of lines) expect(line).toMatchObject({ level: expect.any(Number), msg: expect.any(String) });
      const module = lines.find(({ agent }) => agent === 'broken');
      expect(JSON.stringify(module.error ?? module.err)).toContain('not today');
      const handler = lines.find(({ agent, msg }) => agent === 'hostile' && msg === 'agent: handler failed');
      expect(JSON.stringify(handler.error ?? handler.err)).toContain('a fault of its own');
    });
  });

  async function json<T = unknown>(args: readonly string[], init: Partial<RunInit> = {}): Promise<T> {
    const { code, stdout, stderr } = await ecliptic(args, init);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.trimEnd().split('\n')).toHaveLength(1);
    return JSON.parse(stdout);
  }
});

describe('the port of up', () => {
  it.each(['abc', '-1', '65536', '1.5', ''])(
    'cannot be "%s", and the error names valid values [T-B9]',
    async (port) => {
      const refused = await run(['up', `--port=${port}`]);
      expect(refused).toMatchObject({
        code: 2,
        stderr: startingWith(`USAGE: --port takes a number from 0 to 65535, not "${port}"\n`),
      });
    },
  );
});

describe('wrong usage', () => {
  it.each<[string, string[]]>([
    ['an unknown command', ['frobnicate']],
    ['a command named like a property', ['constructor']],
    ['an option before the command', ['--tier', '1', 'agents']],
    ['an unknown option', ['agents', '--frob']],
    ['an option without its value', ['agents', '--tier']],
    ['a number that is none', ['agents', '--tier', 'two']],
    ['an empty number', ['agents', '--tier', '']],
    ['a word too many', ['agents', 'all']],
    ['a word too few', ['thread']],
    ['two agents for one card', ['card', 'sun', 'mars']],
    ['no payload', ['send', '--as', 'sun', '--to', 'mars']],
    ['no sender', ['send', '--to', 'mars', '1']],
    ['no recipient', ['request', '--as', 'sun', '1']],
    ['a payload that is not JSON', ['send', '--as', 'sun', '--to', 'mars', 'hello']],
    ['a payload on standard input that is not JSON', ['send', '--as', 'sun', '--to', 'mars', '-']],
    ['a timeout that is no number', ['request', '--as', 'sun', '--to', 'mars', '--timeout', 'soon', '1']],
    ['half a question', ['policy', '--from', 'sun']],
    ['no action', ['config']],
    ['an unknown action', ['config', 'frob']],
    ['a file for the schema', ['config', 'schema', 'x.json']],
    ['an unknown log level', ['up', '--log', 'loud']],
    ['a word for up', ['up', 'now']],
  ])('of %s exits with 2 and says how it goes', async (_, args) => {
    expect(await run(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^USAGE: .+/) });
    const program = await run([...args, '--json']);
    expect(program).toMatchObject({ code: 2, stdout: '' });
    expect(JSON.parse(program.stderr)).toMatchObject({ error: { code: 'USAGE' } });
  });

  it('of an unknown log level in the environment exits with 2', async () => {
    const { code, stderr } = await run(['up'], { env: { ECLIPTIC_LOG: 'loud' } });
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^USAGE: .*"loud".*debug/) });
  });
});

describe('a mistake', () => {
  it.each<[string[], string]>([
    [['send', '--as', 'sun', '--to', 'mars'], 'JSON is missing; usage: ecliptic send '],
    [['agents', 'all'], '"all" is one word too many; usage: ecliptic agents'],
    [['thread'], 'ID is missing'],
    [['hook'], '--client is missing'],
    [['hook', '--client', 'codex'], '--event is missing'],
    [['run', 'show'], 'ID is missing'],
    [['swarm', 'show', '--capability', 'drawing'], 'ID is missing'],
    [['peers', 'remove'], 'KEY is missing'],
    [['lanes', 'frob', 'x'], '"frob" is not one of list, close, open'],
    [['agents', '--tier', '9'], '--tier is 0, 1, 2 or 3, not "9"'],
    [['send', '--as', 'sun', '--to', 'mars', 'hello'], `'"hello"'`],
    [['request', '--as', 'sun', '--to', 'mars', '--timeout', 'soon', '1'], '90s'],
  ])('of %j says which word, and how it goes [T-B9 T-G5]', async (args, said) => {
    const { code, stderr } = await run(args);
    expect(code).toBe(args[0] === 'hook' ? 1 : 2);
    expect(stderr).toContain(said);
    expect(stderr).not.toContain('undefined');
    expect(stderr).not.toContain('USAGE: usage:');
  });
});

describe('help', () => {
  it('of one command is its own [T-B9]', async () => {
    const { code, stdout } = await run(['help', 'send']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: (await run(['send', '--help'])).stdout });
    expect(await run(['help', 'frob'])).toMatchObject({ code: 2, stderr: startingWith('USAGE: there is no command') });
  });

  it.each([[['help']], [['--help']], [['-h']]])(
    'with %j names the everyday words and every noun, in groups',
    async (args) => {
      const { code, stdout } = await run(args);
      expect(code).toBe(0);
      for (const command of SHOWN) expect(stdout).toMatch(new RegExp(`^ {2}${command} +\\S`, 'm'));
    },
  );

  it.each(COMMANDS)('of %s shows how it is used, with an example', async (command) => {
    for (const flag of ['--help', '-h']) {
      const { code, stdout, stderr } = await run([command, flag]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(new RegExp(`^usage: ecliptic ${command}\\b`, 'm'));
      expect(stdout.split('examples:')[1]).toMatch(new RegExp(`^ {2}.*\\becliptic ${command}\\b`, 'm'));
    }
  });

  it('of the version is the package’s', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    expect(await run(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });
});

describe('without a running node', () => {
  it.each([
    ['down'],
    ['agents'],
    ['card', 'mars'],
    ['send', '--as', 'sun', '--to', 'mars', '1'],
    ['request', '--as', 'sun', '--to', 'mars', '1'],
    ['broadcast', '--as', 'sun', '1'],
    ['tail'],
    ['thread', 'T'],
    ['metrics'],
    ['policy', '--from', 'sun', '--to', 'mars'],
  ])('%s says so, where it looked, and how to start one [T-B1]', async (...args) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^NO_NODE: /);
    expect(stderr).toContain('ecliptic up');
    expect(stderr).toContain(join(folder, '.local', 'state', 'ecliptic'));
    const program = await run([...args, '--json']);
    expect(JSON.parse(program.stderr)).toMatchObject({
      error: { code: 'NO_NODE' },
      hint: expect.stringContaining('up'),
    });
  });

  it('the commands create no folder, and name the given one [T-B1]', async () => {
    const data = join(folder, 'data');
    const { stderr } = await run(['agents', '--data', data]);
    expect(stderr).toContain(`(data folder ${data})`);
    expect(stderr).toContain(`ecliptic up --data ${data}`);
    expect(existsSync(join(folder, 'data'))).toBe(false);
  });
});

describe('up', () => {
  it('prints its addresses as one line of JSON', async () => {
    const data = join(folder, 'data');
    const node = await up(['--data', data]);
    expect(node.ready).toEqual({
      node: expect.stringMatching(/^\w+$/),
      control: join(data, 'control.sock'),
      data,
      pid: node.child.pid,
      http: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      page: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{43}$/),
      mcp: `${node.ready.http}/mcp`,
      token: expect.stringMatching(/^ecl_[\w-]{43}$/),
      agents: 21,
      failed: [],
      // Another program of this machine may have the usual port.
      ...(node.ready.takenPort !== undefined && { takenPort: 3000 }),
    });
    expect(await stop(node)).toMatchObject({ code: 0, stdout: '' });
  });

  it('suggests next commands to people', async () => {
    const child = launch(['up', '--data', join(folder, 'data')], { folder, children: started });
    const finished = finish(child);
    const lines = await linesUntil(child, 'Ctrl-C');
    expect(lines[0]).toMatch(new RegExp(`is up with 21 agents \\(process ${child.pid}\\)$`));
    child.kill('SIGINT');
    expect(await finished).toMatchObject({ code: 0 });
  });

  it('names a taken port, the folder and agents that exist, serves a page, and logs each step without the token [T-B1 T-B2 T-B10 T-A17]', async () => {
    writeAll(folder, {
      'ecliptic.json': '{ "roster": false, "agents": { "ada": { "tier": 0 }, "bob": { "tier": 0 } } }',
    });
    const blocker = createServer();
    await once(blocker.listen(0, '127.0.0.1'), 'listening');
    const { port } = blocker.address() as AddressInfo;
    const data = join(folder, 'my data');
    const child = launch(['up', '--data', data, '--port', String(port), '--log', 'debug'], {
      folder,
      children: started,
    });
    const finished = finish(child);
    const shown = (await linesUntil(child, 'Ctrl-C')).join('\n');
    blocker.close();
    expect(shown).toContain(`${port} is taken by another program`);
    expect(shown).toContain(`npx ecliptic agents --data '${data}'`);
    // Without a worker there is nothing that an agent would do.
    expect(shown).not.toMatch(/task send|\b(sun|mars)\b/);
    const card = /card +(http\S+)/.exec(shown)![1]!;
    const mcp = /mcp +(http\S+)/.exec(shown)![1]!;
    expect((await fetch(card)).status).toBe(200);
    expect((await fetch(mcp)).status).toBe(401);
    const page = await fetch(new URL('/', card));
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8']);
    const text = await page.text();
    expect(text).toContain(card);
    expect(text).toContain(mcp);
    expect((await fetch(new URL('/secret?code=hidden-code', card))).status).toBe(401);
    await run(['send', '--as', 'ada', '--to', 'bob', '1', '--data', data]);
    await run(['send', '--as', 'ada', '--to', 'eve', '1', '--data', data]);
    child.kill('SIGINT');
    const { stdout, stderr } = await finished;
    expect(`${stdout}${stderr}`).not.toMatch(/ecl_[\w-]{8}/);
    expect(stderr).not.toContain('hidden-code');
    const logged = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(logged).toContainEqual(expect.objectContaining({ msg: 'node started', agents: 2, data }));
    expect(logged).toContainEqual(
      expect.objectContaining({ msg: 'message delivered', sender: 'ada', recipient: 'bob' }),
    );
    expect(logged).toContainEqual(expect.objectContaining({ msg: 'message refused', code: 'AGENT_NOT_FOUND' }));
    expect(logged).toContainEqual(expect.objectContaining({ msg: 'HTTP request refused', path: '/secret' }));
    expect(logged.at(-1)).toMatchObject({ msg: 'node stopped' });
  });

  it('keeps its folder and its socket to its owner', async () => {
    const { ready } = await up(['--data', join(folder, 'a', 'data')]);
    expect(statSync(ready.data).mode & 0o777).toBe(0o700);
    expect(statSync(ready.control).mode & 0o777).toBe(0o600);
  });

  it.skipIf(!asRoot)('keeps another user’s process out', async () => {
    const { ready } = await up(['--data', join(folder, 'data')]);
    const script = `require('node:net').createConnection(process.argv[1])
      .on('connect', function () { console.log('connected'); this.destroy(); })
      .on('error', (error) => console.log(error.code));`;
    const attempt = async (user: object) => {
      const child = spawn(process.execPath, ['-e', script, ready.control], { cwd: '/', ...user });
      started.add(child);
      return (await text(child.stdout)).trim();
    };
    expect(await attempt({})).toBe('connected');
    expect(await attempt({ uid: 65534, gid: 65534 })).toBe('EACCES');
  });

  it('works in a folder whose path is too long for a socket', async () => {
    const data = join(folder, 'x'.repeat(120));
    const env = { XDG_RUNTIME_DIR: folder };
    const node = await up(['--data', data], { env });
    expect(dirname(node.ready.control)).toBe(join(folder, 'ecliptic'));
    expect(statSync(join(folder, 'ecliptic')).mode & 0o777).toBe(0o700);
    expect(await run(['card', 'mars', '--data', data, '--json'], { env })).toMatchObject({ code: 0 });
    expect(await run(['down', '--data', data], { env })).toMatchObject({ code: 0 });
    expect(await node.finished).toMatchObject({ code: 0 });
    expect(existsSync(node.ready.control)).toBe(false);
  });

  it('refuses a second node on the same folder, naming the first, which keeps running', async () => {
    const args = ['--data', join(folder, 'data')];
    const first = await up(args);
    const second = await run(['up', ...args]);
    expect(second).toMatchObject({ code: 1, stdout: '', stderr: startingWith('NODE_EXISTS: ') });
    expect(second.stderr).toContain(String(first.ready.pid));
    const program = await run(['up', ...args, '--json']);
    expect(JSON.parse(program.stderr)).toMatchObject({
      error: { code: 'NODE_EXISTS', details: { pid: first.ready.pid } },
    });
    expect(await run(['card', 'mars', ...args])).toMatchObject({ code: 0 });
  });

  it('runs beside another one on another folder', async () => {
    const [one, other] = await Promise.all([up(['--data', join(folder, 'a')]), up(['--data', join(folder, 'b')])]);
    expect(one.ready.node).not.toBe(other.ready.node);
    await Promise.all([stop(one), stop(other)]);
  });

  it('works at once after the last one was killed', async () => {
    const args = ['--data', join(folder, 'data')];
    const killed = await up(args);
    killed.child.kill('SIGKILL');
    await killed.finished;
    expect(existsSync(killed.ready.control)).toBe(true);
    expect(await run(['agents', ...args])).toMatchObject({ code: 1, stderr: startingWith('NO_NODE') });
    const next = await up(args);
    expect(next.ready.node).toBe(killed.ready.node);
    expect(await run(['card', 'mars', ...args])).toMatchObject({ code: 0 });
  });

  it('refuses a faulty configuration with every fault and starts nothing', async () => {
    writeFileSync(join(folder, 'ecliptic.json'), '{\n  "data": "./state",\n  "log": 1,\n  "roster": 2\n}');
    const { code, stdout, stderr } = await run(['up']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^INVALID_CONFIG: /);
    expect(stderr).toContain('ecliptic.json:3:10: log: ');
    expect(stderr).toContain('ecliptic.json:4:13: roster: ');
    expect(existsSync(join(folder, 'state'))).toBe(false);
  });

  it('refuses a data folder that is a file', async () => {
    writeFileSync(join(folder, 'data'), '');
    expect(await run(['up', '--data', join(folder, 'data')])).toMatchObject({
      code: 1,
      stderr: startingWith('DATA_FOLDER: '),
    });
  });

  it('refuses a folder in place of its socket, and leaves nothing behind', async () => {
    mkdirSync(join(folder, 'data', 'control.sock'), { recursive: true });
    expect(await run(['up', '--data', join(folder, 'data')])).toMatchObject({
      code: 1,
      stderr: startingWith('DATA_FOLDER: '),
    });
    expect(existsSync(join(folder, 'data', 'node.lock'))).toBe(false);
  });

  it('starts without the roster on request, and lets configured agents replace Planetary ones', async () => {
    writeAll(folder, {
      'alone.json': '{ "roster": false, "agents": { "mars": { "tier": 0 } } }',
      'together.json': '{ "agents": { "mars": { "tier": 0, "name": "Ares" } } }',
    });
    const alone = await up(['--data', join(folder, 'a'), '--config', 'alone.json']);
    const together = await up(['--data', join(folder, 'b'), '--config', 'together.json']);
    expect([alone.ready.agents, together.ready.agents]).toEqual([1, 21]);
    const { stdout } = await run(['card', 'mars', '--data', join(folder, 'b'), '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ tier: 0, name: 'Ares' });
  });
});

describe('settings', () => {
  it('name the data folder by flag, else environment, else file, else the user’s own', async () => {
    const at = (name: string) => join(folder, name);
    const env = { ECLIPTIC_DATA: at('by-environment') };
    const dataWith = async (args: string[], init: Partial<RunInit> = {}) => {
      const node = await up(args, init);
      await stop(node);
      return node.ready.data;
    };
    expect(await dataWith([])).toBe(join(folder, '.local', 'state', 'ecliptic'));
    expect(await dataWith([], { env: { XDG_STATE_HOME: at('xdg') } })).toBe(join(at('xdg'), 'ecliptic'));
    writeFileSync(at('ecliptic.json'), '{ "data": "./by-file" }');
    expect(await dataWith([])).toBe(at('by-file'));
    expect(await dataWith([], { env })).toBe(at('by-environment'));
    expect(await dataWith(['--data', 'by-flag'], { env })).toBe(at('by-flag'));
  });

  it('name the data folder for every command the same way', async () => {
    writeFileSync(join(folder, 'ecliptic.json'), '{ "data": "./by-file" }');
    const byFile = await up([]);
    const byEnvironment = await up([], { env: { ECLIPTIC_DATA: 'by-environment' } });
    const byFlag = await up(['--data', 'by-flag']);
    const stopped = async (args: string[], env: Record<string, string> = {}) =>
      JSON.parse((await run(['down', ...args, '--json'], { env })).stdout);
    const env = { ECLIPTIC_DATA: 'by-environment' };
    expect(await stopped(['--data', 'by-flag'], env)).toMatchObject({ node: byFlag.ready.node });
    expect(await stopped([], env)).toMatchObject({ node: byEnvironment.ready.node });
    expect(await stopped([])).toMatchObject({ node: byFile.ready.node });
  });

  it('name the file by flag, else environment, else the working folder', async () => {
    for (const name of ['ecliptic', 'by-environment', 'by-flag']) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'node.json'), `{ "data": "./${name}-data" }`);
    }
    writeFileSync(join(folder, 'ecliptic.json'), '{ "data": "./working-folder-data" }');
    const env = { ECLIPTIC_CONFIG: 'by-environment/node.json' };
    const nodes = [await up([]), await up([], { env }), await up(['--config', 'by-flag/node.json'], { env })];
    expect(nodes.map(({ ready }) => ready.data)).toEqual([
      join(folder, 'working-folder-data'),
      join(folder, 'by-environment', 'by-environment-data'),
      join(folder, 'by-flag', 'by-flag-data'),
    ]);
    const { stdout } = await run(['config', 'check', '--json'], { env });
    expect(JSON.parse(stdout)).toMatchObject({ file: join(folder, 'by-environment', 'node.json') });
  });

  it('name the log level by flag, else environment, else file, else info', async () => {
    const logs = async (args: string[], env: Record<string, string> = {}) => {
      const { stderr } = await stop(await up(args, { env }));
      if (stderr === '') return 'silent';
      const lines = stderr.trimEnd().split('\n');
      expect(lines.map((line) => JSON.parse(line))).toMatchObject([
        { level: 30, msg: 'node started' },
        { level: 30, msg: 'node stopped' },
      ]);
      return 'info';
    };
    expect(await logs([])).toBe('info');
    writeFileSync(join(folder, 'ecliptic.json'), '{ "log": "silent" }');
    expect(await logs([])).toBe('silent');
    expect(await logs([], { ECLIPTIC_LOG: 'info' })).toBe('info');
    expect(await logs(['--log', 'error'], { ECLIPTIC_LOG: 'info' })).toBe('silent');
  });
});

describe('an agent’s module', () => {
  it.each([
    ['throws in a request', `agent.onRequest(() => { throw new Error('boo'); });`],
    ['throws in a notification', `agent.onNotification(() => { throw new Error('boo'); });`],
    ['throws later in a notification', `agent.onNotification(async () => { await null; throw new Error('boo'); });`],
    ['throws what has no text', `agent.onNotification(() => { throw Object.create(null); });`],
    ['rejects with what has no text', `agent.onNotification(async () => { throw Object.create(null); });`],
    ['leaves a failed promise alone', `agent.onNotification(() => { agent.send('nobody', 1); });`],
    ['throws in a timer', `agent.onNotification(() => { setImmediate(() => { throw new Error('boo'); }); });`],
  ])('that %s does not take the others down', async (_, body) => {
    writeAll(folder, {
      'ecliptic.json': JSON.stringify({
        data: './data',
        agents: { faulty: { module: './faulty.mjs' }, ...echoing('mars') },
      }),
      'faulty.mjs': `export function setup(agent) { ${body} }`,
    });
    const node = await up([]);
    const ask = ['request', '--as', 'sun', '--json', '1', '--to'];
    await run(['send', '--as', 'sun', '--to', 'faulty', '1']);
    await run([...ask, 'faulty', '--timeout', '100']);
    expect(await run([...ask, 'mars'])).toMatchObject({ code: 0, stdout: expect.stringContaining('"id":"mars"') });
    expect(await stop(node)).toMatchObject({ code: 0 });
  });

  it.each([
    ['throws in setup', 'export function setup() { throw new Error("not today"); }', 'not today'],
    ['has no setup', 'export const start = 1;', 'setup'],
    ['is not there', undefined, 'faulty.mjs'],
    ['does not parse', 'export function setup( {', 'faulty.mjs'],
  ])('that %s is shown as failed, and the others serve', async (_, source, reason) => {
    writeAll(folder, {
      'ecliptic.json': `{ "data": "./data", "agents": {
        "faulty": { "module": "./faulty.mjs" }, "fine": { "module": "./fine.ts" } } }`,
      'fine.ts': 'export const setup = (agent: { onRequest(f: () => string): void }) => agent.onRequest(() => "fine");',
      ...(source === undefined ? {} : { 'faulty.mjs': source }),
    });
    const node = await up([]);
    expect(node.ready.failed).toEqual([
      { agent: 'faulty', code: 'MODULE_FAILED', message: expect.stringContaining(reason) },
    ]);
    const { stdout } = await run(['agents', '--json']);
    const rows = JSON.parse(stdout) as AgentRow[];
    expect(rows.filter(({ state }) => state === 'failed')).toEqual([
      expect.objectContaining({ id: 'faulty', failure: expect.stringContaining(reason) }),
    ]);
    expect(await run(['request', '--as', 'sun', '--to', 'fine', '--json', '1'])).toMatchObject({ stdout: '"fine"\n' });
  });
});

describe('the end of a node', () => {
  it('by down is complete when down returns', async () => {
    const args = ['--data', join(folder, 'data')];
    const node = await up(args);
    const down = await run(['down', ...args]);
    expect(down).toMatchObject({ code: 0, stdout: expect.stringContaining(String(node.ready.pid)) });
    expect(existsSync(node.ready.control)).toBe(false);
    expect(await node.finished).toMatchObject({ code: 0, signal: null });
    expect(existsSync(join(folder, 'data', 'node.lock'))).toBe(false);
    const again = await up(args);
    const program = await run(['down', ...args, '--json']);
    expect(JSON.parse(program.stdout)).toEqual({ stopped: true, node: again.ready.node, pid: again.ready.pid });
    expect(await again.finished).toMatchObject({ code: 0 });
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'by %s leaves neither socket nor lock, and counts as the owner’s [T-A15]',
    async (signal) => {
      const node = await up(['--data', join(folder, 'data')]);
      node.child.kill(signal);
      expect(await node.finished).toMatchObject({ code: 0, signal: null });
      expect(existsSync(node.ready.control)).toBe(false);
      expect(existsSync(join(folder, 'data', 'node.lock'))).toBe(false);
      expect(stoppedAt(join(folder, 'data'))).toBeGreaterThan(0);
    },
  );

  it('still answers earlier requests, and refuses new ones', async () => {
    const { node, client, underWay, answer } = await upWith(slowModule(300));
    await underWay;
    await client.call('down');
    await expect(client.call('metrics')).rejects.toMatchObject({ code: 'NODE_STOPPED' });
    expect(await answer).toBe('done');
    expect(await node.finished).toMatchObject({ code: 0 });
  });

  it('still answers a command that waits', async () => {
    const { node, client, underWay } = await upWith(slowModule(300), 'command');
    const request = run(['request', '--as', 'sun', '--to', 'own', '--json', '1']);
    await underWay;
    const down = run(['down']);
    expect(await request).toEqual({ code: 0, stdout: '"done"\n', stderr: '' });
    expect(await down).toMatchObject({ code: 0 });
    expect(await node.finished).toMatchObject({ code: 0 });
    await client.closed;
  });

  it.each<[NodeJS.Signals, NodeJS.Signals, number]>([
    ['SIGTERM', 'SIGTERM', 143],
    ['SIGINT', 'SIGINT', 130],
    ['SIGINT', 'SIGTERM', 143],
    ['SIGTERM', 'SIGINT', 130],
  ])('by %s waits for a handler that hangs, but a %s after it ends at once', async (first, second, code) => {
    const { node, client, underWay, answer } = await upWith(
      'export function setup(agent) { agent.onRequest(() => new Promise(() => {})); }',
    );
    await underWay;
    node.child.kill(first);
    await refusedWith(client, 'NODE_STOPPED');
    node.child.kill(second);
    expect(await node.finished).toMatchObject({ code });
    await expect(answer).rejects.toMatchObject({ code: 'NO_NODE' });
    const next = await up([]);
    expect(await stop(next)).toMatchObject({ code: 0 });
  });

  it('is not prevented by a timer that a module left running', { timeout: 15_000 }, async () => {
    const { node, client } = await upWith('export function setup() { setInterval(() => {}, 1_000); }', 'command');
    await client.call('down');
    await client.closed;
    expect(await node.finished).toMatchObject({ code: 0 });
  });

  it('leaves only JSON in the log, however many requests one connection made', async () => {
    writeAll(folder, { 'ecliptic.json': JSON.stringify({ agents: echoing('mars') }) });
    const node = await up(['--data', join(folder, 'data')]);
    const client = await ControlClient.connect(node.ready.control);
    for (let n = 0; n < 50; n++) await client.call('request', { as: 'sun', to: 'mars', payload: n });
    const { stderr } = await stop(node);
    expect(stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))).toEqual([]);
  });

  it('ends commands that follow the node', async () => {
    const node = await up(['--data', join(folder, 'data')]);
    const tail = launch(['tail', '--data', join(folder, 'data')], { folder, children: started });
    const finished = finish(tail);
    const client = await ControlClient.connect(node.ready.control);
    const sawOne = once(tail.stdout!, 'data').then(() => true);
    let listening = false;
    void sawOne.then(() => {
      listening = true;
    });
    while (!listening) await client.call('send', { as: 'sun', to: 'mars', payload: 1 });
    node.child.kill('SIGTERM');
    expect(await node.finished).toMatchObject({ code: 0 });
    expect(await finished).toMatchObject({ code: 1, stderr: startingWith('NO_NODE: ') });
  });

  /** A node with one agent of its own, which is asked something unless a command will ask it. */
  async function upWith(source: string, asker: 'client' | 'command' = 'client') {
    writeAll(folder, {
      'ecliptic.json': '{ "data": "./data", "agents": { "own": { "module": "./own.mjs" } } }',
      'own.mjs': source,
    });
    const node = await up([]);
    const client = await ControlClient.connect(node.ready.control);
    const underWay = new Promise<void>((resolve) => {
      const seen = (event: unknown) => {
        const { type, recipient } = event as A2ALogEvent;
        if (type === 'message-received' && recipient === 'own') resolve();
      };
      client.call('tail', {}, seen).catch(() => {});
    });
    const answer = asker === 'client' ? client.call('request', { as: 'sun', to: 'own', payload: 1 }) : undefined;
    answer?.catch(() => {});
    return { node, client, underWay, answer };
  }
});

interface RunInit {
  cwd: string;
  folder: string;
  env: Record<string, string>;
  input: string;
  children: Set<ChildProcess>;
}

interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface RunningNode {
  readonly child: ChildProcess;
  readonly ready: {
    readonly node: string;
    readonly control: string;
    readonly data: string;
    readonly pid: number;
    readonly http: string;
    readonly token: string;
    readonly agents: number;
    readonly failed: readonly { agent: string; code: string; message: string }[];
    readonly takenPort?: number;
  };
  stderr(): string;
  /** The output after the ready line, when the process has ended. */
  readonly finished: Promise<Finished>;
}

function environment(home: string, env: Record<string, string> = {}): Record<string, string> {
  const temporary = join(home, 'tmp');
  mkdirSync(temporary, { recursive: true });
  return childEnvironment(home, { TMPDIR: temporary, ...env });
}

function launch(args: readonly string[], init: Partial<RunInit>): ChildProcess {
  const { folder: home = folder, cwd = home, env, children = started } = init;
  const child = spawn(process.execPath, [BIN, ...args], { cwd, env: environment(home, env) });
  children.add(child);
  child.once('exit', () => children.delete(child));
  child.stdin.on('error', () => {});
  child.stdin.end(init.input ?? '');
  return child;
}

async function finish(child: ChildProcess): Promise<Finished> {
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout!.on('data', (data) => stdout.push(data));
  child.stderr!.on('data', (data) => stderr.push(data));
  const [code, signal] = await once(child, 'close');
  return { code, signal, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
}

async function run(args: readonly string[], init: Partial<RunInit> = {}): Promise<Omit<Finished, 'signal'>> {
  const { code, stdout, stderr } = await finish(launch(args, init));
  if (args.includes('--json')) await expectJsonOutput(args, { stdout, stderr });
  return { code, stdout, stderr };
}

async function up(args: readonly string[], init: Partial<RunInit> = {}): Promise<RunningNode> {
  const child = launch(['up', ...args, '--json'], init);
  let stderr = '';
  child.stderr!.on('data', (data) => {
    stderr += data;
  });
  const lines = createInterface({ input: child.stdout! });
  const closed = once(child, 'close');
  const first = await Promise.race([
    once(lines, 'line').then(([line]) => line as string),
    closed.then(() => undefined),
  ]);
  if (first === undefined) throw new Error(`the node did not start: ${stderr}`);
  const later: string[] = [];
  lines.on('line', (line) => later.push(line));
  const finished = closed.then(([code, signal]) => ({ code, signal, stdout: later.join('\n'), stderr }));
  return { child, ready: JSON.parse(first), stderr: () => stderr, finished };
}

/** The output of the process, up to the line with the given text. */
function linesUntil(child: ChildProcess, last: string): Promise<string[]> {
  const lines: string[] = [];
  return new Promise((resolve) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      lines.push(line);
      if (line.includes(last)) resolve(lines);
    });
  });
}

async function stop(node: RunningNode): Promise<Finished> {
  node.child.kill('SIGTERM');
  return node.finished;
}

async function endAll(children: Set<ChildProcess>): Promise<void> {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}

/** Sends requests until the node refuses them because it is stopping. */
async function refusedWith(client: ControlClient, code: string): Promise<void> {
  for (;;) {
    const error = await client
      .call('metrics')
      .then(() => undefined)
      .catch((thrown: EclipticError) => thrown);
    if (!error) continue;
    expect(error.code).toBe(code);
    return;
  }
}

function slowModule(ms: number): string {
  return `export function setup(agent) {
    agent.onRequest(() => new Promise((resolve) => setTimeout(() => resolve('done'), ${ms})));
  }`;
}

function writeAll(home: string, files: Record<string, string>): void {
  for (const [name, content] of Object.entries(files)) writeFileSync(join(home, name), content);
}

function startingWith(start: string): string {
  return expect.toSatisfy((text: string) => text.startsWith(start), `starts with ${start}`);
}
