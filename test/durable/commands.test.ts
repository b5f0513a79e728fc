import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Receipt } from '../../src/mail/receipt.js';
import { audit, type JournalRow } from '../../src/mesh/audit/tables.js';
import type { RoutingResult } from '../../src/mesh/schemas.js';
import type { Config } from '../../src/node/config/schema.js';
import type { MailRow } from '../../src/node/control/rows.js';
import { openStore } from '../../src/node/tables.js';
import { ECHO } from '../echo-agents.js';
import { Cluster, type Finished, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const ARGS = ['--no-dht', '--listen', '127.0.0.1:0'];
const ID = /^[0-9A-HJKMNP-TV-Z]{26}$/;

interface Told {
  readonly id: string;
  readonly state: string;
  readonly over: boolean;
  readonly story: Receipt;
}

let cluster: Cluster;
let a: ProcessNode;
let b: ProcessNode;

beforeAll(async () => {
  cluster = new Cluster();
  const agents: Config['agents'] = {
    ann: { tier: 0 },
    low: { tier: 3 },
    high: { tier: 1 },
    idle: idle(),
    asked: { module: join(cluster.folder, 'asked.mjs') },
  };
  writeFileSync(join(cluster.folder, 'asked.mjs'), 'export const setup = (agent) => agent.onRequest(() => 1);');
  [a, b] = await Promise.all([
    cluster.start('a', { args: ARGS, config: { roster: false, agents } }),
    cluster.start('b', { args: ARGS, config: { roster: false, agents: { bob: { tier: 0, module: ECHO } } } }),
  ]);
  await a.admit(b);
  await untilConnected([a, b]);
  await until(async () => (await a.agents()).some(({ id }) => id === 'bob'), 'a knows bob');
});

afterAll(() => cluster.end());

describe('send --durable', () => {
  it('stores the message, and names the command that shows its receipt', async () => {
    const { code, stdout, stderr } = await a.run('send', '--durable', '--as', 'ann', '--to', 'bob', '{"hello":"bob"}');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^stored for bob@${b.key}; see: ecliptic receipt [0-9A-Z]{26}\n$`));
    const id = stdout.trim().split(' ').at(-1)!;
    await over(a, id);
    expect((await a.json<Told>('receipt', id)).state).toBe('done');
  });

  it('says the same as JSON, and takes a shortened address', async () => {
    const result = await a.json<RoutingResult>(
      'send',
      '--durable',
      '--as',
      'ann',
      '--to',
      `bob@${b.key.slice(0, 6)}`,
      '1',
    );
    expect(result).toMatchObject({ delivered: false, stored: true, path: 'remote', targetAgentId: `bob@${b.key}` });
    expect(result.messageId).toMatch(ID);
  });

  it('takes a time to live as milliseconds or with a unit', async () => {
    for (const [ttl, ms] of [
      ['90000', 90_000],
      ['90s', 90_000],
      ['1.5h', 5_400_000],
      ['7d', 604_800_000],
    ] as const) {
      await a.json('send', '--durable', '--ttl', ttl, '--as', 'ann', '--to', 'idle', '1');
      const [row] = (await a.call<MailRow[]>('inbox', { as: 'idle' })).slice(-1);
      expect(Math.abs(row!.expiresAt! - row!.at - ms), ttl).toBeLessThan(1_000);
    }
  });

  it('lets a message expire', async () => {
    const { messageId } = await a.json<RoutingResult>(
      'send',
      '--durable',
      '--ttl',
      '300',
      '--as',
      'ann',
      '--to',
      'idle',
      '1',
    );
    await over(a, messageId!);
    const { code, stdout } = await a.run('receipt', messageId!);
    expect(code).toBe(0);
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.replace(/^\S+ {2}/, '')),
    ).toEqual(['stored', 'arrived', 'expired: its time to live ran out before it was read']);
  });

  it.each(['soon', '5 minutes', '0s', '', '1w', '1e3', 'Infinity'])('refuses "%s" as the time to live', async (ttl) => {
    await expectUsage(a.run('send', '--durable', '--ttl', ttl, '--as', 'ann', '--to', 'bob', '1'), '--ttl');
  });

  it('refuses a time to live of zero', async () => {
    await expectUsage(a.run('send', '--durable', '--ttl', '0', '--as', 'ann', '--to', 'bob', '1'), '--ttl');
  });

  it('says why a message is not stored', async () => {
    const refused = async (...args: string[]) => {
      const { code, stdout, stderr } = await a.run('send', '--durable', ...args, '--json', '1');
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      return JSON.parse(stderr).error.code;
    };
    expect(await refused('--as', 'ann', '--to', 'nobody')).toBe('AGENT_NOT_FOUND');
    expect(await refused('--as', 'nobody', '--to', 'bob')).toBe('AGENT_NOT_FOUND');
    expect(await refused('--as', 'high', '--to', 'low')).toBe('TIER_VIOLATION');
    expect(await refused('--as', 'low', '--to', 'bob', '--type', 'task-proposal')).toBe('ESCALATION_REQUIRED');
    expect(await refused('--as', 'ann', '--to', 'low', '--type', 'request')).toBe('NO_WORKER');
    expect(await refused('--as', 'ann', '--to', '*')).toBe('INVALID_ENVELOPE');
    expect(await refused('--as', 'ann', '--capability', 'none')).toBe('CAPABILITY_NOT_FOUND');
  });
});

describe('receipt', () => {
  it('prints a line for each state, the same on both nodes', async () => {
    const { messageId } = await a.call<RoutingResult>('send', { as: 'ann', to: 'bob', payload: 1, durable: true });
    await over(a, messageId!);
    await over(b, messageId!);
    const { code, stdout } = await a.run('receipt', messageId!);
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split('\n');
    for (const line of lines) expect(line).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z {2}[a-z]+$/);
    expect(lines.map((line) => line.split('  ')[1])).toEqual(['stored', 'arrived', 'read', 'done']);
    const [here, there] = await Promise.all([a.json<Told>('receipt', messageId!), b.json<Told>('receipt', messageId!)]);
    expect(here).toMatchObject({ id: messageId, state: 'done', over: true });
    expect(there).toEqual(here);
  });

  it('of a notification to a module that only answers requests stays at arrived [RC2]', async () => {
    const sent = await a.call<RoutingResult>('send', { as: 'ann', to: 'asked', payload: 'stop', durable: true });
    const told = await a.call<{ id: string }>('tell', { to: 'asked', text: 'please stop' });
    expect(await a.call('request', { as: 'ann', to: 'asked', payload: 1 })).toBe(1);
    await delay(500);
    for (const id of [sent.messageId!, told.id]) {
      const { story } = await a.json<Told>('receipt', id);
      expect(story.map(({ state }) => state)).toEqual(['stored', 'arrived']);
    }
  });

  it('of an unknown message is RECEIPT_NOT_FOUND', async () => {
    const { code, stdout, stderr } = await a.run('receipt', 'nothing');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^RECEIPT_NOT_FOUND: .*"nothing"/);
    await expectUsage(a.run('receipt'), 'usage: ecliptic receipt ID');
    await expectUsage(a.run('receipt', 'one', 'two'), 'usage: ecliptic receipt ID');
  });
});

describe('inbox', () => {
  it('lists the messages that an agent has not dealt with', async () => {
    const payload = { text: 'two\nlines \u001b[31m and a colour' };
    const { messageId } = await a.call<RoutingResult>('send', { as: 'ann', to: 'idle', payload, durable: true });
    const { code, stdout } = await a.run('inbox', '--as', 'idle');
    expect(code).toBe(0);
    const [head, ...rows] = stdout.trimEnd().split('\n');
    expect(head!.split(/ {2,}/)).toEqual(['ID', 'FROM', 'TO', 'TYPE', 'STATE', 'SINCE', 'PAYLOAD']);
    expect(rows.at(-1)).toMatch(new RegExp(`^${messageId} +ann +idle +notification +arrived +\\S+ +\\{"text":"two`));
    expect(stdout).not.toContain('\u001b');
    const found = (await a.json<MailRow[]>('inbox', '--as', 'idle')).at(-1);
    expect(found).toMatchObject({ id: messageId, from: 'ann', to: 'idle', thread: null, payload, state: 'arrived' });
  });

  it('of an agent that has dealt with all messages is empty', async () => {
    expect(await b.run('inbox', '--as', 'bob')).toMatchObject({ code: 0, stdout: 'the inbox is empty\n' });
    expect(await b.json('inbox', '--as', 'bob')).toEqual([]);
  });

  it('of an unknown agent is AGENT_NOT_FOUND', async () => {
    const { code, stderr } = await a.run('inbox', '--as', 'nobody');
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^AGENT_NOT_FOUND: /) });
  });

  it('waits for the next message on request', async () => {
    const c = await cluster.start('c', {
      args: ['--no-dht'],
      config: { roster: false, agents: { ann: {}, idle: idle() } },
    });
    const waiting = c.json<MailRow[]>('inbox', '--as', 'idle', '--wait');
    // Once the node has its call, that is answered no sooner than something comes.
    await delay(1_500);
    await c.call('send', { as: 'ann', to: 'idle', payload: 'at last', durable: true });
    expect(await waiting).toMatchObject([{ payload: 'at last' }]);
    expect(await c.json<MailRow[]>('inbox', '--as', 'idle', '--wait')).toHaveLength(1);
    await c.stop();
  });

  it('waits for a message to that agent, not for any', async () => {
    const c = await cluster.start('d', {
      args: ['--no-dht'],
      config: { roster: false, agents: { ann: {}, idle: idle(), other: idle() } },
    });
    try {
      let ended = false;
      const waiting = c.call<MailRow[]>('inbox', { as: 'idle', waitMs: 1 }).finally(() => {
        ended = true;
      });
      await delay(500);
      await c.call('send', { as: 'ann', to: 'other', payload: 'not for you', durable: true });
      await delay(500);
      expect(ended).toBe(false);
      await c.call('send', { as: 'ann', to: 'idle', payload: 'for you', durable: true });
      expect(await waiting).toMatchObject([{ payload: 'for you' }]);
    } finally {
      await c.stop();
    }
  });
});

describe('log', () => {
  it('shows decisions, and the reasons of refusals', async () => {
    await a.run('send', '--as', 'high', '--to', 'low', '--thread', 'a-thread', '1');
    await a.call('send', { as: 'low', to: 'high', payload: 2, thread: 'a-thread' });
    const { code, stdout } = await a.run('log', '--thread', 'a-thread');
    expect(code).toBe(0);
    const [head, ...lines] = stdout.trimEnd().split('\n');
    expect(head!.split(/ {2,}/)).toEqual(['TIME', 'FROM', 'TO', 'TYPE', 'DECISION', 'ID']);
    expect(lines.map((line) => line.split(/ {2,}/).slice(1, 5))).toEqual([
      ['high', 'low', 'notification', 'TIER_VIOLATION'],
      ['low', 'high', 'notification', 'delivered'],
    ]);
    const rows = await a.json<JournalRow[]>('log', '--thread', 'a-thread');
    expect(rows).toMatchObject([{ code: 'TIER_VIOLATION' }, { code: null }]);
    expect(await a.json('log', '--thread', 'a-thr')).toEqual(rows);
    const agent = await a.json<JournalRow[]>('log', '--agent', 'low', '--since', '1h', '--limit', '1');
    expect(agent).toEqual(rows.slice(-1));
    expect(await a.json('log', '--since', new Date(Date.now() + 60_000).toISOString())).toEqual([]);
    expect((await a.run('log', '--thread', 'none')).stdout).toBe('no decisions match\n');
  });

  it.each([
    ['--since', 'yesterday'],
    ['--since', ''],
    ['--limit', 'many'],
    ['--limit', ''],
  ])('refuses %s "%s"', async (option, value) => {
    await expectUsage(a.run('log', option, value), option);
  });

  it.each(['1.5', '-1'])('refuses --limit %s', async (value) => {
    await expectUsage(a.run('log', `--limit=${value}`), '--limit');
  });
});

describe('export and replay', () => {
  it('write the journal, and apply the present rules to it', async () => {
    const { code, stdout } = await a.run('export');
    expect(code).toBe(0);
    const rows: JournalRow[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1));
    const file = join(cluster.folder, 'journal.jsonl');
    writeFileSync(file, `\n${stdout}\n\n`);
    expect((await a.run('replay', file)).stdout).toBe(`${rows.length} decisions, 0 would differ\n`);
    expect(await a.json('replay', file)).toEqual({ asked: rows.length, differences: [] });
    // Another node, under other rules.
    const rules = [
      { sourceTier: 0 as const, allowedTargetTiers: [0, 1, 2, 3] as const, requiresEscalationJustification: false },
    ];
    const tiers = { rules: rules.map((rule) => ({ ...rule, allowedTargetTiers: [...rule.allowedTargetTiers] })) };
    const strict = await cluster.start('strict', { args: ['--no-dht'], config: { roster: false, tiers } });
    const expected = rows.filter(({ code: was, decision }) => {
      const { source, inReply } = JSON.parse(decision);
      return (was === null || was === 'ESCALATION_REQUIRED') && source.tier > 0 && !inReply;
    });
    const { differences } = await strict.json<{ differences: { envelopeId: string; now: string }[] }>('replay', file);
    expect(differences.map(({ envelopeId }) => envelopeId)).toEqual(expected.map(({ envelopeId }) => envelopeId));
    expect(expected.length).toBeGreaterThan(0);
    const { stdout: human } = await strict.run('replay', file);
    expect(human).toContain(`${rows.length} decisions, ${expected.length} would differ\n`);
    expect(human).toMatch(/ {2}\S+ {2}low → high {2}notification: was delivered, would be TIER_VIOLATION\n/);
    await strict.stop();
  });

  it('apply the present rules to one message, or one thread', async () => {
    const [row] = await a.json<JournalRow[]>('log', '--thread', 'a-thread', '--limit', '1');
    expect((await a.run('replay', row!.envelopeId)).stdout).toBe('1 decisions, 0 would differ\n');
    expect((await a.run('replay', 'a-thread')).stdout).toBe('2 decisions, 0 would differ\n');
    expect((await a.run('replay', 'a-thr')).stdout).toBe('2 decisions, 0 would differ\n');
    await expectUsage(a.run('replay', 'nothing-like-it'), 'nothing-like-it');
    await expectUsage(a.run('replay'), 'usage: ecliptic replay FILE|ID');
  });

  it('name the line that is not a journal entry', async () => {
    const file = join(cluster.folder, 'broken.jsonl');
    writeFileSync(file, '{}\n{"seq":1,\n');
    await expectUsage(a.run('replay', file), `${file}:2`);
    writeFileSync(file, '{"some":"thing else"}\n');
    const { code, stderr } = await a.run('replay', file);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^INVALID_ENVELOPE: /) });
  });

  it('name the line that is not a journal entry, also after empty lines', async () => {
    const file = join(cluster.folder, 'gaps.jsonl');
    writeFileSync(file, '\n\n{"seq":1,\n');
    await expectUsage(a.run('replay', file), `${file}:3`);
  });

  it('refuse a folder', async () => {
    await expectUsage(a.run('replay', cluster.folder), cluster.folder);
  });

  it('apply the present rules to a journal of any size', async () => {
    const [row] = (await a.run('export')).stdout.split('\n');
    const file = join(cluster.folder, 'long.jsonl');
    const count = Math.ceil((9 * 1_048_576) / row!.length);
    writeFileSync(file, `${row}\n`.repeat(count));
    const { code, stdout, stderr } = await a.run('replay', file);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: `${count} decisions, 0 would differ\n`, stderr: '' });
  });
});

describe('messages of the largest size', () => {
  const count = 18;
  let c: ProcessNode;

  beforeAll(async () => {
    c = await cluster.start('large', {
      args: ['--no-dht'],
      config: { roster: false, agents: { ann: {}, idle: idle() } },
    });
    const payload = 'x'.repeat(1_000_000);
    for (let n = 0; n < count; n++) await c.call('send', { as: 'ann', to: 'idle', payload, durable: true });
  });

  afterAll(async () => {
    await c.stop();
  });

  it('can be listed', async () => {
    const { code, stderr } = await c.run('inbox', '--as', 'idle');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('can be searched', async () => {
    const { code, stderr } = await c.run('log');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('can be exported', async () => {
    const { code, stdout, stderr } = await c.run('export');
    expect({ code, stderr, lines: stdout.split('\n').length - 1 }).toEqual({ code: 0, stderr: '', lines: count });
  });
});

describe('outbox', () => {
  it('lists the messages for an absent node until it comes back', async () => {
    await untilNothingWaits();
    expect(await a.run('outbox')).toMatchObject({ code: 0, stdout: 'nothing waits to go out\n' });
    expect(await a.json('outbox')).toEqual([]);
    await b.crash();
    const to = `bob@${b.key}`;
    const sent = await a.json<RoutingResult>(
      'send',
      '--durable',
      '--as',
      'ann',
      '--to',
      to,
      '--thread',
      't',
      '{"n":1}',
    );
    const { stdout } = await a.run('outbox');
    const [, line] = stdout.trimEnd().split('\n');
    const short = b.key.slice(0, 12);
    expect(line).toMatch(new RegExp(`^${sent.messageId} +ann +bob@${short} +notification +stored +\\S+ +\\{"n":1\\}$`));
    const row = { id: sent.messageId, from: 'ann', to, thread: 't', payload: { n: 1 }, state: 'stored' };
    expect(await a.json<MailRow[]>('outbox')).toMatchObject([row]);
    await b.start();
    await untilNothingWaits();
    await over(a, sent.messageId!);
  });
});

describe('audit verify', () => {
  it('reports an intact log', async () => {
    const { code, stdout } = await a.run('audit', 'verify');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^audit log intact: \d+ rows verified\n$/);
    const report = await a.json<{ rows: number }>('audit', 'verify');
    expect(report).toEqual({ rows: expect.any(Number), fault: null });
    expect(report.rows).toBeGreaterThan(3);
    await expectUsage(a.run('audit', 'verity'), 'usage: ecliptic audit verify');
    await expectUsage(a.run('audit'), 'usage: ecliptic audit verify');
  });

  it('reports a log that was edited while the node was down', async () => {
    await a.stop();
    const store = await openStore(a.data);
    const [row] = await store.read(audit, { where: { seq: 2 } });
    await store.write([audit.put({ ...row!, event: row!.event.replace('{', '{"x":1,') })]);
    await store.close();
    await a.start();
    const { code, stdout, stderr } = await a.run('audit', 'verify');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^AUDIT_BROKEN: the audit log is broken: row 2 has a wrong digest/);
    const { stderr: json } = await a.run('audit', 'verify', '--json');
    expect(JSON.parse(json).error).toMatchObject({ code: 'AUDIT_BROKEN', details: { rows: 1 } });
  });
});

describe('every command about mail and records', () => {
  it.each([
    ['outbox'],
    ['inbox', '--as', 'x'],
    ['receipt', 'x'],
    ['log'],
    ['export'],
    ['replay', 'x'],
    ['audit', 'verify'],
  ])('%s says that no node runs here, and explains itself', async (...words) => {
    const { code, stderr } = await cluster.run([...words, '--data', join(cluster.folder, 'nobody')]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^NO_NODE: /) });
    const help = await cluster.run([words[0]!, '--help']);
    expect(help.code).toBe(0);
    expect(help.stdout).toContain(`usage: ecliptic ${words[0]}`);
  });
});

/** An agent that takes nothing: its mail waits. */
function idle() {
  const module = join(cluster.folder, 'idle.mjs');
  writeFileSync(module, 'export function setup() {}\n');
  return { tier: 0 as const, module };
}

async function over(node: ProcessNode, id: string): Promise<void> {
  const told = () => node.call<Told>('receipt', { id }).catch(() => undefined);
  await until(async () => (await told())?.over, `the story of ${id} is over`);
}

async function untilNothingWaits(): Promise<void> {
  await until(async () => (await a.call<MailRow[]>('outbox')).length === 0, 'nothing waits');
}

/** Wrong usage: exit code 2, a reason, and nothing else. */
async function expectUsage(run: Promise<Finished>, about: string): Promise<void> {
  const { code, stdout, stderr } = await run;
  expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: '', stderr: expect.stringMatching(/^USAGE: /) });
  expect(stderr).toContain(about);
}
