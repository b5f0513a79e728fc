import { packEnvelope, unpackEnvelope } from '../a2a/codec.js';
import type { Party, Policy } from '../a2a/policy.js';
import type { Journal, JournalEntry } from '../a2a/ports.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Query, Store } from '../store/store.js';
import type { JournalRow } from '../store/tables.js';
import { RecordWriter } from './record-writer.js';

/** What policy was asked about one message. */
interface Question {
  readonly source: Party;
  readonly target: Party;
  readonly inReply: boolean;
}

/** A recorded decision that would be another one today. */
export interface Difference {
  readonly envelopeId: string;
  readonly sender: string;
  readonly recipient: string;
  readonly type: string;
  /** The refusal's code, or `delivered`. */
  readonly recorded: string;
  readonly now: string;
}

export interface JournalSearch {
  thread?: string;
  agent?: string;
  /** Epoch milliseconds. */
  since?: number;
  limit?: number;
}

const PAGE = 1_000;

/** Every decision of the router, kept so that it can be searched, exported, and asked for again. */
export class JournalLog implements Journal {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #writer: RecordWriter;

  constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
    this.#writer = new RecordWriter(runtime, store, 'journal');
  }

  note({ envelope, source, target, inReply, code }: JournalEntry): void {
    const { id: envelopeId, correlationId, sender, type } = envelope;
    const question: Question = { source: partyOf(source), target: partyOf(target), inReply };
    const row: JournalRow = {
      seq: 0,
      at: this.#runtime.now(),
      envelopeId,
      thread: correlationId ?? null,
      sender,
      recipient: target.address,
      type,
      code,
      envelope: `[${packEnvelope(envelope)}]`,
      decision: JSON.stringify(question),
    };
    this.#writer.add({ insert: 'journal', row });
  }

  /** The latest decisions that fit, oldest first. */
  async search({ thread, agent, since = 0, limit = 100 }: JournalSearch): Promise<JournalRow[]> {
    await this.#writer.flush();
    const base = { from: 'journal', above: { at: since - 1 }, orderBy: 'seq', descending: true, limit } as const;
    const ask = (where: Query<'journal'>['where']) => this.#store.read({ ...base, where });
    const byThread = thread === undefined ? {} : { thread };
    if (agent === undefined) return (await ask(byThread)).reverse();
    const found = [...(await ask({ ...byThread, sender: agent })), ...(await ask({ ...byThread, recipient: agent }))];
    const unique = [...new Map(found.map((row) => [row.seq, row])).values()].sort((a, b) => b.seq - a.seq);
    return unique.slice(0, limit).reverse();
  }

  /** Everything, in order. */
  async *export(): AsyncGenerator<JournalRow> {
    await this.#writer.flush();
    for (let seq = 0; ; ) {
      const page = await this.#store.read({ from: 'journal', above: { seq }, orderBy: 'seq', limit: PAGE });
      yield* page;
      if (page.length < PAGE) return;
      seq = page.at(-1)!.seq;
    }
  }

  /** The decisions about one message, or in one thread. */
  async about(id: string): Promise<JournalRow[]> {
    await this.#writer.flush();
    const byMessage = await this.#store.read({ from: 'journal', where: { envelopeId: id }, orderBy: 'seq' });
    if (byMessage.length > 0) return byMessage;
    return this.#store.read({ from: 'journal', where: { thread: id }, orderBy: 'seq' });
  }

  async close(): Promise<void> {
    await this.#writer.flush();
  }
}

/** Asks policy again what it was asked then; what comes back are the decisions that would differ. */
export function replay(rows: readonly unknown[], policy: Policy): { asked: number; differences: Difference[] } {
  const differences: Difference[] = [];
  for (const value of rows) {
    const { envelope, decision, code } = readRow(value);
    const { source, target, inReply } = decision;
    // Whether somebody was there to take it is not policy's business, and may well have changed.
    if (code !== null && !isPolicyCode(code)) continue;
    const judged = policy.judge(envelope, source, target, inReply);
    const now = judged.allowed ? 'delivered' : judged.code;
    const recorded = code ?? 'delivered';
    const { id: envelopeId, sender, type } = envelope;
    if (now !== recorded) differences.push({ envelopeId, sender, recipient: target.address, type, recorded, now });
  }
  return { asked: rows.length, differences };
}

function readRow(value: unknown) {
  try {
    const row = value as JournalRow;
    return {
      envelope: unpackEnvelope(JSON.parse(row.envelope)),
      decision: JSON.parse(row.decision) as Question,
      code: row.code,
    };
  } catch (error) {
    throw new EclipticError('INVALID_ENVELOPE', 'this is not a line of an exported journal', {}, error);
  }
}

function isPolicyCode(code: string): boolean {
  return code === 'SANDBOX_VIOLATION' || code === 'TIER_VIOLATION' || code === 'ESCALATION_REQUIRED';
}

function partyOf({ address, node, tier, sandboxId }: Party): Party {
  return { address, node, tier, sandboxId };
}
