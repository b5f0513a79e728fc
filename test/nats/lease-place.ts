import { overlaps } from '../../src/coding-agents/leases/glob.js';
import { Leases, type LeaseView } from '../../src/coding-agents/leases/leases.js';
import type { Mail } from '../../src/mail/mail.js';
import { NatsConnection } from '../../src/nats/connection.js';
import { NatsRegisters } from '../../src/nats/nats-registers.js';
import { Identity } from '../../src/network/membership/identity.js';
import type { Network } from '../../src/network/peers/network.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import type { Store } from '../../src/store/store.js';

export const REPOSITORY = 'repository';
const runtime = systemRuntime();

/** A device of the owner with one member, whose leases a real broker decides. There are no links between devices. */
export class LeasePlace {
  readonly identity: Identity;
  readonly connection: NatsConnection;
  leases!: Leases;
  readonly notices: string[] = [];

  private constructor(identity: Identity, connection: NatsConnection) {
    this.identity = identity;
    this.connection = connection;
  }

  static async open(
    servers: readonly string[],
    {
      identity = Identity.create(runtime),
      store = new MemoryStore() as Store,
      isOwn = (_node: string): boolean => true,
    } = {},
  ): Promise<LeasePlace> {
    const connection = new NatsConnection({ runtime, identity }, { servers });
    await connection.start();
    const place = new LeasePlace(identity, connection);
    const registers = new NatsRegisters({ runtime, identity, connection }, { scope: () => 'mesh' });
    const network = {
      joined: true,
      peers: { get: (node: string) => (isOwn(node) ? {} : { foreign: true }), reachable: () => false },
      isOwnDevice: isOwn,
      hasRemoved: () => false,
      handle: () => {},
    } as unknown as Network;
    const mail = {
      keep: async ({ payload }: { payload: { text: string } }) => void place.notices.push(payload.text),
    } as unknown as Mail;
    const nodeKey = identity.key;
    const identify = async (root: string) => ({ id: REPOSITORY, name: 'here', root });
    place.leases = await Leases.open({ runtime, store, mail, network, nodeKey, identify, registers });
    place.leases.joined('agent', { checkout: '/work', client: 'test' });
    return place;
  }

  get holder(): string {
    return this.leases.address('agent');
  }

  /** The token of a confirmed lease; 0 of an unconfirmed one; undefined if another has it. */
  async take(glob: string, ttlMs = 60_000): Promise<number | undefined> {
    const wanted = [{ id: runtime.id(), glob }];
    const operation = { kind: 'take', holder: this.holder, wanted, ttlMs, why: '' } as const;
    const { outcome, confirmed } = await this.leases.operate(REPOSITORY, operation);
    if (outcome.conflicts.length > 0) return undefined;
    return confirmed ? outcome.leases[0]!.token : 0;
  }

  async release(...globs: string[]): Promise<void> {
    await this.leases.operate(REPOSITORY, { kind: 'release', holder: this.holder, globs });
  }

  get confirmed(): LeaseView[] {
    return this.leases.held.filter(({ label }) => label !== 'unconfirmed');
  }

  async stop(): Promise<void> {
    this.leases.close();
    await this.connection.stop();
  }
}

const about = ({ holder, glob, id, token, since }: LeaseView) =>
  `${holder.slice(6, 12)} holds ${glob} (${id}, token ${token}, since ${since})`;

/** Two places that both believe to have a confirmed lease of the same path. */
export function doubleHolders(places: readonly LeasePlace[]): string[] {
  const all = places.flatMap((place) => place.confirmed);
  return all.flatMap((one, at) =>
    all
      .slice(at + 1)
      .filter((other) => other.holder !== one.holder && overlaps(one.glob, other.glob))
      .map((other) => `${about(one)} and ${about(other)}`),
  );
}

/** Watches places until it is stopped: that no lease has two holders. */
export class LeaseWatch {
  readonly faults: string[] = [];
  readonly #places: readonly LeasePlace[];
  readonly #timer: NodeJS.Timeout;

  constructor(places: readonly LeasePlace[]) {
    this.#places = places;
    this.#timer = setInterval(() => this.look(), 5);
  }

  look(): void {
    if (this.faults.length < 100) this.faults.push(...doubleHolders(this.#places));
  }

  stop(): void {
    clearInterval(this.#timer);
    this.look();
  }
}
