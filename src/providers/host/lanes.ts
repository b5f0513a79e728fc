import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../mesh/limits.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { HostStatus } from './isolated-provider-host.js';

/** What runs in a lane. */
export interface LaneMember {
  readonly status: HostStatus;
  /** Ends it; resolves when nothing of it is left. */
  stop(): Promise<void>;
}

/** A lane, for people. */
export interface LaneRow {
  readonly lane: string;
  readonly folder: string;
  readonly providers: readonly HostStatus[];
  /** Its owner closed it: nothing runs in it until it is opened again. */
  readonly closed: boolean;
}

/** Names that are safe as folders everywhere. */
const LANE_ID = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
/** Each has a folder, and processes. */
const MAX_LANES = 256;

/** A place of its own for providers: a folder, and their processes, which end with it. */
export class Lane {
  readonly id: string;
  readonly folder: string;
  readonly #members = new Set<LaneMember>();
  readonly #onClose: () => void;
  #closed = false;

  /** @internal Opened by `Lanes`. */
  constructor(id: string, folder: string, onClose: () => void) {
    this.id = id;
    this.folder = folder;
    this.#onClose = onClose;
  }

  get row(): LaneRow {
    const providers = [...this.#members].map(({ status }) => status);
    return { lane: this.id, folder: this.folder, providers, closed: false };
  }

  /** Takes something in, to end with the lane. Returns the way out. */
  bind(member: LaneMember): () => void {
    if (this.#closed) {
      throw new EclipticError('PROVIDER_UNAVAILABLE', `lane "${this.id}" is closed`, { lane: this.id });
    }
    this.#members.add(member);
    return () => {
      this.#members.delete(member);
    };
  }

  /** Ends what runs in it, and nothing else. The folder stays. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#onClose();
    await Promise.all([...this.#members].map((member) => member.stop()));
    this.#members.clear();
  }
}

/** The lanes of a node. */
export class Lanes {
  readonly #folder: string;
  readonly #lanes = new Map<string, Lane>();
  /** Of each lane, how to start what ran in it. */
  readonly #starters = new Map<string, (() => Promise<void>)[]>();
  readonly #closed = new Set<string>();

  /** Lanes have their folders in this one. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  get rows(): LaneRow[] {
    const closed = [...this.#closed].map((lane) => {
      return { lane, folder: join(this.#folder, lane), providers: [], closed: true };
    });
    return [...[...this.#lanes.values()].map(({ row }) => row), ...closed].sort((a, b) => (a.lane < b.lane ? -1 : 1));
  }

  /** Says how to start a provider of that lane again, once the lane was closed and is opened again. */
  onReopen(id: string, start: () => Promise<void>): void {
    const starters = this.#starters.get(id) ?? [];
    this.#starters.set(id, [...starters, start]);
  }

  /** Undoes `close`: what ran in the lane is started again. */
  async reopen(id: string): Promise<void> {
    if (!this.#closed.delete(id)) {
      const [code, reason] = this.#lanes.has(id)
        ? (['INVALID_TRANSITION', 'is not closed'] as const)
        : (['PROVIDER_NOT_FOUND', 'is not known'] as const);
      throw new EclipticError(code, `lane "${id}" ${reason}`, { lane: id });
    }
    this.open(id);
    await Promise.all((this.#starters.get(id) ?? []).map((start) => start()));
  }

  /** The lane of that name, made where there is none. */
  open(id: string): Lane {
    const known = this.#lanes.get(id);
    if (known) return known;
    if (!LANE_ID.test(id) || id.length > LIMITS.agentIdChars) {
      throw new EclipticError('INVALID_CONFIG', `"${id}" cannot be the name of a lane`, { faults: [id] });
    }
    if (this.#lanes.size >= MAX_LANES) {
      throw new EclipticError('QUEUE_FULL', `there are ${MAX_LANES} lanes already`, { lane: id });
    }
    const folder = join(this.#folder, id);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw new EclipticError('DATA_FOLDER', `cannot use ${folder}: ${describeError(error)}`, { path: folder }, error);
    }
    const lane = new Lane(id, folder, () => this.#lanes.delete(id));
    this.#lanes.set(id, lane);
    return lane;
  }

  /** Closes the lane of that name. */
  async close(id: string): Promise<void> {
    const lane = this.#lanes.get(id);
    if (!lane) throw new EclipticError('PROVIDER_NOT_FOUND', `there is no lane "${id}"`, { lane: id });
    this.#closed.add(id);
    await lane.close();
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.close()));
  }
}
