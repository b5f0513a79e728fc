import type { DeviceRadar, RadarReport } from '../../coding-agents/radar/device-radar.js';
import { describeError, type EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { OwnerDevices } from './owner-devices.js';

interface RadarReportsComponents {
  runtime: Runtime;
  devices: Pick<OwnerDevices, 'list' | 'ask' | 'onConnected' | 'onRemoved'>;
  radar: {
    readonly seen: DeviceRadar;
    onChange(listener: () => void): void;
    heard(device: string, report: unknown): void;
    gone(device: string): void;
  };
}

/** What a device has confirmed that it knows of this one. */
interface Told {
  /** By folder, as text. */
  readonly places: Map<string, string>;
  leases: string;
  timer: Timer | undefined;
  sending: boolean;
  again: boolean;
}

/** Time between two reports to one device. */
const SPACING_MS = 150;
const RETRY_MS = 1_000;
/** Characters of one report, unless a single folder needs more. */
const MAX_CHARS = 60_000;

/** Tells the owner's other devices at once what changes here, and takes what they tell. */
export class RadarReports {
  readonly #components: RadarReportsComponents;
  readonly #told = new Map<string, Told>();
  #closed = false;

  constructor(components: RadarReportsComponents) {
    this.#components = components;
    const { devices, radar } = components;
    devices.onConnected((node) => {
      // A device that was started again knows nothing.
      this.#forget(node);
      this.#tell(node);
    });
    devices.onRemoved((node) => {
      this.#forget(node);
      radar.gone(node);
    });
    radar.onChange(() => this.#tellAll());
    this.#tellAll();
  }

  /** Takes the report of another device. */
  take(node: string, report: unknown): void {
    this.#components.radar.heard(node, report);
  }

  close(): void {
    this.#closed = true;
    for (const node of [...this.#told.keys()]) this.#forget(node);
  }

  #tellAll(): void {
    for (const { node, connected } of this.#components.devices.list()) if (connected) this.#tell(node);
  }

  #forget(node: string): void {
    this.#told.get(node)?.timer?.cancel();
    this.#told.delete(node);
  }

  #tell(node: string): void {
    if (this.#closed) return;
    const known = this.#told.get(node);
    // It may know of an earlier time, so the first report has everything, also if that is nothing.
    const told = known ?? { places: new Map(), leases: '', timer: undefined, sending: false, again: false };
    this.#told.set(node, told);
    told.again = true;
    if (!told.sending && !told.timer) void this.#send(node, told);
  }

  /** One report at a time; whatever changes meanwhile is in the next one. */
  async #send(node: string, told: Told): Promise<void> {
    const { runtime, devices } = this.#components;
    told.again = false;
    const next = this.#next(told);
    if (!next) return;
    told.sending = true;
    let delay: number | undefined = SPACING_MS;
    try {
      await devices.ask(node, 'radar.report', next.report);
      next.confirmed();
    } catch (error) {
      delay = this.#failed(node, told, error as EclipticError, next.confirmed);
    }
    told.sending = false;
    if (this.#closed || this.#told.get(node) !== told || delay === undefined) return;
    told.timer = runtime.setTimer(() => {
      told.timer = undefined;
      void this.#send(node, told);
    }, delay);
  }

  /** What the device does not know yet, as far as one report holds it; undefined if nothing. */
  #next(told: Told): { report: RadarReport; confirmed: () => void } | undefined {
    const { places, leases } = this.#components.radar.seen;
    const folders = places.map(({ folder }) => folder);
    const gone = [...told.places.keys()].filter((folder) => !folders.includes(folder));
    const heldText = JSON.stringify(leases);
    const sent: [DeviceRadar['places'][number], string][] = [];
    let chars = heldText === told.leases ? 0 : heldText.length;
    for (const place of places) {
      const text = JSON.stringify(place);
      if (told.places.get(place.folder) === text) continue;
      if (sent.length > 0 && chars + text.length > MAX_CHARS) break;
      chars += text.length;
      sent.push([place, text]);
    }
    const isLeased = heldText !== told.leases;
    if (sent.length === 0 && gone.length === 0 && !isLeased) return undefined;
    const report = { folders, places: sent.map(([place]) => place), ...(isLeased && { leases }) };
    const confirmed = () => {
      for (const folder of gone) told.places.delete(folder);
      for (const [{ folder }, text] of sent) told.places.set(folder, text);
      if (isLeased) told.leases = heldText;
    };
    return { report, confirmed };
  }

  /** The time after which to try again; undefined where that waits for the next connection. */
  #failed(node: string, told: Told, error: EclipticError, skip: () => void): number | undefined {
    const { runtime } = this.#components;
    runtime.logger.debug({ node, error: describeError(error) }, 'radar report not confirmed');
    switch (error.code) {
      case 'METHOD_NOT_FOUND':
      case 'NOT_GRANTED':
        return undefined;
      case 'RATE_LIMITED':
        return RETRY_MS;
      case 'PAYLOAD_TOO_LARGE':
        skip();
        runtime.logger.warn({ node, error: describeError(error) }, 'radar report too long to be sent');
        return SPACING_MS;
      default:
        // It may have arrived or not.
        told.places.clear();
        told.leases = '';
        return RETRY_MS;
    }
  }
}
