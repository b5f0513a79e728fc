import { z } from 'zod';

/** The repositories that a device's members work in, and whether one of them has no guard. */
export const HereSchema = z.array(z.tuple([z.string().max(64), z.boolean()])).max(1_000);
export type Here = z.infer<typeof HereSchema>;

interface Participant {
  readonly checkout: string;
  readonly client: string;
  /** Its process id and those of its ancestors, the nearest first. */
  readonly ancestors: readonly number[];
  /** Undefined until it is identified. */
  repository: string | undefined;
  guarded: boolean;
}

/** Which members work in which repository, here and on the owner's other devices, and which of them have a guard. */
export class Participants {
  readonly #here = new Map<string, Participant>();
  readonly #elsewhere = new Map<string, Here>();
  /** Names that have connected since this node started. */
  readonly #been = new Set<string>();

  join(name: string, about: Pick<Participant, 'checkout' | 'client' | 'ancestors'>): void {
    this.#been.add(name);
    this.#here.set(name, { ...about, repository: undefined, guarded: false });
  }

  leave(name: string): void {
    this.#here.delete(name);
  }

  isHere(name: string): boolean {
    return this.#here.has(name);
  }

  hasBeenHere(name: string): boolean {
    return this.#been.has(name);
  }

  checkoutOf(name: string): string | undefined {
    return this.#here.get(name)?.checkout;
  }

  get checkouts(): (readonly [name: string, checkout: string])[] {
    return [...this.#here].map(([name, { checkout }]) => [name, checkout]);
  }

  worksIn(name: string, repository: string): void {
    const known = this.#here.get(name);
    if (known) known.repository = repository;
  }

  /** True if the member was not known to have a guard. */
  proveGuard(name: string): boolean {
    const known = this.#here.get(name);
    if (!known || known.guarded) return false;
    known.guarded = true;
    return true;
  }

  /**
   * The members that a guard may speak for: those with the nearest common ancestor process or, where processes are
   * unknown, those that work in its folder with that client. `certain` if it is one, working where the guard was called.
   */
  spokenForBy({ client, ancestors, checkout }: Pick<Participant, 'checkout' | 'client' | 'ancestors'>) {
    const distance = (one: Participant) => {
      const at = ancestors.findIndex((pid) => pid > 1 && one.ancestors.includes(pid));
      return at < 0 ? Number.POSITIVE_INFINITY : at;
    };
    const all = [...this.#here];
    const least = Math.min(...all.map(([, one]) => distance(one)));
    const related = all.filter(([, one]) => {
      if (Number.isFinite(least)) return distance(one) === least;
      return one.checkout === checkout && one.client.toLowerCase().includes(client.split('-')[0]!);
    });
    const [only] = related;
    const certain = related.length === 1 && isWithin(checkout, only![1].checkout);
    return { names: related.map(([name]) => name), certain };
  }

  get here(): Here {
    const unguarded = new Map<string, boolean>();
    for (const { repository, guarded } of this.#here.values()) {
      if (repository !== undefined) unguarded.set(repository, unguarded.get(repository) === true || !guarded);
    }
    return [...unguarded];
  }

  /** Do members work here, or on that device? */
  isEngaged(node: string): boolean {
    return this.#here.size > 0 || (this.#elsewhere.get(node)?.length ?? 0) > 0;
  }

  heard(node: string, here: Here): void {
    this.#elsewhere.set(node, here);
  }

  lost(node: string): void {
    this.#elsewhere.delete(node);
  }

  /** Does every member that works there have a guard? */
  allGuarded(repository: string): boolean {
    const own = [...this.#here.values()].filter((one) => (one.repository ?? repository) === repository);
    const others = [...this.#elsewhere.values()].flat();
    const there = others.filter(([other]) => other === repository);
    if (own.length === 0 && there.length === 0) return false;
    return own.every(({ guarded }) => guarded) && there.every(([, unguarded]) => !unguarded);
  }
}

function isWithin(one: string, other: string): boolean {
  return `${one}/`.startsWith(`${other}/`) || `${other}/`.startsWith(`${one}/`);
}
