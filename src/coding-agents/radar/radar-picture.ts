import { EclipticError } from '../../runtime/errors.js';
import { isNormalGlob } from '../leases/glob.js';
import { comparable, type DeviceRadar, RadarReportSchema } from './device-radar.js';
import { NO_RADAR, type RadarEffect, type RadarEvent, type RadarState, step } from './radar-machine.js';

/** What this device knows of all places: its own, and those of the devices that report theirs. */
export class RadarPicture {
  readonly #onEffect: (effect: RadarEffect) => void;
  #state = NO_RADAR;

  constructor(onEffect: (effect: RadarEffect) => void) {
    this.#onEffect = onEffect;
  }

  get state(): RadarState {
    return this.#state;
  }

  apply(event: RadarEvent): void {
    const { state, effects } = step(this.#state, event);
    this.#state = state;
    for (const effect of effects) this.#onEffect(effect);
  }

  /** All leases of a device's agents. */
  leases(device: string, held: DeviceRadar['leases']): void {
    const before = [...this.#state.leases.values()].filter((one) => one.device === device);
    const now = new Set(held.map(({ repository }) => repository));
    for (const { repository } of before) {
      if (!now.has(repository)) this.apply({ type: 'leases', device, repository, leases: [] });
    }
    for (const { repository, leases } of held) this.apply({ type: 'leases', device, repository, leases });
  }

  /** Takes the report of another device, which speaks for its own agents only. */
  heard(device: string, given: unknown): void {
    const read = RadarReportSchema.safeParse(given);
    if (!read.success) {
      const { path, message } = read.error.issues[0]!;
      throw new EclipticError('INVALID_ARGUMENTS', `${path.join('.') || 'the report'}: ${message}`);
    }
    const { folders, places, leases } = read.data;
    const there = [...this.#state.places.values()].filter((place) => place.device === device);
    for (const { folder } of there) {
      if (!folders.includes(folder)) this.apply({ type: 'gone', device, folder });
    }
    const isThere = (address: string) => address.endsWith(`@${device}`);
    for (const place of places) {
      this.apply({ type: 'place', place: { ...comparable(place), device, agents: place.agents.filter(isThere) } });
    }
    if (!leases) return;
    const isValid = ({ holder, glob }: { holder: string; glob: string }) => isThere(holder) && isNormalGlob(glob);
    const own = leases.map((one) => ({ ...one, leases: one.leases.filter(isValid) }));
    this.leases(device, own);
  }
}
