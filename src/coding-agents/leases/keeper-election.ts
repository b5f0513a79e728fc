import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Store } from '../../store/store.js';
import { type KeeperRow, keepers as keeperTable } from './tables.js';

export interface KeeperElectionComponents {
  store: Store;
  nodeKey: string;
  /** The owner's other devices that this one knows, connected or not. */
  devices: () => readonly string[];
  reachable: (node: string) => boolean;
  ask: (node: string, question: 'claim', body: unknown) => Promise<unknown>;
  /** The highest token of a repository that this device has seen. */
  highest: (repository: string) => number;
  /** This device became the keeper; tokens up to this one were given. */
  onBegin: (repository: string, token: number) => Promise<void>;
  /** The keeper changed; `wasOurs` if this device was the keeper. */
  onMove: (repository: string, wasOurs: boolean) => Promise<void>;
}

const ClaimAnswerSchema = z.object({
  /** The present or better-placed keeper; null if the claim is accepted. */
  keeper: z.string().nullable(),
  devices: z.array(z.string()).max(1_000),
  token: z.int().nonnegative(),
});

/**
 * Chooses the keeper of each repository: the one device that decides about its leases. A device becomes keeper by
 * asking every device of the owner that any of them knows, once; from then on it decides alone, for as long as it is a
 * device of the owner. Among simultaneous claims, or keepers that meet later, the smaller digest wins.
 */
export class KeeperElection {
  readonly #components: KeeperElectionComponents;
  readonly #keepers: Map<string, string>;
  /** Open claims of this device, and better claims that it yields to. */
  readonly #claims = new Map<string, Promise<string | undefined>>();
  readonly #yielded = new Map<string, string>();

  constructor(components: KeeperElectionComponents, rows: readonly KeeperRow[]) {
    this.#components = components;
    this.#keepers = new Map(rows.map(({ repository, keeper }) => [repository, keeper]));
  }

  get known(): ReadonlyMap<string, string> {
    return this.#keepers;
  }

  /** The known keeper, if it is still a device of this owner. */
  keeperOf(repository: string): string | undefined {
    const keeper = this.#keepers.get(repository);
    const { nodeKey, devices } = this.#components;
    return keeper === nodeKey || (keeper !== undefined && devices().includes(keeper)) ? keeper : undefined;
  }

  /** The keeper to ask; undefined while there is none, or it cannot be reached. */
  async find(repository: string): Promise<string | undefined> {
    const { nodeKey, devices, reachable } = this.#components;
    const known = this.keeperOf(repository);
    const candidates = [nodeKey, ...devices()];
    const best = known ?? candidates.reduce((one, other) => (before(repository, other, one) ? other : one));
    const keeper = best === nodeKey && known === undefined ? await this.claim(repository) : best;
    return keeper === nodeKey || (keeper !== undefined && reachable(keeper)) ? keeper : undefined;
  }

  /** Becomes the keeper if every device agrees; returns the keeper, or undefined if a device could not be asked. */
  claim(repository: string): Promise<string | undefined> {
    let claim = this.#claims.get(repository);
    if (!claim) {
      claim = this.#askAll(repository).finally(() => {
        this.#claims.delete(repository);
        this.#yielded.delete(repository);
      });
      this.#claims.set(repository, claim);
    }
    return claim;
  }

  /** Answers the claim of another device. */
  answerClaim(repository: string, claimant: string): z.infer<typeof ClaimAnswerSchema> {
    const { nodeKey, devices, highest } = this.#components;
    const rest = { devices: [...devices()], token: highest(repository) };
    const known = this.keeperOf(repository);
    if (known !== undefined && known !== claimant) return { keeper: known, ...rest };
    if (known === undefined && this.#claims.has(repository)) {
      if (before(repository, nodeKey, claimant)) return { keeper: nodeKey, ...rest };
      this.#yielded.set(repository, claimant);
    }
    return { keeper: null, ...rest };
  }

  /** Another device names the keeper. */
  async heard(repository: string, keeper: string): Promise<void> {
    const known = this.keeperOf(repository);
    if (known === keeper || (known !== undefined && before(repository, known, keeper))) return;
    const had = this.#keepers.get(repository);
    await this.#note(repository, keeper);
    if (had !== undefined) await this.#components.onMove(repository, had === this.#components.nodeKey);
  }

  async #askAll(repository: string): Promise<string | undefined> {
    const { nodeKey, devices, reachable, ask } = this.#components;
    const agreed = new Set([nodeKey]);
    let token = 0;
    const open = new Set(devices());
    while (open.size > 0) {
      const asked = [...open];
      if (!asked.every(reachable)) return undefined;
      const answers = await Promise.allSettled(asked.map((node) => ask(node, 'claim', { repository })));
      for (const [index, answer] of answers.entries()) {
        const read = answer.status === 'fulfilled' ? ClaimAnswerSchema.safeParse(answer.value) : undefined;
        if (!read?.success) return undefined;
        if (read.data.keeper !== null && read.data.keeper !== nodeKey) return read.data.keeper;
        token = Math.max(token, read.data.token);
        agreed.add(asked[index]!);
        open.delete(asked[index]!);
        for (const node of read.data.devices) if (!agreed.has(node)) open.add(node);
      }
    }
    const better = this.#yielded.get(repository);
    if (better !== undefined) return better;
    const known = this.keeperOf(repository);
    if (known !== undefined) return known;
    const had = this.#keepers.get(repository);
    await Promise.all([this.#note(repository, nodeKey), this.#components.onBegin(repository, token)]);
    if (had !== undefined) await this.#components.onMove(repository, false);
    return nodeKey;
  }

  async #note(repository: string, keeper: string): Promise<void> {
    this.#keepers.set(repository, keeper);
    await this.#components.store.write([keeperTable.put({ repository, keeper })]);
  }
}

/** The order of claims: by digest, so that it differs from repository to repository. */
function before(repository: string, one: string, other: string): boolean {
  return digest(repository, one) < digest(repository, other);
}

function digest(repository: string, node: string): string {
  return createHash('sha256').update(`${repository}\n${node}`).digest('hex');
}
