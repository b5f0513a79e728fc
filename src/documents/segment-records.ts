import { createHash } from 'node:crypto';
import { type EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Store, Write } from '../store/store.js';
import { type Proof, ProofSchema } from './equivocation.js';
import { Segment, unreadable } from './segment.js';
import { type StateSegmentRow, stateSegments } from './tables.js';

export interface DamagedRow {
  readonly stream: string;
  readonly number: number;
  readonly error: EclipticError;
}

export interface Kept {
  readonly segments: Segment[];
  readonly proofs: Proof[];
  readonly damaged: DamagedRow[];
}

/** The number of the row with a stream's proof of equivocation; segments are numbered from one. */
const PROOF = 0;

/** The stored segments and proofs of durable replicas. */
export class SegmentRecords {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  keep(thread: string, agent: string, segments: readonly Segment[]): Promise<void> {
    const writes = segments.map((segment) => stateSegments.put(rowOf(thread, agent, segment)));
    return this.#store.write(writes);
  }

  replace(thread: string, agent: string, run: readonly Segment[], one: Segment): Promise<void> {
    const { stream } = one;
    const number = run.map((segment) => segment.number);
    const gone = stateSegments.delete({ thread, agent, stream, number });
    const writes = [gone, stateSegments.put(rowOf(thread, agent, one))];
    return this.#store.write(writes);
  }

  /** Stores a proof of equivocation, and deletes the segments that it removed from the document. */
  quarantine(thread: string, agent: string, proof: Proof, removed: readonly Segment[]): Promise<void> {
    const writes: Write[] = [...new Set(removed.map(({ stream }) => stream))].map((stream) => {
      const number = removed.filter((segment) => segment.stream === stream).map((segment) => segment.number);
      return stateSegments.delete({ thread, agent, stream, number });
    });
    const bytes = Buffer.from(JSON.stringify(proof)).toString('base64');
    const row = { thread, agent, stream: proof.stream, first: 0, number: PROOF, after: '{}', bytes, signature: '' };
    writes.push(stateSegments.put({ ...row, digest: digestOf(row) }));
    return this.#store.write(writes);
  }

  async has(thread: string, agent: string): Promise<boolean> {
    return (await this.#store.read(stateSegments, { where: { thread, agent }, limit: 1 })).length > 0;
  }

  async read(thread: string, agent: string): Promise<Kept> {
    await this.#store.write([]);
    const rows = await this.#store.read(stateSegments, { where: { thread, agent } });
    const segments: Segment[] = [];
    const proofs: Proof[] = [];
    const damaged: DamagedRow[] = [];
    for (const row of rows) {
      const { stream, first, number, after, bytes, signature } = row;
      try {
        if (digestOf(row) !== row.digest) throw unreadable('its digest is wrong');
        if (number === PROOF) {
          proofs.push(ProofSchema.parse(JSON.parse(Buffer.from(bytes, 'base64').toString())));
          continue;
        }
        const fields = { stream, first, number, after: JSON.parse(after), update: bytes, signature };
        segments.push(Segment.read(fields));
      } catch (error) {
        damaged.push({ stream, number, error: toEclipticError(error, 'STORE_DAMAGED') });
      }
    }
    return { segments, proofs, damaged };
  }
}

function rowOf(thread: string, agent: string, segment: Segment): StateSegmentRow {
  const { stream, first, number, after, update, signature } = segment;
  const bytes = Buffer.from(update).toString('base64');
  const row = { thread, agent, stream, first, number, after: JSON.stringify(after), bytes, signature };
  return { ...row, digest: digestOf(row) };
}

function digestOf(row: Omit<StateSegmentRow, 'digest'>): string {
  const { thread, agent, stream, first, number, after, bytes, signature } = row;
  const fields = [thread, agent, stream, first, number, after, bytes, signature];
  return createHash('sha256').update(fields.join('\n')).digest('base64url');
}
