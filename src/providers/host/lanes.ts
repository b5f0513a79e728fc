import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../../mesh/limits.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { HostStatus } from './isolated-provider-host.js';

export interface LaneMember {
  readonly status: HostStatus;
  stop(): Promise<void>;
}

/** A lane, for people. */
export interface LaneRow {
  readonly lane: string;
  readonly folder: string;
  readonly providers: readonly HostStatus[];
  /** Closed by the owner: nothing runs in it until it is opened again. */
  readonly closed: boolean;
}

/** Names that are safe as folder names on every system. */
const LANE_ID = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
const MAX_LANES = 256;

/** A group of providers with a folder of their own. Closing the lane ends their processes, and no others. */
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

  /** Ends `member` with the lane. Returns the function that unbinds it. */
  bind(member: LaneMember): () => void {
    if (this.#closed) {
      throw new EclipticError('PROVIDER_UNAVAILABLE', `lane "${this.id}" is closed`, { lane: this.id });
    }
    this.#members.add(member);
    return () => {
      this.#members.delete(member);
    };
  }

  /** The folder stays. */
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
  readonly #starters = new Map<string, (() => Promise<void>)[]>();
  readonly #closed = new Set<string>();

  /** `folder` holds the folders of the lanes. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  get rows(): LaneRow[] {
    const closed = [...this.#closed].map((lane) => {
      return { lane, folder: join(this.#folder, lane), providers: [], closed: true };
    });
    return [...[...this.#lanes.values()].map(({ row }) => row), ...closed].sort((a, b) => (a.lane < b.lane ? -1 : 1));
  }

  /** Registers a function that starts a provider of the lane when the lane is reopened. */
  onReopen(id: string, start: () => Promise<void>): void {
    const starters = this.#starters.get(id) ?? [];
    this.#starters.set(id, [...starters, start]);
  }

  /** Undoes `close`: starts the lane's providers again. */
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

  /** Creates the lane where there is none. */
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
