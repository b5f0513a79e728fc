import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { wellFormed } from '../../runtime/text.js';
import { beginningWith, type Query, type Store, type Write } from '../../store/store.js';
import { splitAddress } from '../address.js';
import { envelopeText, unpackEnvelope } from '../codec.js';
import type { ValidEnvelope } from '../envelope.js';
import type { Party, Policy } from '../policy.js';
import type { Journal, JournalEntry } from '../ports.js';
import { AgentTierSchema, SCHEMA_VERSION } from '../schemas.js';
import { firstSince } from './by-time.js';
import { RecordWriter } from './record-writer.js';
import { type JournalRow, journal } from './tables.js';

/** A party without an address has that of the row. */
const PartySchema = z.object({
  address: z.string().optional(),
  node: z.string().optional(),
  tier: AgentTierSchema,
  sandboxId: z.string().optional(),
});

const QuestionSchema = z.object({
  source: PartySchema,
  target: PartySchema,
  inReply: z.boolean(),
  /** Was the answer's way back checked, too? */
  needsAnswer: z.boolean().optional(),
});

const LineSchema = z.object({
  envelope: z.string(),
  decision: z.string(),
  code: z.string().nullable(),
  recipient: z.string().optional(),
});

type Question = z.infer<typeof QuestionSchema>;

/** A recorded decision that would differ today. */
export interface Difference {
  readonly envelopeId: string;
  readonly sender: string;
  readonly recipient: string;
  readonly type: string;
  /** The refusal's code, or `delivered`. */
  readonly recorded: string;
  readonly now: string;
}

/** The id of a message, or of a thread, and the thread that it belongs to. */
export interface JournalId {
  readonly id: string;
  readonly thread: string;
  readonly isThread: boolean;
}

export interface JournalSearch {
  thread?: string | undefined;
  agent?: string | undefined;
  /** Words that all occur in the message, its ids or its error code. */
  text?: string | undefined;
  /** Epoch milliseconds. */
  since?: number | undefined;
  /** Only rows with smaller numbers. */
  before?: number | undefined;
  /** Only messages that were not delivered. */
  refused?: boolean | undefined;
  limit?: number;
}

const PAGE = 1_000;
/** Rows of one read of a search without an index. */
const SEARCHED_ROWS = 1_000;
/** Rows that a search for a text after a time looks at. */
const MAX_SCANNED = 20_000;
const SEARCHED = ['envelope', 'code', 'envelopeId', 'thread', 'sender', 'recipient', 'type'] as const;
/** How far a clock may have been set back without hiding rows from a search by time. */
const CLOCK_CHANGE_MS = 3_600_000;

/** Stores every decision of the router, to be searched, exported and replayed. */
export class JournalLog implements Journal {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #writer: RecordWriter<JournalRow>;
  /** The latest question and its text: the next message often has the same ends. */
  #asked: { readonly question: Question; readonly text: string } | undefined;

  constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
    const prepare = (rows: readonly JournalRow[]) => ({
      writes: rows.map((row): Write => journal.insert(row)),
    });
    this.#writer = new RecordWriter(runtime, store, { name: 'journal', prepare });
  }

  note(entry: JournalEntry): void {
    const { envelope, target, code } = entry;
    const { id, correlationId, sender, type } = envelope;
    this.#writer.add({
      seq: 0,
      at: this.#runtime.now(),
      // Another node chose these ids: half a character must not prevent the record.
      envelopeId: wellFormed(id),
      thread: correlationId === undefined ? null : wellFormed(correlationId),
      sender,
      recipient: target.address,
      type,
      code,
      envelope: journalText(entry),
      decision: this.#question(entry),
    });
  }

  #question({ source, target, inReply, needsAnswer = false }: JournalEntry): string {
    const before = this.#asked?.question;
    if (
      before?.inReply === inReply &&
      (before.needsAnswer ?? false) === needsAnswer &&
      isSame(before.source, source) &&
      isSame(before.target, target)
    ) {
      return this.#asked!.text;
    }
    const base = { source: standingOf(source), target: standingOf(target), inReply };
    const question: Question = needsAnswer ? { ...base, needsAnswer } : base;
    this.#asked = { question, text: JSON.stringify(question) };
    return this.#asked.text;
  }

  /** The latest rows that match, oldest first. */
  async search(wanted: JournalSearch, signal?: AbortSignal): Promise<JournalRow[]> {
    await this.#writer.flush();
    const { thread, agent, text, refused, since = 0, limit = 100 } = wanted;
    const first = (await this.#firstSince(since)) - 1;
    const isIndexed = thread !== undefined || (agent === undefined && !text && !refused);
    if (isIndexed) return this.#searchBetween(wanted, first, wanted.before);
    const found: JournalRow[] = [];
    let below = wanted.before ?? (await this.#lastSeq()) + 1;
    // In parts, so that other reads and writes of the store get their turn, and a caller that left costs no more.
    while (found.length < limit && below - 1 > first) {
      if (signal?.aborted) throw new EclipticError('CANCELLED', 'the search was cancelled');
      const above = Math.max(first, below - 1 - SEARCHED_ROWS);
      found.unshift(...(await this.#searchBetween({ ...wanted, limit: limit - found.length }, above, below)));
      below = above + 1;
    }
    return found;
  }

  async #lastSeq(): Promise<number> {
    const [row] = await this.#read({ orderBy: 'seq', descending: true, limit: 1 });
    return row?.seq ?? 0;
  }

  async #searchBetween(
    { thread, agent, text, since = 0, refused, limit = 100 }: JournalSearch,
    seq: number,
    before: number | undefined,
  ): Promise<JournalRow[]> {
    const bounds = {
      above: { at: since - 1, seq, ...(refused && { code: '' }) },
      ...(before !== undefined && { below: { seq: before } }),
    };
    const containing = { text: text ?? '', in: SEARCHED } as const;
    const base = { ...bounds, ...(text && { containing }), orderBy: 'seq', descending: true, limit } as const;
    const ask = (where: Query<JournalRow>['where']) => this.#read({ ...base, where });
    const byThread = thread === undefined ? {} : { thread };
    if (agent === undefined) return (await ask(byThread)).reverse();
    const found = [...(await ask({ ...byThread, sender: agent })), ...(await ask({ ...byThread, recipient: agent }))];
    const unique = [...new Map(found.map((row) => [row.seq, row])).values()].sort((a, b) => b.seq - a.seq);
    return unique.slice(0, limit).reverse();
  }

  /** A number at or before the first row since a time. */
  async #firstSince(since: number): Promise<number> {
    const oldest = since - CLOCK_CHANGE_MS;
    return oldest <= 0 ? 0 : firstSince(this.#store, journal, oldest);
  }

  /** The first decisions since a time whose messages contain a text, among a limited number of rows. */
  async mentioning(text: string, since: number, limit: number): Promise<JournalRow[]> {
    await this.#writer.flush();
    const seq = (await firstSince(this.#store, journal, since)) - 1;
    const bounds = { above: { seq }, below: { seq: seq + MAX_SCANNED } };
    return this.#read({ ...bounds, containing: { text, in: ['envelope'] }, orderBy: 'seq', limit });
  }

  /** The number of decisions in a thread. */
  async countIn(thread: string): Promise<number> {
    await this.#writer.flush();
    return this.#store.count(journal, { where: { thread } });
  }

  /** Every delivered message of a thread once, in order; durable ones without their payload. */
  async messagesOf(thread: string): Promise<ValidEnvelope[]> {
    await this.#writer.flush();
    const found = new Map<string, ValidEnvelope>();
    for (let seq = 0; ; ) {
      const where = { thread: wellFormed(thread) };
      const page = await this.#read({ where, above: { seq }, orderBy: 'seq', limit: PAGE });
      for (const { code, envelope } of page) {
        if (code !== null) continue;
        const message = unpackEnvelope(JSON.parse(envelope));
        if (!found.has(message.id)) found.set(message.id, message);
      }
      if (page.length < PAGE) return [...found.values()];
      seq = page.at(-1)!.seq;
    }
  }

  async *export(): AsyncGenerator<JournalRow> {
    await this.#writer.flush();
    for (let seq = 0; ; ) {
      const page = await this.#read({ above: { seq }, orderBy: 'seq', limit: PAGE });
      yield* page;
      if (page.length < PAGE) return;
      seq = page.at(-1)!.seq;
    }
  }

  /** The decisions about one message, or in one thread. */
  async about(id: string): Promise<JournalRow[]> {
    await this.#writer.flush();
    const byMessage = await this.#read({ where: { envelopeId: id }, orderBy: 'seq' });
    if (byMessage.length > 0) return byMessage;
    return this.#read({ where: { thread: id }, orderBy: 'seq' });
  }

  /** Decisions in the threads whose ids begin with a prefix and are longer. */
  async beginningWith(prefix: string, limit: number): Promise<JournalRow[]> {
    await this.#writer.flush();
    return this.#read({ ...beginningWith('thread', prefix), orderBy: 'seq', limit });
  }

  /** Ids of messages and threads that begin with a prefix, each with the thread that it belongs to. */
  async idsBeginning(prefix: string, limit: number): Promise<JournalId[]> {
    await this.#writer.flush();
    const found: JournalId[] = [];
    for (const column of ['envelopeId', 'thread'] as const) {
      let bounds = beginningWith(column, prefix);
      for (let count = 0; count < limit; count++) {
        const [row] = await this.#store.read(journal, { ...bounds, orderBy: column, limit: 1 });
        if (!row) break;
        const id = row[column]!;
        found.push({ id, thread: row.thread ?? id, isThread: column === 'thread' });
        bounds = { ...bounds, above: { [column]: id } as typeof bounds.above };
      }
    }
    return found;
  }

  async close(): Promise<void> {
    await this.#writer.flush();
  }

  /** Rows with whole envelopes. */
  async #read(query: Query<JournalRow>): Promise<JournalRow[]> {
    return (await this.#store.read(journal, query)).map(withWholeEnvelope);
  }
}

/** The payload of a durable message is stored once, in the outbox or inbox; the row has most of its other fields. */
function journalText({ envelope, target }: JournalEntry): string {
  const { timestamp, recipient, metadata } = envelope;
  if (!metadata?.durable) return envelopeText(envelope);
  if (recipient !== target.address) return envelopeText(envelope.withoutPayload());
  // An object, where a whole envelope is a list.
  return `{"timestamp":${timestamp},"metadata":${JSON.stringify(metadata)}}`;
}

/** The fields of a durable message that its row does not have. */
const RestSchema = z.object({ timestamp: z.number(), metadata: z.unknown() });

function withWholeEnvelope(row: JournalRow): JournalRow {
  if (!row.envelope.startsWith('{')) return row;
  const { envelopeId: id, thread, sender, recipient, type } = row;
  const { timestamp, metadata } = RestSchema.parse(JSON.parse(row.envelope));
  const whole = unpackEnvelope([SCHEMA_VERSION, id, sender, recipient, type, timestamp, null, thread, metadata]);
  return { ...row, envelope: envelopeText(whole) };
}

/** Asks policy the recorded questions again, and returns the decisions that differ. */
export function replay(rows: readonly unknown[], policy: Policy): { asked: number; differences: Difference[] } {
  const differences: Difference[] = [];
  for (const value of rows) {
    const { envelope, decision, code } = readRow(value);
    const { source, target, inReply, needsAnswer } = decision;
    // Other refusals, such as an absent recipient, are not decisions of policy.
    if (code !== null && !isPolicyCode(code)) continue;
    const there = policy.judge(envelope, source, target, inReply);
    const judged = there.allowed && needsAnswer ? policy.judgeAnswer(target, source) : there;
    const now = judged.allowed ? 'delivered' : judged.code;
    const recorded = code ?? 'delivered';
    const { id: envelopeId, sender, type } = envelope;
    if (now !== recorded) differences.push({ envelopeId, sender, recipient: target.address, type, recorded, now });
  }
  return { asked: rows.length, differences };
}

function readRow(value: unknown) {
  try {
    const { decision, code, ...row } = LineSchema.parse(value);
    const envelope = unpackEnvelope(JSON.parse(row.envelope));
    const { source, target, ...rest } = QuestionSchema.parse(JSON.parse(decision));
    const to = partyOf(target, row.recipient ?? envelope.recipient);
    const question = { source: partyOf(source, envelope.sender), target: to, ...rest };
    return { envelope, decision: question, code };
  } catch (error) {
    throw new EclipticError('INVALID_ENVELOPE', 'this is not a line of an exported journal', {}, error);
  }
}

function isPolicyCode(code: string): boolean {
  return code === 'SANDBOX_VIOLATION' || code === 'TIER_VIOLATION' || code === 'ESCALATION_REQUIRED';
}

/** The grounds of a decision, besides the address, which is in the row. */
function standingOf({ tier, sandboxId }: Party): Question['source'] {
  return { tier, sandboxId };
}

function partyOf({ tier, sandboxId, ...given }: Question['source'], address: string): Party {
  const party = { address, node: splitAddress(address).node, tier, sandboxId };
  return given.address === undefined ? party : { ...party, address: given.address, node: given.node };
}

function isSame(a: Question['source'], b: Party): boolean {
  return a.tier === b.tier && a.sandboxId === b.sandboxId;
}
