import type { Dice } from './dice.js';
import { type Fabric, isUp, type Life, nameOf, type Station } from './fabric.js';
import { PERFECT } from './fabric-network.js';

/** What a seed's world is like. */
export interface Weather {
  readonly loss: number;
  readonly duplication: number;
  readonly latencyMs: readonly [number, number];
  readonly power: boolean;
  readonly fullDisks: boolean;
  readonly slowDisks: boolean;
  readonly clocks: boolean;
}

export function drawWeather(dice: Dice): Weather {
  return {
    loss: dice.chance(0.2) ? 0 : dice.between(0, 0.25),
    duplication: dice.chance(0.3) ? 0 : dice.between(0, 0.2),
    latencyMs: [1, dice.pick([5, 20, 80, 200])],
    power: dice.chance(0.6),
    fullDisks: dice.chance(0.25),
    slowDisks: dice.chance(0.5),
    clocks: dice.chance(0.4),
  };
}

interface Fault {
  readonly weight: number;
  strike(dice: Dice): void;
}

/** Breaks things, and repairs them again. */
export class Faults {
  readonly #fabric: Fabric;
  readonly #weather: Weather;
  readonly #kinds: readonly Fault[];

  constructor(fabric: Fabric, weather: Weather) {
    this.#fabric = fabric;
    this.#weather = weather;
    const { power, fullDisks, slowDisks, clocks } = weather;
    this.#kinds = [
      { weight: 20, strike: (dice) => this.#cut(dice) },
      { weight: 8, strike: (dice) => this.#isolate(dice) },
      { weight: 6, strike: (dice) => this.#clog(dice) },
      { weight: 14, strike: (dice) => this.#breakLinks(dice) },
      { weight: 22, strike: (dice) => this.#crash(dice, power && dice.chance(0.6)) },
      { weight: 10, strike: (dice) => this.#stop(dice) },
      { weight: slowDisks ? 6 : 0, strike: (dice) => this.#slowDisk(dice) },
      { weight: fullDisks ? 8 : 0, strike: (dice) => this.#fullDisk(dice) },
      { weight: clocks ? 8 : 0, strike: (dice) => this.#moveClock(dice) },
      { weight: 4, strike: (dice) => this.#calmNetwork(dice) },
    ];
    fabric.onCrash = (life) => fabric.note(`${life.name} is gone`);
  }

  begin(): void {
    const { loss, duplication, latencyMs } = this.#weather;
    this.#fabric.network.faults = { loss, duplication, latencyMs };
    const order = this.#fabric.network.steady ? 'in order' : `loss ${loss.toFixed(2)}, twice ${duplication.toFixed(2)}`;
    this.#fabric.note(`frames take up to ${latencyMs[1]} ms, ${order}`);
  }

  strike(dice: Dice): void {
    dice.weighted(this.#kinds).strike(dice);
  }

  /** Ends every fault, and brings every member up. */
  async calm(): Promise<void> {
    const fabric = this.#fabric;
    fabric.chaos = false;
    fabric.network.healAll();
    fabric.network.faults = PERFECT;
    for (const { disk } of fabric.stations) {
      disk.faults.capacity = Number.POSITIVE_INFINITY;
      disk.faults.latencyMs = 0;
    }
    fabric.note('everything is healed');
    // What is starting or stopping may finish.
    await fabric.runtime.advance(12_000);
    fabric.diskMayFail = false;
    for (const station of fabric.members) {
      if (station.life && !isUp(station.life)) fabric.crash(station.life, { silently: false, power: false });
      if (!station.life) await fabric.settled(fabric.start(station));
    }
  }

  #cut(dice: Dice): void {
    const [one, other] = dice.shuffled(this.#fabric.stations) as [Station, Station];
    const ms = dice.between(500, dice.chance(0.1) ? 90_000 : 15_000);
    const bothWays = dice.chance(0.6);
    this.#fabric.note(`${one.name} ${bothWays ? 'and' : 'to'} ${other.name}: cut for ${Math.round(ms)} ms`);
    this.#fabric.count(bothWays ? 'cut' : 'one-way cut');
    this.#cutFor(one, other, ms);
    if (bothWays) this.#cutFor(other, one, ms);
  }

  /** One node against all others. */
  #isolate(dice: Dice): void {
    const one = dice.pick(this.#fabric.stations);
    const ms = dice.between(500, 20_000);
    this.#fabric.note(`${one.name} is alone for ${Math.round(ms)} ms`);
    this.#fabric.count('isolated');
    for (const other of this.#fabric.stations) {
      if (other === one) continue;
      this.#cutFor(one, other, ms);
      this.#cutFor(other, one, ms);
    }
  }

  #cutFor(from: Station, to: Station, ms: number): void {
    const { network } = this.#fabric;
    const ways = [from.key, to.key] as const;
    network.cut(...ways);
    this.#later(ms, () => network.heal(...ways));
  }

  #clog(dice: Dice): void {
    const [one, other] = dice.shuffled(this.#fabric.stations) as [Station, Station];
    const ms = dice.between(200, 4_000);
    this.#fabric.note(`${one.name} to ${other.name}: ${Math.round(ms)} ms slower`);
    this.#fabric.count('clogged');
    this.#fabric.network.clog(one.key, other.key, ms);
    this.#later(dice.between(1_000, 10_000), () => this.#fabric.network.clog(one.key, other.key, 0));
  }

  #breakLinks(dice: Dice): void {
    const station = dice.pick(this.#fabric.stations);
    const silently = dice.chance(0.5);
    this.#fabric.note(`the links of ${station.name} break${silently ? ' silently' : ''}`);
    this.#fabric.count('links broke');
    this.#fabric.network.sever(station.key, silently);
  }

  #crash(dice: Dice, power: boolean): void {
    const life = dice.pickMaybe(this.#running);
    if (!life) return;
    const silently = dice.chance(0.5);
    this.#fabric.note(`${life.name} ${power ? 'loses power' : 'crashes'}${silently ? ' silently' : ''}`);
    this.#fabric.count(power ? 'power cut' : 'crash');
    this.#fabric.crash(life, { silently, power });
    this.#restartLater(life.station, dice);
  }

  #stop(dice: Dice): void {
    const life = dice.pickMaybe(this.#fabric.up);
    if (!life) return;
    this.#fabric.note(`${life.name} is stopped`);
    this.#fabric.count('stop');
    this.#fabric.stop(life, dice.chance(0.3) ? 2_000 : 0).then(
      () => this.#restartLater(life.station, dice),
      (error: unknown) => this.#fabric.violation('stopping', `${life.name} did not stop: ${nameOf(error)}`),
    );
  }

  #slowDisk(dice: Dice): void {
    const { disk, name } = dice.pick(this.#fabric.stations);
    disk.faults.latencyMs = dice.pick([5, 50, 400]);
    this.#fabric.note(`the disk of ${name} takes up to ${disk.faults.latencyMs} ms`);
    this.#fabric.count('slow disk');
    this.#later(dice.between(1_000, 15_000), () => {
      disk.faults.latencyMs = 0;
    });
  }

  #fullDisk(dice: Dice): void {
    const { disk, name } = dice.pick(this.#fabric.stations);
    disk.faults.capacity = disk.used + dice.whole(0, 4_096);
    this.#fabric.diskMayFail = true;
    this.#fabric.note(`the disk of ${name} is full`);
    this.#fabric.count('full disk');
    this.#later(dice.between(500, 8_000), () => {
      disk.faults.capacity = Number.POSITIVE_INFINITY;
    });
  }

  #moveClock(dice: Dice): void {
    const station = dice.pick(this.#fabric.stations);
    const ms = Math.round(dice.pick([1, -1]) * dice.between(0, dice.chance(0.3) ? 300_000 : 5_000));
    station.aheadMs += ms;
    if (station.life) station.life.runtime.aheadMs = station.aheadMs;
    this.#fabric.note(`the clock of ${station.name} jumps by ${ms} ms`);
    this.#fabric.count('clock jump');
  }

  #calmNetwork(dice: Dice): void {
    const { network } = this.#fabric;
    const before = network.faults;
    network.faults = PERFECT;
    this.#fabric.note('the network is perfect for a while');
    this.#later(dice.between(1_000, 10_000), () => {
      network.faults = before;
    });
  }

  get #running(): Life[] {
    return this.#fabric.stations.flatMap(({ life }) => (life && life.state !== 'stopped' ? life : []));
  }

  #restartLater(station: Station, dice: Dice): void {
    const ms = dice.chance(0.6) ? dice.between(0, 300) : dice.between(300, 12_000);
    this.#later(ms, () => this.#restart(station));
  }

  #restart(station: Station): void {
    if (station.life || station.removedAt !== undefined) return;
    this.#fabric.start(station).catch((error: unknown) => {
      const life = station.life as Life | undefined;
      const full = station.disk.faults.capacity !== Number.POSITIVE_INFINITY;
      this.#fabric.check('store', full, () => `${station.name} does not start: ${nameOf(error)}`);
      if (life) this.#fabric.crash(life, { silently: false, power: false });
      this.#later(2_000, () => this.#restart(station));
    });
  }

  #later(ms: number, task: () => void): void {
    this.#fabric.runtime.setTimer(() => {
      if (this.#fabric.chaos) task();
    }, ms);
  }
}
