import type { Step } from '../../runtime/machine.js';
import { coverOf } from '../leases/glob.js';

/** A worktree and the files in it that are changed and not committed. */
export interface DirtyPlace {
  /** The node that it is on. */
  readonly device: string;
  readonly folder: string;
  /** The same in every checkout of a repository. */
  readonly repository: string;
  /** Undefined for a detached HEAD. */
  readonly branch?: string | undefined;
  /** The addresses of the agents that work there. */
  readonly agents: readonly string[];
  /** Paths within the repository. */
  readonly files: readonly string[];
}

/** Files that an agent has reserved. */
export interface RadarLease {
  readonly id: string;
  readonly glob: string;
  readonly holder: string;
}

export type RadarEvent =
  /** Replaces what was known of that folder. */
  | { readonly type: 'place'; readonly place: DirtyPlace }
  /** The folder is not known any more; without one: every folder and lease of the device. */
  | { readonly type: 'gone'; readonly device: string; readonly folder?: string }
  /** All leases of a repository that agents of the device hold. */
  | {
      readonly type: 'leases';
      readonly device: string;
      readonly repository: string;
      readonly leases: readonly RadarLease[];
    };

/** The same files are changed in two worktrees, or changed in one and reserved by an agent that works elsewhere. */
export interface Overlap {
  readonly repository: string;
  readonly places: readonly DirtyPlace[];
  readonly lease?: RadarLease;
  readonly paths: readonly string[];
}

export type RadarEffect =
  /** With the paths that are new since the last time. */
  { readonly type: 'overlap'; readonly overlap: Overlap } | { readonly type: 'cleared'; readonly overlap: Overlap };

export interface RadarState {
  readonly places: ReadonlyMap<string, DirtyPlace>;
  readonly leases: ReadonlyMap<string, Extract<RadarEvent, { type: 'leases' }>>;
  readonly overlaps: ReadonlyMap<string, Overlap>;
}

export const NO_RADAR: RadarState = { places: new Map(), leases: new Map(), overlaps: new Map() };

/** Finds overlaps. Every device that knows the same places and leases finds the same ones. */
export function step(state: RadarState, event: RadarEvent): Step<RadarState, RadarEffect> {
  switch (event.type) {
    case 'place': {
      const { place } = event;
      const places = new Map(state.places).set(keyOf(place), place);
      const before = state.places.get(keyOf(place))?.repository;
      return compared({ ...state, places }, new Set([place.repository, before ?? place.repository]));
    }
    case 'gone': {
      const isGone = ({ device, folder }: DirtyPlace) =>
        device === event.device && (event.folder === undefined || folder === event.folder);
      const gone = [...state.places].filter(([, place]) => isGone(place));
      const places = new Map(state.places);
      for (const [key] of gone) places.delete(key);
      const released = [...state.leases].filter(
        ([, { device }]) => event.folder === undefined && device === event.device,
      );
      const leases = new Map(state.leases);
      for (const [key] of released) leases.delete(key);
      const touched = [...gone, ...released].map(([, { repository }]) => repository);
      return compared({ ...state, places, leases }, new Set(touched));
    }
    case 'leases': {
      const leases = new Map(state.leases);
      const key = `${event.device}\n${event.repository}`;
      if (event.leases.length === 0) leases.delete(key);
      else leases.set(key, event);
      return compared({ ...state, leases }, new Set([event.repository]));
    }
  }
}

/** Compares the places of these repositories again. */
function compared(state: RadarState, repositories: ReadonlySet<string>): Step<RadarState, RadarEffect> {
  const found = new Map([...repositories].flatMap((repository) => overlapsIn(state, repository)));
  const effects: RadarEffect[] = [];
  const next = new Map<string, Overlap>();
  for (const [key, overlap] of state.overlaps) {
    if (!repositories.has(overlap.repository)) next.set(key, overlap);
    else if (!found.has(key)) effects.push({ type: 'cleared', overlap });
  }
  for (const [key, overlap] of found) {
    next.set(key, overlap);
    const known = new Set(state.overlaps.get(key)?.paths);
    const paths = overlap.paths.filter((path) => !known.has(path));
    if (paths.length > 0) effects.push({ type: 'overlap', overlap: { ...overlap, paths } });
  }
  return { state: { ...state, overlaps: next }, effects };
}

function overlapsIn({ places, leases }: RadarState, repository: string): [string, Overlap][] {
  const here = [...places].filter(([, place]) => place.repository === repository).sort(([a], [b]) => (a < b ? -1 : 1));
  const reserved = [...leases.values()].flatMap((one) => (one.repository === repository ? one.leases : []));
  const found: [string, Overlap][] = [];
  for (const [index, [key, place]] of here.entries()) {
    if (place.files.length === 0) continue;
    const files = new Set(place.files);
    for (const [otherKey, other] of here.slice(index + 1)) {
      const paths = other.files.filter((path) => files.has(path)).sort();
      if (paths.length > 0) found.push([`${key}\n${otherKey}`, { repository, places: [place, other], paths }]);
    }
    for (const lease of reserved) {
      if (place.agents.includes(lease.holder)) continue;
      const paths = place.files.filter(coverOf(lease.glob)).sort();
      if (paths.length > 0) found.push([`${key}\n\n${lease.id}`, { repository, places: [place], lease, paths }]);
    }
  }
  return found;
}

function keyOf({ device, folder }: DirtyPlace): string {
  return `${device}\n${folder}`;
}
