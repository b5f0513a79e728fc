import type { Runtime } from '../../runtime/runtime.js';
import type { Store, Write } from '../../store/store.js';
import type { SwarmMemory } from './swarm-machine.js';
import type { Found, SwarmEffect } from './swarm-messages.js';
import type { Entry } from './swarm-records.js';
import { type SwarmRow, swarmFindings, swarmLog, swarms } from './tables.js';

/** Ended swarms that stay on disk, for each agent. */
const MAX_ENDED = 100;

const KEEPING = ['keep', 'keep-opening', 'keep-finding', 'drop-finding', 'ended'] as const;

/** The effects that write to disk. */
export type KeepingEffect = Extract<SwarmEffect, { type: (typeof KEEPING)[number] }>;

export function isKeeping(effect: SwarmEffect): effect is KeepingEffect {
  return (KEEPING as readonly string[]).includes(effect.type);
}

export interface StoredParticipation {
  readonly swarmId: string;
  readonly sponsor: string;
  readonly seat: boolean;
  readonly memory: SwarmMemory;
}

/** The participations of one node's agents on disk. A term of Raft is in the column `epoch`. */
export class ParticipationRecords {
  readonly #runtime: Runtime;
  readonly #store: Store;

  constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
  }

  /** The agents that were in a swarm when their node stopped. */
  async agents(): Promise<Set<string>> {
    return new Set((await this.#store.read(swarms)).map(({ agent }) => agent));
  }

  /** An agent's participations, the oldest first. */
  async of(agent: string): Promise<StoredParticipation[]> {
    const rows = await this.#store.read(swarms, { where: { agent }, orderBy: 'swarm' });
    const over = rows.filter(({ endedAt }) => endedAt !== null).sort((a, b) => b.endedAt! - a.endedAt!);
    for (const { swarm } of over.slice(MAX_ENDED)) await this.forget(agent, swarm);
    const gone = new Set(over.slice(MAX_ENDED));
    return Promise.all(rows.filter((row) => !gone.has(row)).map((row) => this.#load(row)));
  }

  begin(agent: string, swarm: string, sponsor: string, seat: boolean): Promise<void> {
    const fresh = { epoch: 0, vote: null, opening: null, endedAt: null };
    const row = { agent, swarm, sponsor, seat: seat ? 1 : 0, ...fresh };
    return this.#store.write([swarms.put(row)]);
  }

  /** Writes all of these; resolves when they are on disk. `length` is that of the log before. */
  keep(agent: string, swarm: string, effects: readonly KeepingEffect[], length: number): Promise<void> {
    const writes: Write[] = [];
    let end = length;
    const where = { agent, swarm };
    for (const effect of effects) {
      switch (effect.type) {
        case 'keep': {
          const { term, votedFor, from, entries = [] } = effect.keep;
          writes.push(swarms.update(where, { epoch: term, vote: votedFor }));
          if (from === undefined) break;
          const beyond = numbers(from + entries.length, end);
          if (beyond.length > 0) writes.push(swarmLog.delete({ ...where, n: beyond }));
          for (const [at, { epoch, record }] of entries.entries()) {
            writes.push(swarmLog.put({ ...where, n: from + at, epoch, record: JSON.stringify(record) }));
          }
          end = from + entries.length - 1;
          break;
        }
        case 'keep-opening':
          writes.push(swarms.update(where, { opening: JSON.stringify(effect.swarm) }));
          break;
        case 'keep-finding': {
          const { subTask, finding, usage } = effect.found;
          const text = JSON.stringify({ ...finding, usage });
          writes.push(swarmFindings.put({ ...where, lease: effect.lease, subTask, finding: text }));
          break;
        }
        case 'drop-finding':
          writes.push(swarmFindings.delete({ ...where, lease: effect.lease }));
          break;
        case 'ended':
          writes.push(swarms.update(where, { endedAt: this.#runtime.now() }));
      }
    }
    return this.#store.write(writes);
  }

  async forget(agent: string, swarm: string): Promise<void> {
    const where = { agent, swarm };
    await this.#store.write([swarms.delete(where), swarmLog.delete(where), swarmFindings.delete(where)]);
  }

  flush(): Promise<void> {
    return this.#store.write([]);
  }

  async #load({ agent, swarm, sponsor, seat, epoch, vote, opening, endedAt }: SwarmRow): Promise<StoredParticipation> {
    const where = { agent, swarm };
    const rows = await this.#store.read(swarmLog, { where, orderBy: 'n' });
    const log = rows.map(({ epoch: term, record }): Entry => ({ epoch: term, record: JSON.parse(record) }));
    const kept = await this.#store.read(swarmFindings, { where });
    const findings = new Map(
      kept.map(({ lease, subTask, finding: text }): [number, Found] => {
        const { usage, ...finding } = JSON.parse(text);
        return [lease, { subTask, finding, ...(usage && { usage }) }];
      }),
    );
    const memory: SwarmMemory = {
      term: epoch,
      votedFor: vote,
      log,
      opening: opening === null ? undefined : JSON.parse(opening),
      findings,
      ended: endedAt !== null,
      endedAt: endedAt ?? undefined,
    };
    return { swarmId: swarm, sponsor, seat: seat === 1, memory };
  }
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
}
