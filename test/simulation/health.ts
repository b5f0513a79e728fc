import type { A2ALogEvent, AgentCard } from '../../src/mesh/schemas.js';
import type { Capability } from './capability.js';
import { type Fabric, type Life, ON_PURPOSE, type UpLife } from './fabric.js';

/** After this long without a frame, a peer must not be shown as connected: 3 s, and the time of one look. */
const SILENCE_MS = 4_500;

/** What a node refuses without accusing the other node of anything. */
const REFUSALS = ['TIER_VIOLATION', 'SANDBOX_VIOLATION', 'ESCALATION_REQUIRED'];

/** Events that two subscribers of one node heard. */
interface Heard {
  first: number;
  second: number;
  readonly refusals: Map<string, number>;
}

/** Checks that belong to no work of their own: what nodes know of each other, and that nothing is left over. */
export class Health implements Capability {
  readonly name = 'health';
  readonly weight = 0;
  readonly #fabric: Fabric;
  readonly #heard = new Map<Life, Heard>();

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  act(): void {}

  /** Of two subscribers, the first throws now and then: the second must hear as much. */
  began(life: UpLife): void {
    const heard: Heard = { first: 0, second: 0, refusals: new Map() };
    this.#heard.set(life, heard);
    life.node.observability.subscribe(() => {
      if (++heard.first % 50 === 0) throw new Error(ON_PURPOSE);
    });
    life.node.observability.subscribe(({ type, code, success }) => {
      heard.second++;
      if (type === 'routing-decision' && success === false && code !== undefined)
        heard.refusals.set(code, (heard.refusals.get(code) ?? 0) + 1);
    });
  }

  /** All stations are honest: no node may accuse them of anything but a refused message. */
  onEvent({ type, code, node, reason }: A2ALogEvent, life: UpLife): void {
    if (type !== 'security' || REFUSALS.includes(code ?? '')) return;
    const honest = this.#fabric.stations.some(({ key, removedAt }) => key === node && removedAt === undefined);
    const told = () => `${life.name} accuses ${node}: ${code} ${reason}`;
    this.#fabric.check('hostile peer', !honest || life.station.removedAt !== undefined, told);
  }

  look(): void {
    const { runtime, network } = this.#fabric;
    for (const life of this.#fabric.up) {
      for (const { node, state } of life.node.network.list()) {
        if (state !== 'connected' || !this.#fabric.stations.some(({ key }) => key === node)) continue;
        const last = Math.max(network.lastArrival(node, life.station.key) ?? 0, life.startedAt);
        const silent = runtime.now() - last;
        this.#fabric.check(
          'a silent peer',
          silent <= SILENCE_MS,
          () => `${life.name} has heard nothing of ${node} for ${silent} ms`,
        );
      }
    }
  }

  left(): string[] {
    const members = this.#fabric.up.filter(({ station }) => station.removedAt === undefined);
    const differences = members.flatMap((viewer) =>
      members.flatMap((other) => (viewer === other ? [] : this.#compare(viewer, other))),
    );
    const waiting = this.#waiting;
    return waiting > this.#fabric.orphans()
      ? [...differences, `${waiting} conversations wait for an answer`]
      : differences;
  }

  /** Conversations of all members that wait for an answer. */
  get #waiting(): number {
    const members = this.#fabric.up.filter(({ station }) => station.removedAt === undefined);
    return members.reduce((sum, { node }) => sum + node.threads.waiting, 0);
  }

  async judge(): Promise<void> {
    const members = this.#fabric.up.filter(({ station }) => station.removedAt === undefined);
    const [waiting, orphans] = [this.#waiting, this.#fabric.orphans()];
    this.#fabric.check('replies', waiting <= orphans, () => `${waiting} reply permits are left`);
    for (const life of members) {
      const { first, second, refusals } = this.#heard.get(life)!;
      const alike = first === second && first > 0;
      this.#fabric.check(
        'callbacks of the embedding program',
        alike,
        () => `${life.name}: ${first} and ${second} heard`,
      );
      const { errorsByCode } = life.node.observability.getMetrics();
      for (const code of ['TIER_VIOLATION', 'SANDBOX_VIOLATION'] as const) {
        const [counted, told] = [errorsByCode[code] ?? 0, refusals.get(code) ?? 0];
        this.#fabric.check(
          'counts',
          counted === told,
          () => `${life.name} counts ${counted} ${code}, reported ${told}`,
        );
      }
      for (const other of members) {
        if (other === life) continue;
        const differences = this.#compare(life, other);
        this.#fabric.check('cards of other nodes', differences.length === 0, () => differences.join('; '));
      }
      const verified = await this.#fabric.settled(life.node.records!.audit.verify());
      this.#fabric.check('audit log', verified.fault === null, () => `${life.name}: ${JSON.stringify(verified)}`);
    }
  }

  #compare(viewer: UpLife, other: UpLife): string[] {
    const row = viewer.node.network.list().find(({ node }) => node === other.station.key);
    const found: string[] = [];
    if (row?.state !== 'connected') found.push(`${viewer.name} has ${other.name} as ${row?.state ?? 'unknown'}`);
    const cards = viewer.node.registry.getRemoteCards().filter(({ node }) => node === other.station.key);
    const known = cards.map(essence).sort().join();
    const told = other.node.registry.getLocalCards().map(essence).sort().join();
    if (known !== told) found.push(`${viewer.name} knows of ${other.name} ${known || 'no agent'}, not ${told}`);
    return found;
  }
}

function essence({ id, tier, sandboxId, revision }: AgentCard): string {
  return JSON.stringify([id, tier, sandboxId ?? null, revision]);
}
