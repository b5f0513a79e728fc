import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fate, ProcessStore } from '../../../test/durable/simulated-mail.js';
import { ROOT } from '../../../test/source-files.js';
import { createNode, type EclipticNode, type NodeInit } from '../../node/compose.js';
import type { EclipticError } from '../../runtime/errors.js';
import { silentLogger } from '../../runtime/runtime.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { meta } from '../../store/common-tables.js';
import { MemoryStore } from '../../store/memory-store.js';
import type { Write } from '../../store/store.js';
import { A2AObservability } from '../observability.js';
import { Policy } from '../policy.js';
import type { A2ALogEvent, AgentTier, SandboxRoutingConfig } from '../schemas.js';
import { DEFAULT_TIER_RULES } from '../tier-config.js';
import { AuditLog } from './audit-log.js';
import { replay } from './journal-log.js';
import { RecordWriter } from './record-writer.js';
import { type AuditRow, audit as auditTable, type JournalRow, journal as journalTable } from './tables.js';

const FIXTURE = join(ROOT, 'test', 'fixtures', 'journal-1.jsonl');

let runtime: SimulatedRuntime;
let store: MemoryStore;
/** What the store is given, and what becomes of it. */
let watched: ProcessStore;
let batches: number[];
let fate: (writes: readonly Write[]) => Fate;

beforeEach(() => {
  runtime = new SimulatedRuntime();
  batches = [];
  fate = () => 'pass';
  open(new MemoryStore());
});

describe('a writer of records', () => {
  let writer: RecordWriter<Write>;
  let logged: unknown[];

  beforeEach(() => {
    logged = [];
    const logger = { ...silentLogger, error: (fields: object, message: string) => logged.push({ ...fields, message }) };
    runtime = new SimulatedRuntime({ logger });
    writer = new RecordWriter(runtime, watched, { name: 'journal', prepare: (writes) => ({ writes }) });
  });

  it('writes what comes within a moment in one go, and in order', async () => {
    for (let n = 1; n <= 100; n++) writer.add(note(n));
    await runtime.advance(10);
    expect(batches).toEqual([]);
    writer.add(note(101));
    await runtime.advance(15);
    expect(batches).toEqual([101]);
    expect(await written()).toEqual(numbers(101));
    expect(writer.dropped).toBe(0);
  });

  it('writes at once when many wait, and never more than 500 in one go', async () => {
    for (let n = 1; n <= 1_750; n++) writer.add(note(n));
    await runtime.advance(0);
    expect(batches).toEqual([500, 500, 500, 250]);
    expect(await written()).toEqual(numbers(1_750));
    await runtime.advance(1_000);
    expect(runtime.pending).toBe(0);
  });

  it('has everything on disk when a flush resolves', async () => {
    await writer.flush();
    for (let n = 1; n <= 700; n++) writer.add(note(n));
    await writer.flush();
    expect(await written()).toEqual(numbers(700));
    writer.add(note(701));
    await Promise.all([writer.flush(), writer.flush()]);
    expect(await written()).toEqual(numbers(701));
    expect(runtime.pending).toBe(0);
  });

  it('writes records that are added during a write', async () => {
    let release = () => {};
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    fate = () => slow;
    for (let n = 1; n <= 500; n++) writer.add(note(n));
    await runtime.advance(100);
    for (let n = 501; n <= 1_200; n++) writer.add(note(n));
    const flushed = writer.flush();
    fate = () => 'pass';
    release();
    await flushed;
    expect(await written()).toEqual(numbers(1_200));
  });

  it('has everything on disk when a flush resolves, also right after another', async () => {
    void writer.flush();
    writer.add(note(1));
    await writer.flush();
    await runtime.advance(1_000);
    expect(await written()).toEqual([1]);
  });

  it('drops what does not fit while the store stalls, and counts it', async () => {
    let release = () => {};
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    fate = () => slow;
    for (let n = 1; n <= 25_000; n++) writer.add(note(n));
    // One batch is with the store.
    expect(writer.dropped).toBe(25_000 - 20_500);
    release();
    await writer.flush();
    expect(await written()).toEqual(numbers(20_500));
  });

  it('loses the batch that a failing store refuses, counts and logs it, and goes on', async () => {
    fate = () => (batches.length >= 2 && batches.length < 6 ? 'fail' : 'pass');
    for (let n = 1; n <= 1_200; n++) writer.add(note(n));
    await writer.flush();
    expect(await written()).toEqual([...numbers(500), ...numbers(1_200).slice(1_000)]);
    expect(writer.dropped).toBe(500);
    expect(logged).toMatchObject([{ lost: 500, message: 'journal: records could not be written' }]);
  });

  it('loses only the record that cannot be stored', async () => {
    for (let n = 1; n <= 10; n++) writer.add(note(n));
    writer.add(meta.put({ name: 'half of a pair: \ud800', value: '' }));
    await writer.flush();
    expect(await written()).toEqual(numbers(10));
    expect(writer.dropped).toBe(1);
  });

  function note(n: number): Write {
    return auditTable.insert({ seq: n, at: n, event: '', digest: '' });
  }

  async function written(): Promise<number[]> {
    return (await store.read(auditTable, { orderBy: 'seq' })).map(({ seq }) => seq);
  }
});

describe('the audit log', () => {
  let observability: A2AObservability;
  let audit: AuditLog;

  beforeEach(async () => {
    observability = new A2AObservability({ logger: runtime.logger });
    audit = await AuditLog.open(runtime, watched, observability);
  });

  it('holds, from the first row to the last', async () => {
    expect(await audit.verify()).toEqual({ rows: 0, fault: null });
    happen(5);
    expect(await audit.verify()).toEqual({ rows: 5, fault: null });
    happen(2_500);
    expect(await audit.verify()).toEqual({ rows: 2_505, fault: null });
    await expect(audit.check()).resolves.toEqual({ rows: 2_505, fault: null });
  });

  it('has refusals of policy, messages across tiers, security events and peer changes, and nothing else [RE1]', async () => {
    const kept: Partial<A2ALogEvent>[] = [
      { type: 'security', code: 'SENDER_REFUSED' },
      { type: 'tier-audit', sourceTier: 0, targetTier: 3 },
      { type: 'peer-status', peerStatus: 'lost', node: 'x' },
      { type: 'routing-decision', success: false, code: 'TIER_VIOLATION' },
    ];
    const others: Partial<A2ALogEvent>[] = [
      { type: 'routing-decision', success: true },
      { type: 'message-sent' },
      { type: 'receipt', receiptState: 'done' },
    ];
    for (const event of [...kept, ...others]) emit(event);
    expect(await audit.verify()).toEqual({ rows: 4, fault: null });
    const rows = await rowsOf();
    expect(rows.map(({ event }) => JSON.parse(event))).toMatchObject(kept);
  });

  it('goes on where it was after a restart, in good order or not', async () => {
    happen(10);
    await audit.close();
    await reopen();
    happen(10);
    await runtime.advance(100);
    // A crash loses unwritten records only.
    happen(10);
    await reopen();
    expect(await audit.verify()).toEqual({ rows: 20, fault: null });
    happen(3);
    expect(await audit.verify()).toEqual({ rows: 23, fault: null });
  });

  it('takes no more when it is closed', async () => {
    await audit.close();
    happen(3);
    await runtime.advance(100);
    expect(await rowsOf()).toEqual([]);
  });

  const edits: [string, (rows: AuditRow[]) => Write[], RegExp][] = [
    [
      'an event',
      ([, , row]) => [put({ ...row!, event: row!.event.replace('refused', 'allowed') })],
      /^row 3 has a wrong digest/,
    ],
    ['a time', ([, , row]) => [put({ ...row!, at: row!.at + 1 })], /^row 3 has a wrong digest/],
    [
      'a digest',
      ([, , row]) => [put({ ...row!, digest: row!.digest.replace(/^./, (c) => (c === '0' ? '1' : '0')) })],
      /^row 3 has a wrong digest/,
    ],
    ['the first row', ([row]) => [put({ ...row!, event: '{}' })], /^row 1 has a wrong digest/],
    ['the last row', (rows) => [put({ ...rows.at(-1)!, event: '{}' })], /^row 10 has a wrong digest/],
    [
      'two rows, swapped',
      ([, , a, b]) => [put({ ...a!, seq: b!.seq }), put({ ...b!, seq: a!.seq })],
      /^row 3 has a wrong digest/,
    ],
    [
      'the contents of two rows, swapped',
      ([, , a, b]) => [
        put({ ...a!, event: b!.event, at: b!.at, digest: b!.digest }),
        put({ ...b!, event: a!.event, at: a!.at, digest: a!.digest }),
      ],
      /^row 3 has a wrong digest/,
    ],
    ['a row that is gone', () => [remove(4)], /^rows 4 to 4 are missing$/],
    ['several rows that are gone', () => [remove(4), remove(5), remove(6)], /^rows 4 to 6 are missing$/],
    ['a beginning that is gone', () => [remove(1), remove(2)], /^rows 1 to 2 are missing$/],
    ['an end that is gone', () => [remove(9), remove(10)], /^rows 9 to 10 are missing$/],
    [
      'everything gone',
      () => Array.from({ length: 10 }, (_, index) => remove(index + 1)),
      /^rows 1 to 10 are missing$/,
    ],
    [
      'a row gone and the others moved up',
      (rows) => [remove(10), ...rows.slice(3).map((row) => put({ ...row, seq: row.seq - 1 }))],
      /^row 3 has a wrong digest/,
    ],
    ['a row that was added', ([row]) => [put({ ...row!, seq: 11 })], /^row 11 has a wrong digest/],
  ];

  it.each(edits)('shows %s [RE2]', async (_what, edit, fault) => {
    happen(10);
    await audit.verify();
    await store.write(edit(await rowsOf()));
    const report = await audit.verify();
    expect(report.fault).toMatch(fault);
    await expect(audit.check()).rejects.toMatchObject({ code: 'AUDIT_BROKEN', details: report });
    // Nor does a restart mend it.
    await reopen();
    expect((await audit.verify()).fault).toMatch(fault);
  });

  it('shows an edit on any of many pages', async () => {
    happen(2_300);
    await audit.verify();
    for (const seq of [1, 999, 1_000, 1_001, 2_000, 2_001, 2_300]) {
      const [row] = await store.read(auditTable, { where: { seq } });
      await store.write([put({ ...row!, event: '{}' })]);
      expect((await audit.verify()).fault, `row ${seq}`).toMatch(new RegExp(`^row ${seq} has a wrong digest`));
      await store.write([put(row!)]);
    }
    expect(await audit.verify()).toEqual({ rows: 2_300, fault: null });
  });

  it('shows an end that is gone, also after a restart and more events', async () => {
    happen(10);
    await audit.close();
    await store.write([remove(9), remove(10)]);
    await reopen();
    happen(3);
    expect((await audit.verify()).fault).not.toBeNull();
  });

  it('does not take a store that failed for a moment for tampering', async () => {
    happen(5);
    await runtime.advance(100);
    fate = () => 'fail';
    happen(5);
    await runtime.advance(100);
    fate = () => 'pass';
    happen(5);
    expect((await audit.verify()).fault).toBeNull();
  });

  async function reopen(): Promise<void> {
    open(new MemoryStore(store.snapshot()));
    observability = new A2AObservability({ logger: runtime.logger });
    audit = await AuditLog.open(runtime, watched, observability);
  }

  function happen(count: number): void {
    for (let n = 0; n < count; n++) emit({ type: 'security', code: 'TIER_VIOLATION', reason: `refused ${n}` });
  }

  function emit(event: Partial<A2ALogEvent>): void {
    observability.emit({ timestamp: runtime.now(), ...event } as A2ALogEvent);
  }

  function rowsOf(): Promise<AuditRow[]> {
    return store.read(auditTable, { orderBy: 'seq' });
  }
});

function put(row: AuditRow): Write {
  return auditTable.put(row);
}

function remove(seq: number): Write {
  return auditTable.delete({ seq });
}

describe('the journal', () => {
  let node: EclipticNode;

  beforeEach(async () => {
    node = await startNode();
    populate(node);
  });

  afterEach(() => node.stop());

  it('has every decision about a message to one recipient, oldest first', async () => {
    await attempt('sun', 'io', 'delivered');
    await attempt('earth', 'io', 'TIER_VIOLATION');
    await attempt('cell1', 'sun', 'SANDBOX_VIOLATION');
    await attempt('io', 'sun', 'ESCALATION_REQUIRED', { type: 'task-proposal' });
    const rows = await node.records!.journal.search({});
    expect(rows.map(({ sender, recipient, type, code }) => [sender, recipient, type, code])).toEqual([
      ['sun', 'io', 'notification', null],
      ['earth', 'io', 'notification', 'TIER_VIOLATION'],
      ['cell1', 'sun', 'notification', 'SANDBOX_VIOLATION'],
      ['io', 'sun', 'task-proposal', 'ESCALATION_REQUIRED'],
    ]);
    expect(rows.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  });

  it('is searched in parts, and no further than its caller waits [RE3 FC.3]', async () => {
    for (let n = 0; n < 2_600; n++) await attempt('sun', n % 1_300 === 0 ? 'io' : 'mars', 'delivered', {});
    const { journal } = node.records!;
    const found = async (search: Parameters<typeof journal.search>[0]) =>
      (await journal.search(search)).map(({ seq }) => seq);
    expect(await found({ agent: 'io' })).toEqual([1, 1_301]);
    expect(await found({ agent: 'io', limit: 1 })).toEqual([1_301]);
    expect(await found({ agent: 'io', before: 1_301 })).toEqual([1]);
    expect(await found({ agent: 'sun', limit: 1_500 })).toEqual(Array.from({ length: 1_500 }, (_, at) => 1_101 + at));
    await expect(journal.search({ agent: 'io' }, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it('is searched by thread, by agent, by time and by number [RE3]', async () => {
    const start = runtime.now();
    for (let n = 0; n < 10; n++) {
      await attempt('sun', 'io', 'delivered', { thread: n % 2 ? 'odd' : 'even' });
      await attempt('mars', 'sun', 'delivered', { thread: 'odd' });
      await runtime.advance(1_000);
    }
    const { journal } = node.records!;
    const count = async (search: Parameters<typeof journal.search>[0]) => (await journal.search(search)).length;
    expect(await count({})).toBe(20);
    expect(await count({ thread: 'odd' })).toBe(15);
    expect(await count({ thread: 'none' })).toBe(0);
    expect(await count({ agent: 'sun' })).toBe(20);
    expect(await count({ agent: 'mars' })).toBe(10);
    expect(await count({ agent: 'io' })).toBe(10);
    expect(await count({ agent: 'io', thread: 'odd' })).toBe(5);
    expect(await count({ agent: 'nobody' })).toBe(0);
    expect(await count({ since: start + 5_000 })).toBe(10);
    expect(await count({ since: start + 5_001 })).toBe(8);
    expect(await count({ since: start + 5_000, agent: 'mars', thread: 'odd' })).toBe(5);
    expect(await count({ limit: 3 })).toBe(3);
    expect(await count({ limit: 0 })).toBe(0);
    const all = (await journal.search({ agent: 'sun' })).map(({ seq }) => seq);
    expect((await journal.search({ agent: 'sun', limit: 7 })).map(({ seq }) => seq)).toEqual(all.slice(-7));
    expect(all).toEqual([...all].sort((a, b) => a - b));
    for (const limit of [-1, 1.5, Number.NaN]) {
      await expect(journal.search({ limit })).rejects.toMatchObject({ code: 'STORE_FAILED' });
    }
  });

  it('shows the whole envelope of a durable message but for its payload, which it does not store', async () => {
    const options = { durable: true, ttlMs: 60_000, type: 'request', thread: 'kept' } as const;
    await settled(node.agentById('sun').send('io', 'the body', options));
    const { journal } = node.records!;
    const [row] = await journal.search({ thread: 'kept' });
    const { envelopeId, at } = row!;
    const metadata = { ttlMs: 60_000, durable: true };
    expect(JSON.parse(row!.envelope)).toEqual([1, envelopeId, 'sun', 'io', 'request', at, null, 'kept', metadata]);
    for (const text of ['sun', 'io request', 'ttlMs', envelopeId]) {
      expect((await journal.search({ text })).map(({ seq }) => seq)).toContain(row!.seq);
    }
    expect(await journal.search({ text: 'body' })).toEqual([]);
    expect((await journal.about(envelopeId))[0]).toEqual(row);
    expect((await exported(node)).find(({ seq }) => seq === row!.seq)).toEqual(row);
  });

  it('shows the latest hundred where no limit is given', async () => {
    for (let n = 0; n < 150; n++) await attempt('sun', 'io', 'delivered');
    const rows = await node.records!.journal.search({});
    expect(rows.map(({ seq }) => seq)).toEqual(numbers(150).slice(50));
  });

  it('is exported whole, in order, over many pages, and again after a restart [RE3]', async () => {
    for (let n = 0; n < 2_100; n++) await attempt('sun', 'io', 'delivered');
    const before = await exported(node);
    expect(before.map(({ seq }) => seq)).toEqual(numbers(2_100));
    await node.stop();
    open(new MemoryStore(store.snapshot()));
    node = await startNode();
    populate(node);
    await attempt('sun', 'io', 'delivered');
    const after = await exported(node);
    expect(after.slice(0, -1)).toEqual(before);
    expect(after.at(-1)!.seq).toBe(2_101);
  });

  it('finds the decisions about a message, or in a thread', async () => {
    await attempt('sun', 'io', 'delivered', { thread: 'one' });
    await attempt('io', 'sun', 'delivered', { thread: 'one' });
    await attempt('sun', 'io', 'delivered', { thread: 'two' });
    const { journal } = node.records!;
    const [first] = await journal.search({});
    expect(await journal.about(first!.envelopeId)).toEqual([first]);
    expect((await journal.about('one')).map(({ seq }) => seq)).toEqual([1, 2]);
    expect(await journal.about('nothing')).toEqual([]);
  });

  it('has the decisions about messages on a channel', async () => {
    node.agentById('io').onChannel((channel) => {
      channel.onMessage(() => {});
      return true;
    });
    const opening = node.agentById('sun').openChannel('io');
    await runtime.advance(100);
    const channel = await opening;
    const init = { sender: 'sun', recipient: 'io', type: 'notification', payload: 1 } as const;
    const sending = channel.send(node.envelopes.create(init));
    await runtime.advance(100);
    await sending;
    const rows = await node.records!.journal.search({});
    expect(rows.map(({ sender, recipient, code }) => [sender, recipient, code])).toContainEqual(['sun', 'io', null]);
  });

  describe('asked again', () => {
    it('under the same rules decides the same, whatever happened', async () => {
      await everything(node);
      const rows = await exported(node);
      expect(new Set(rows.map(({ code }) => code))).toEqual(
        new Set([null, 'TIER_VIOLATION', 'SANDBOX_VIOLATION', 'ESCALATION_REQUIRED', 'AGENT_UNAVAILABLE']),
      );
      expect(node.records!.replay(rows)).toEqual({ asked: rows.length, differences: [] });
      // The agents may be gone by then.
      await node.stop();
      open(new MemoryStore(store.snapshot()));
      node = await startNode();
      expect(node.records!.replay(await exported(node))).toEqual({ asked: rows.length, differences: [] });
    });

    it('under other tier rules decides otherwise exactly where those differ [RE4]', async () => {
      await everything(node);
      const rows = await exported(node);
      const changed: AgentTier[] = [1, 2, 3];
      const rules = DEFAULT_TIER_RULES.map((rule) =>
        rule.sourceTier === 3 ? { ...rule, allowedTargetTiers: changed } : rule,
      );
      node.router.setTierConfig({ rules });
      const expected = rows
        .filter(({ code, decision }) => {
          const { source, target, inReply } = JSON.parse(decision);
          const judged = code === null || code === 'ESCALATION_REQUIRED';
          return judged && source.tier === 3 && target.tier === 0 && !inReply;
        })
        .map(({ envelopeId, sender, recipient, type, code }) => {
          return { envelopeId, sender, recipient, type, recorded: code ?? 'delivered', now: 'TIER_VIOLATION' };
        });
      expect(expected.length).toBeGreaterThan(2);
      expect(node.records!.replay(rows)).toEqual({ asked: rows.length, differences: expected });
    });

    it('under other sandbox rules decides otherwise exactly where those differ', async () => {
      await everything(node);
      const rows = await exported(node);
      node.router.setSandboxConfig({ enforced: false });
      const { differences } = node.records!.replay(rows);
      const refused = rows.filter(({ code }) => code === 'SANDBOX_VIOLATION').map(({ envelopeId }) => envelopeId);
      expect(differences.map(({ envelopeId }) => envelopeId)).toEqual(refused);
      expect(new Set(differences.map(({ recorded }) => recorded))).toEqual(new Set(['SANDBOX_VIOLATION']));
    });

    it('under the same rules decides the same about a request whose answer could not come back', async () => {
      const code = await settled(node.agentById('sun').request('cell1', 1)).then(() => 'delivered', codeOfError);
      expect(code).toBe('SANDBOX_VIOLATION');
      expect(node.records!.replay(await exported(node))).toEqual({ asked: 1, differences: [] });
    });

    it.each<[string, unknown]>([
      ['nothing', null],
      ['a number', 7],
      ['text', 'sun → io'],
      ['an empty object', {}],
      ['a list', []],
      ['an envelope that is not JSON', { envelope: '[1,', decision: '{}', code: null }],
      [
        'an envelope of another version',
        { envelope: '[99,"a","b","c","notification",1,1]', decision: '{}', code: null },
      ],
      ['an envelope with a wrong field', { envelope: '[1,"a","b","c","shout",1,1]', decision: '{}', code: null }],
      ['a decision that is not JSON', { envelope: ENVELOPE, decision: '{', code: null }],
    ])('about %s is a typed error', (_what, line) => {
      expect(() => node.records!.replay([line])).toThrow(expect.objectContaining({ code: 'INVALID_ENVELOPE' }));
    });

    it.each<[string, unknown]>([
      ['a decision that is null', { envelope: ENVELOPE, decision: 'null', code: null }],
      ['a decision without parties', { envelope: ENVELOPE, decision: '{}', code: null }],
      [
        'a decision about a source that is a number',
        { envelope: ENVELOPE, decision: '{"source":1,"target":2}', code: null },
      ],
      [
        'a tier that there is not',
        { envelope: ENVELOPE, decision: '{"source":{"tier":9},"target":{"tier":0}}', code: null },
      ],
      ['a code that is an object', { envelope: ENVELOPE, decision: '{}', code: {} }],
    ])('about %s is a typed error', (_what, line) => {
      expect(() => node.records!.replay([line])).toThrow(expect.objectContaining({ code: 'INVALID_ENVELOPE' }));
    });
  });

  async function attempt(
    from: string,
    to: string,
    outcome: string,
    options: { type?: 'task-proposal'; thread?: string } = {},
  ): Promise<void> {
    const sent = node.agentById(from).send(to, 1, options);
    expect(await settled(sent).then(() => 'delivered', codeOfError)).toBe(outcome);
  }
});

describe('the retention of old records', () => {
  const limits = (retention: NonNullable<NodeInit['limits']>['retention']) => ({ limits: { retention } });

  async function sent(node: EclipticNode, count: number): Promise<void> {
    for (let n = 0; n < count; n++) await settled(node.agentById('sun').send('io', 'x'.repeat(100)));
    await runtime.advance(100);
  }

  it.each<[string, NonNullable<NodeInit['limits']>['retention']]>([
    ['count', { journal: { maxRows: 10 }, audit: { maxRows: 10 } }],
    ['size', { journal: { maxBytes: 3_000 }, audit: { maxBytes: 3_000 } }],
    ['age', { journal: { maxAgeMs: 30_000 }, audit: { maxAgeMs: 30_000 } }],
  ])('is bounded by %s, and the audit log still holds [RE6]', async (by, retention) => {
    const node = await startNode(limits(retention));
    populate(node);
    await sent(node, 50);
    if (by === 'age') await runtime.advance(40_000);
    await sent(node, 5);
    await runtime.advance(61_000);
    for (const log of [journalTable, auditTable]) {
      const { rows, bytes } = await store.figures(log);
      expect(rows).toBeGreaterThan(0);
      expect(rows).toBeLessThan(50);
      if (by === 'count') expect(rows).toBe(10);
      if (by === 'size') expect(bytes).toBeLessThanOrEqual(3_000);
    }
    expect(await node.records!.audit.verify()).toMatchObject({ fault: null });
    await sent(node, 5);
    expect(await node.records!.audit.verify()).toMatchObject({ fault: null });
    await node.stop();
    open(new MemoryStore(store.snapshot()));
    const again = await startNode(limits(retention));
    expect(await again.records!.audit.verify()).toMatchObject({ fault: null });
    await store.write([remove((await store.read(auditTable, { orderBy: 'seq' }))[0]!.seq)]);
    expect((await again.records!.audit.verify()).fault).toMatch(/missing/);
    await again.stop();
  });

  it('is everything where the limits leave room, and nothing runs when the node has stopped', async () => {
    const node = await startNode();
    populate(node);
    await sent(node, 20);
    await runtime.advance(300_000);
    expect((await store.figures(journalTable)).rows).toBe(20);
    await node.stop();
    expect(runtime.pending).toBe(0);
  });
});

describe('a journal that was recorded before', () => {
  const rows = process.env.ECLIPTIC_RECORD === '1' ? [] : fixture();

  it.runIf(process.env.ECLIPTIC_RECORD === '1')('is recorded', async () => {
    const node = await startNode();
    populate(node);
    await everything(node);
    writeFileSync(FIXTURE, (await exported(node)).map((row) => `${JSON.stringify(row)}\n`).join(''));
    await node.stop();
  });

  it.runIf(rows.length > 0)('holds every code of policy', () => {
    const counts: Record<string, number> = {};
    for (const { code } of rows) counts[code ?? 'delivered'] = (counts[code ?? 'delivered'] ?? 0) + 1;
    expect(counts).toEqual({
      delivered: 31,
      TIER_VIOLATION: 10,
      SANDBOX_VIOLATION: 11,
      ESCALATION_REQUIRED: 4,
      AGENT_UNAVAILABLE: 1,
    });
  });

  it.runIf(rows.length > 0)('is decided today as it was then [RE5]', () => {
    const policy = new Policy('this-node');
    policy.setSandboxConfig(SANDBOX);
    expect(replay(rows, policy)).toEqual({ asked: rows.length, differences: [] });
  });

  it.runIf(rows.length > 0)('is decided as the rules say, by another reading of them', () => {
    const mayOpen: Readonly<Record<number, readonly number[]>> = {
      0: [0, 1, 2, 3],
      1: [0, 1],
      2: [0, 1, 2],
      3: [0, 1, 2, 3],
    };
    for (const { decision, code, envelope, envelopeId } of rows) {
      if (code === 'AGENT_UNAVAILABLE') continue;
      const { source, target, inReply } = JSON.parse(decision);
      const [, , , , type, , , , metadata] = JSON.parse(envelope);
      const confined = source.sandboxId !== undefined && source.sandboxId !== target.sandboxId;
      const letOut = target.address === 'hub' || (source.sandboxId === 'lab' && target.address === 'mars');
      const expected =
        confined && !letOut
          ? 'SANDBOX_VIOLATION'
          : inReply
            ? null
            : !mayOpen[source.tier]!.includes(target.tier)
              ? 'TIER_VIOLATION'
              : type === 'task-proposal' && target.tier < 2 && source.tier > 1 && !metadata?.escalationJustification
                ? 'ESCALATION_REQUIRED'
                : null;
      expect({ envelopeId, code }).toEqual({ envelopeId, code: expected });
    }
  });
});

const SANDBOX: SandboxRoutingConfig = { enforced: true, crossSandboxAllowList: ['hub'], allow: { lab: ['mars'] } };
const ENVELOPE = '[1,"m","sun","io","notification",1,1]';

function startNode(init: NodeInit = {}): Promise<EclipticNode> {
  return createNode({ runtime, store: watched, nodeKey: 'this-node', sandbox: SANDBOX, ...init });
}

function populate(node: EclipticNode): void {
  const agents = [
    ['sun', 0],
    ['earth', 1],
    ['mars', 2],
    ['io', 3],
    ['hub', 1],
    ['cell1', 3, 'cell'],
    ['lab1', 2, 'lab'],
  ] as const;
  for (const [id, tier, sandbox] of agents) {
    const agent = node.agent({ id, tier, sandbox });
    agent.onNotification(() => {});
    agent.onMessage(() => {});
    agent.onRequest(({ payload }) => payload);
  }
}

/** Sends a bit of everything: between all, proposals, questions with their answers, and durable mail. */
async function everything(node: EclipticNode): Promise<void> {
  const ids = ['sun', 'earth', 'mars', 'io', 'hub', 'cell1', 'lab1'];
  const attempt = (promise: Promise<unknown>) => settled(promise).catch(() => {});
  for (const from of ids) {
    for (const to of ids) if (from !== to) await attempt(node.agentById(from).send(to, `${from} to ${to}`));
  }
  for (const from of ['mars', 'io', 'lab1']) {
    for (const to of ['sun', 'earth']) {
      await attempt(node.agentById(from).send(to, 'proposal', { type: 'task-proposal' }));
      if (from !== 'lab1') {
        const options = { type: 'task-proposal', justification: 'it burns' } as const;
        await attempt(node.agentById(from).send(to, 'proposal', options));
      }
    }
  }
  // L1 may not open a conversation with L3, but answers it.
  await attempt(node.agentById('io').request('earth', 'why?'));
  const durable = { durable: true, type: 'request', thread: 'durable' } as const;
  await attempt(node.agentById('io').send('earth', 'why?', durable));
  await runtime.advance(5_000);
  node.registry.register({ ...node.registry.requireById('io'), id: 'absent' });
  await attempt(node.agentById('sun').send('absent', 'is anybody there?'));
}

async function exported(node: EclipticNode): Promise<JournalRow[]> {
  const rows: JournalRow[] = [];
  for await (const row of node.records!.journal.export()) rows.push(row);
  return rows;
}

function fixture(): JournalRow[] {
  const lines = readFileSync(FIXTURE, 'utf8').trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line));
}

function open(fresh: MemoryStore): void {
  store = fresh;
  watched = new ProcessStore(store, () => {});
  watched.fate = (_call, writes) => {
    if (writes === undefined) return 'pass';
    batches.push(writes.length);
    return fate(writes);
  };
}

async function settled<T>(promise: Promise<T>): Promise<T> {
  let over = false;
  const end = () => {
    over = true;
  };
  promise.then(end, end);
  for (let tries = 0; !over && tries < 1_000; tries++) await runtime.advance(tries === 0 ? 0 : 10);
  return promise;
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

function codeOfError(error: EclipticError): string {
  return error.code;
}

describe('a conversation of a node with a store', () => {
  it('has every message, in order, however many there are [P8 T-C14]', async () => {
    const store = new MemoryStore();
    const runtime = new SimulatedRuntime();
    const node = await createNode({ runtime, store, limits: { threads: { envelopesPerThread: 10 } } });
    const sun = node.agent({ id: 'sun', tier: 0 });
    node.agent({ id: 'mars', tier: 2 }).onMessage(() => {});
    node.agent({ id: 'pluto', tier: 3, sandbox: 'red' }).onMessage(() => {});
    const count = 1_250;
    for (let n = 0; n < count; n++) {
      await sun.send('mars', n, { thread: 'long' });
      await runtime.advance(1);
    }
    await sun.send('mars', 'elsewhere', { thread: 'other' });
    await expect(node.agentById('pluto').send('sun', 'refused', { thread: 'long' })).rejects.toThrow();
    expect(node.threads.get('long')).toHaveLength(10);
    const read = node.thread('long');
    await runtime.advance(100);
    expect((await read).map(({ payload }) => payload)).toEqual(Array.from({ length: count }, (_, n) => n));
    await node.stop();
  });
});
