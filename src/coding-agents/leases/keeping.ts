import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Store } from '../../store/store.js';
import type { KeeperRow } from '../../store/tables.js';

export interface KeepingComponents {
  store: Store;
  nodeKey: string;
  /** The other devices of this owner, as far as this one knows, here or not. */
  devices: () => readonly string[];
  reachable: (node: string) => boolean;
  ask: (node: string, question: 'claim', body: unknown) => Promise<unknown>;
  /** The highest token of a repository that was seen here. */
  highest: (repository: string) => number;
  /** This device keeps a repository from now on, in which tokens up to this one were seen. */
  onBegin: (repository: string, token: number) => Promise<void>;
  /** Another one does than before, which may have been this one. */
  onMove: (repository: string, wasOurs: boolean) => Promise<void>;
}

const ClaimAnswerSchema = z.object({
  /** Who keeps it, or will; null if the claim is good. */
  keeper: z.string().nullable(),
  devices: z.array(z.string()).max(1_000),
  token: z.int().nonnegative(),
});

/**
 * Who settles the leases of a repository: one device, the same for all. Whoever is to be it asks every device of the
 * owner that anyone knows of, once; from then on it settles alone, and stays it for as long as it is a device. Of those
 * who claim at once, or who kept the same before they met, the one of the smaller digest is it.
 */
export class Keeping {
  readonly #components: KeepingComponents;
  readonly #keepers: Map<string, string>;
  /** Repositories that this device claims, until another's claim is better. */
  readonly #claims = new Map<string, Promise<string | undefined>>();
  readonly #yielded = new Map<string, string>();

  constructor(components: KeepingComponents, rows: readonly KeeperRow[]) {
    this.#components = components;
    this.#keepers = new Map(rows.map(({ repository, keeper }) => [repository, keeper]));
  }

  /** What this device knows for certain. */
  get known(): ReadonlyMap<string, string> {
    return this.#keepers;
  }

  /** The keeper, if that is settled, and it is still a device of this owner. */
  keeperOf(repository: string): string | undefined {
    const keeper = this.#keepers.get(repository);
    const { nodeKey, devices } = this.#components;
    return keeper === nodeKey || (keeper !== undefined && devices().includes(keeper)) ? keeper : undefined;
  }

  /** Whom to ask now; undefined while that cannot be said, or it cannot be reached. */
  async find(repository: string): Promise<string | undefined> {
    const { nodeKey, devices, reachable } = this.#components;
    const known = this.keeperOf(repository);
    const candidates = [nodeKey, ...devices()];
    const best = known ?? candidates.reduce((one, other) => (before(repository, other, one) ? other : one));
    const keeper = best === nodeKey && known === undefined ? await this.claim(repository) : best;
    return keeper === nodeKey || (keeper !== undefined && reachable(keeper)) ? keeper : undefined;
  }

  /** Becomes the keeper if everybody agrees; tells who is it otherwise, or nothing if somebody could not be asked. */
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

  /** Another device claims a repository. */
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

  /** Another device says who keeps it. */
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
    await this.#components.store.write([{ put: 'keepers', row: { repository, keeper } }]);
  }
}

/** Does the first device come before the other, for that repository? */
function before(repository: string, one: string, other: string): boolean {
  return digest(repository, one) < digest(repository, other);
}

function digest(repository: string, node: string): string {
  return createHash('sha256').update(`${repository}\n${node}`).digest('hex');
}
