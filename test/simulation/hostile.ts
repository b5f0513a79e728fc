import type { NetworkedNode, Nodes } from '../nodes-fixture.js';
import { Rogue, type RogueLink } from '../rogue-peer.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import type { Fabric, UpLife } from './fabric.js';

/** A member that speaks the protocol and lies: wrong numbers, forged cards, stolen names, garbage. */
export class HostileMember implements Capability {
  readonly name = 'hostile';
  readonly weight = 3;
  readonly #fabric: Fabric;
  #rogue: Rogue | undefined;
  #accused = 0;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  /** Becomes a member, as an honest node would. */
  async join(host: NetworkedNode): Promise<void> {
    const { runtime } = this.#fabric;
    const settled = <T>(promise: Promise<T>) => this.#fabric.settled(promise);
    // The part of the fixture that a rogue needs.
    const nodes = { runtime, settled } as unknown as Nodes;
    this.#rogue = await Rogue.join(nodes, host);
  }

  onEvent(event: { readonly type: string; readonly node?: string | undefined }): void {
    if (event.type === 'security' && event.node === this.#rogue?.key) this.#accused++;
  }

  act(dice: Dice): void {
    const life = dice.pickMaybe(this.#fabric.up.filter(({ station }) => station.removedAt === undefined));
    const rogue = this.#rogue;
    if (!life || !rogue) return;
    this.#fabric.count('hostile act');
    const link = rogue.call(life.node);
    if (dice.chance(0.1)) link.sayBytes(this.#fabric.runtime.bytes(dice.whole(0, 200)));
    else link.hello();
    const seed = dice.seed();
    this.#fabric.runtime.setTimer(() => this.#lie(link, life, rogue, dice, seed), dice.between(1, 50));
  }

  #lie(link: RogueLink, life: UpLife, rogue: Rogue, dice: Dice, seed: number): void {
    if (link.closed || life.state !== 'up') return;
    const victim = dice.pick(life.station.roles);
    const other = dice.pick(this.#fabric.roles);
    const lies: (() => void)[] = [
      () => link.announce({ id: victim.id, tier: 0 }),
      () => link.give(['c', 'change', [rogue.forgedCard({ id: other.id, tier: 0, node: other.station.key })]]),
      () => link.data({ first: 1 + (seed % 50), items: [['m', {}]] }),
      () => link.data({ received: seed, items: [] }),
      () => link.say(['d', 'x', -1, null, {}, 7]),
      () => link.sayBytes(this.#fabric.runtime.bytes(seed % 2_000)),
      () => link.give(['mail', 'store', 0, [[1, 0, null, { id: 'x' }]]]),
      () => link.give(['t', 'call', 1, { agent: victim.id, ask: { kind: 'tool', name: 'count' } }]),
      () => link.close(),
    ];
    dice.pick(lies)();
  }

  judge(): void {
    const { up } = this.#fabric;
    this.#fabric.check('hostile peer', up.length > 0, () => 'no node is up any more');
    const stolen = up.flatMap(({ node, name, station }) =>
      node.registry
        .getRemoteCards()
        .filter((card) => card.node === this.#rogue?.key && station.roles.some(({ id }) => id === card.id))
        .filter((card) => node.registry.getById(card.id)?.node === this.#rogue?.key)
        .map(({ id }) => `${id} is the hostile member's at ${name}`),
    );
    this.#fabric.check('hostile peer', stolen.length === 0, () => stolen.join('; '));
    this.#fabric.count('accusations of the hostile member', this.#accused);
  }
}
