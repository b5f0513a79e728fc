import { inbox, outbox } from '../../src/mail/tables.js';
import type { Capability } from './capability.js';
import type { Dice } from './dice.js';
import { type Fabric, nameOf } from './fabric.js';

/** The nodes that must be left. */
const LEAST = 3;

/** Members are removed: the others stop knowing them, and keep nothing of theirs. */
export class Removals implements Capability {
  readonly name = 'membership';
  readonly weight = 0.4;
  readonly #fabric: Fabric;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  act(dice: Dice): void {
    const [host, ...others] = this.#fabric.members;
    if (host?.life?.state !== 'up' || others.length < LEAST) return;
    const gone = dice.pick(others);
    try {
      host.life.node!.network.remove(gone.key);
    } catch (error) {
      this.#fabric.violation('membership', `${gone.name} could not be removed: ${nameOf(error)}`);
      return;
    }
    gone.removedAt = this.#fabric.now;
    this.#fabric.note(`${gone.name} is removed`);
    this.#fabric.count('removal');
    // It may go on, and try to stay.
    const { life } = gone;
    if (life && dice.chance(0.5)) this.#fabric.crash(life, { silently: dice.chance(0.5), power: false });
  }

  async left(): Promise<string[]> {
    const left: string[] = [];
    for (const gone of this.#fabric.stations.filter(({ removedAt }) => removedAt !== undefined)) {
      for (const life of this.#fabric.up.filter(({ station }) => station.removedAt === undefined)) {
        const { network, registry } = life.node;
        const about = `${life.name} ${gone.name}`;
        if (!network.hasRemoved(gone.key)) left.push(`${about}: the removal is not known`);
        if (network.peers.reachable(gone.key)) left.push(`${about}: it is connected`);
        if (registry.getRemoteCards().some(({ node }) => node === gone.key)) left.push(`${about}: it has agents`);
        for (const table of [outbox, inbox]) {
          const rows = await this.#fabric.rows(life, table);
          if (rows.some(({ node }) => node === gone.key)) left.push(`${about}: mail is in the ${table.name}`);
        }
      }
    }
    return left;
  }

  async judge(): Promise<void> {
    const left = await this.left();
    this.#fabric.check('membership', left.length === 0, () => left.join('; '));
  }
}
