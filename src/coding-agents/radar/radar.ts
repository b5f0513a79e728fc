import type { A2AObservability } from '../../mesh/observability.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Git } from '../../system/git/git.js';
import type { GitPlace } from '../../system/git/known-repositories.js';
import { coverOf } from '../leases/glob.js';
import type { Leases } from '../leases/leases.js';
import { type DeviceRadar, MAX_PLACES } from './device-radar.js';
import { MAX_WATCHED, type WatchBudget } from './folder-watch.js';
import { Notices, type Spoken, type StoppedOperation } from './notices.js';
import { PlaceWatch } from './place-watch.js';
import type { DirtyPlace } from './radar-machine.js';
import { RadarPicture } from './radar-picture.js';

/** A worktree that the radar looks at. */
export interface Watched {
  readonly folder: string;
  readonly place: GitPlace;
  /** A folder that tells the repository. */
  readonly of: string;
  /** The names of the agents of this node that work there; none for the user's own folder. */
  readonly agents: readonly string[];
  /** Is anything at work there? Otherwise it is read once. */
  readonly active: boolean;
}

/** The folders besides the checkouts of coding agents. */
export interface WorkPlaces {
  readonly places: readonly Watched[];
  /** Calls back when they change. */
  onChange(listener: () => void): void;
}

export interface RadarComponents extends Spoken {
  runtime: Runtime;
  git: Git;
  leases: Leases;
  observability: A2AObservability;
  /** This node. */
  device: string;
  /** Is there a connection to that device? */
  reachable: (device: string) => boolean;
  work: WorkPlaces;
}

interface Place extends Omit<Watched, 'place' | 'of'> {
  readonly watch: PlaceWatch;
  repository: { readonly id: string; readonly name: string } | undefined;
}

/** Of all paths together: the answer must fit into a frame between devices. */
const MAX_CHARS = 524_288;
const MAX_REASON = 1_000;

/** What is changed where: watches the folders of this node, hears of those of the owner's other devices, and compares. */
export class Radar {
  readonly #components: RadarComponents;
  readonly #budget: WatchBudget = { left: MAX_WATCHED };
  readonly #places = new Map<string, Place>();
  readonly #listeners = new Set<() => void>();
  readonly #notices: Notices;
  readonly #picture: RadarPicture;
  #skipped: DeviceRadar['skipped'] = [];
  #refreshing: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor(components: RadarComponents) {
    this.#components = components;
    this.#notices = new Notices(components);
    this.#picture = new RadarPicture((effect) => this.#notices.take(effect));
    components.leases.onChange(() => this.refresh());
    components.work.onChange(() => this.refresh());
    this.refresh();
  }

  /** Which folders there are, or who works in them, or what is leased, may have changed. */
  refresh(): void {
    this.#again = true;
    this.#refreshing ??= this.#refreshAll().finally(() => {
      this.#refreshing = undefined;
    });
  }

  /** Resolves when what happened before is known. */
  async settled(): Promise<void> {
    await this.#refreshing;
    await Promise.all([...this.#places.values()].map(({ watch }) => watch.settled()));
  }

  /** What this device sees. */
  get seen(): DeviceRadar {
    let chars = 0;
    const { device } = this.#components;
    const own = new Map(this.#own.map((place) => [place.folder, place]));
    const places = [...this.#places.values()].flatMap(({ folder, watch, repository }) => {
      const place = own.get(folder);
      if (!place || !repository || !watch.dirty) return [];
      const shown = watch.dirty.files.filter((file) => {
        chars += file.length;
        return chars <= MAX_CHARS;
      });
      const more = watch.dirty.more + watch.dirty.files.length - shown.length;
      const { branch } = place;
      return {
        ...{ device, folder, repository: place.repository, repositoryName: repository.name },
        ...(branch !== undefined && { branch }),
        ...{ agents: [...place.agents], files: shown, more, mode: watch.mode },
      };
    });
    const failed = [...this.#places.values()].flatMap(({ folder, watch: { failure } }) =>
      failure === undefined ? [] : { folder, reason: failure.slice(0, MAX_REASON) },
    );
    return { places, leases: heldBy(this.#components.leases), skipped: [...failed, ...this.#skipped] };
  }

  /** Calls back when `seen` changes. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** An operation of git in a folder of this node was stopped. */
  stopped(operation: StoppedOperation): void {
    this.#notices.stopped(operation);
  }

  /** Another device of the owner's says what has changed there. */
  heard(device: string, given: unknown): void {
    this.#picture.heard(device, given);
  }

  /** That device is none of the owner's any more. */
  gone(device: string): void {
    this.#picture.apply({ type: 'gone', device });
  }

  /** Every place that is known, here and on other devices. */
  get places(): DirtyPlace[] {
    return [...this.#picture.state.places.values()];
  }

  /** The places of this device. */
  get #own(): DirtyPlace[] {
    return this.places.filter(({ device }) => device === this.#components.device);
  }

  /** Places of others in which files are changed that the globs cover; those of devices that are away are left out. */
  changedBy(repository: string, globs: readonly string[], own: { folder: string; agents: readonly string[] }) {
    const { device, reachable } = this.#components;
    const covers = globs.map(coverOf);
    return this.places.flatMap((place) => {
      const isOwn = place.device === device && place.folder === own.folder;
      if (isOwn || place.repository !== repository) return [];
      if (place.agents.length > 0 && place.agents.every((agent) => own.agents.includes(agent))) return [];
      if (place.device !== device && !reachable(place.device)) return [];
      const paths = place.files.filter((path) => covers.some((isCovered) => isCovered(path)));
      return paths.length === 0 ? [] : [{ place, paths }];
    });
  }

  /** The agents that work in a folder of this device, and its changed files. */
  at(folder: string): DirtyPlace | undefined {
    return this.#own.find((place) => place.folder === folder);
  }

  close(): void {
    this.#closed = true;
    this.#notices.close();
    this.#listeners.clear();
    for (const { watch } of this.#places.values()) watch.close();
  }

  async #refreshAll(): Promise<void> {
    while (this.#again && !this.#closed) {
      this.#again = false;
      try {
        await this.#refresh();
      } catch (error) {
        this.#components.runtime.logger.error({ err: error }, 'radar not refreshed');
      }
    }
  }

  async #refresh(): Promise<void> {
    const { leases, device } = this.#components;
    const all = distinct(await this.#watched());
    if (this.#closed) return;
    const wanted = new Map(all.slice(0, MAX_PLACES).map((one) => [one.folder, one]));
    this.#skipped = all.slice(MAX_PLACES).map(({ folder }) => ({ folder, reason: `more than ${MAX_PLACES} folders` }));
    for (const [folder, { watch, active }] of this.#places) {
      if (wanted.get(folder)?.active === active) continue;
      watch.close();
      this.#places.delete(folder);
      if (!wanted.has(folder)) this.#picture.apply({ type: 'gone', device, folder });
    }
    for (const one of wanted.values()) {
      const known = this.#places.get(one.folder);
      const repository = known?.repository ?? (await leases.repositoryAt(one.of).catch(() => undefined));
      const watch = known?.watch ?? this.#watchOf(one);
      this.#places.set(one.folder, { folder: one.folder, agents: one.agents, active: one.active, watch, repository });
      this.#publish(one.folder);
    }
    this.#picture.leases(device, heldBy(leases));
    this.#changed();
  }

  #watchOf({ folder, place, active }: Watched): PlaceWatch {
    const onChange = () => {
      this.#publish(folder);
      this.#changed();
    };
    return new PlaceWatch({ ...this.#components, budget: this.#budget }, { folder, place, active, onChange });
  }

  async #watched(): Promise<Watched[]> {
    const { leases, work } = this.#components;
    const checkouts = leases.participants.checkouts.map(async ([name, checkout]): Promise<Watched[]> => {
      try {
        const { root } = await leases.repositoryAt(checkout);
        return [{ folder: root, place: { folder: root }, of: root, agents: [name], active: true }];
      } catch (error) {
        this.#components.runtime.logger.warn({ checkout, error: describeError(error) }, 'checkout not watched');
        return [];
      }
    });
    return [...(await Promise.all(checkouts)).flat(), ...work.places];
  }

  #publish(folder: string): void {
    const { device, leases } = this.#components;
    const known = this.#places.get(folder);
    if (!known || this.#closed) return;
    const { watch, repository, agents, active } = known;
    if (watch.failure !== undefined || !repository) {
      if (this.at(folder)) this.#picture.apply({ type: 'gone', device, folder });
      return;
    }
    if (!watch.dirty) return;
    const { branch, files } = watch.dirty;
    const addresses = agents.map((name) => leases.address(name));
    // What was left behind in a folder in which nothing is at work is shown, and is in nobody's way.
    const place = { device, folder, repository: repository.id, branch, agents: addresses, files: active ? files : [] };
    this.#picture.apply({ type: 'place', place });
  }

  #changed(): void {
    if (this.#closed) return;
    for (const listener of this.#listeners) {
      try {
        listener();
      } catch (error) {
        this.#components.runtime.logger.error({ err: error }, 'radar change not passed on');
      }
    }
  }
}

function heldBy({ held }: Leases): DeviceRadar['leases'] {
  const byRepository = new Map<string, DeviceRadar['leases'][number]['leases']>();
  for (const { repository, id, glob, holder } of held) {
    byRepository.set(repository, [...(byRepository.get(repository) ?? []), { id, glob, holder }]);
  }
  return [...byRepository].map(([repository, leases]) => ({ repository, leases }));
}

/** Several agents may work in one folder. Folders in which something is at work come first. */
function distinct(watched: readonly Watched[]): Watched[] {
  const found = new Map<string, Watched>();
  for (const one of watched) {
    const known = found.get(one.folder);
    const agents = [...new Set([...(known?.agents ?? []), ...one.agents])];
    found.set(one.folder, known ? { ...known, agents, active: known.active || one.active } : one);
  }
  return [...found.values()].sort((one, other) => Number(other.active) - Number(one.active));
}
