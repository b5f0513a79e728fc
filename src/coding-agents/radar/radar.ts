import { z } from 'zod';
import type { Git, GitPlace } from '../../system/git/git.js';
import type { Leases } from '../leases/leases.js';
import { dirtyFiles, MAX_DIRTY_FILES } from './dirty-files.js';
import { type DirtyPlace, NO_RADAR, type Overlap, type RadarEvent, type RadarState, step } from './radar-machine.js';

/** A worktree that the radar looks at. */
export interface Watched {
  readonly folder: string;
  readonly place: GitPlace;
  /** A folder that tells the repository. */
  readonly of: string;
  /** The names of the agents of this node that work there; none for the user's own folder. */
  readonly agents: readonly string[];
}

const text = z.string().max(4_096);
const PlaceSchema = z.object({
  device: text,
  folder: text,
  repository: text,
  repositoryName: text,
  branch: z.exactOptional(text),
  agents: z.array(text).max(1_000),
  files: z.array(text).max(MAX_DIRTY_FILES),
  more: z.int().nonnegative(),
});
const LeaseSchema = z.object({ id: text, glob: text, holder: text });

/** What one device sees. */
export const DeviceRadarSchema = z.object({
  places: z.array(PlaceSchema).max(256),
  leases: z.array(z.object({ repository: text, leases: z.array(LeaseSchema).max(2_000) })).max(1_000),
  /** Folders that could not be read, or that do not fit. */
  skipped: z.array(z.object({ folder: text, reason: text })).max(1_000),
});
export type DeviceRadar = z.infer<typeof DeviceRadarSchema>;

const MAX_PLACES = 64;
/** Of all paths together: the answer must fit into a frame between devices. */
const MAX_CHARS = 524_288;

interface RadarComponents {
  git: Git;
  leases: Leases;
  /** This node. */
  device: string;
}

/** Looks for changed files where agents of this node work. */
export class Radar {
  readonly #components: RadarComponents;

  constructor(components: RadarComponents) {
    this.#components = components;
  }

  async look(watched: readonly Watched[]): Promise<DeviceRadar> {
    const { git, leases, device } = this.#components;
    const places: DeviceRadar['places'] = [];
    const skipped: DeviceRadar['skipped'] = [];
    let chars = 0;
    for (const { folder, place, of, agents } of distinct(watched)) {
      const skip = (reason: string) => skipped.push({ folder, reason: reason.slice(0, 1_000) });
      if (places.length >= MAX_PLACES) {
        skip(`more than ${MAX_PLACES} folders`);
        continue;
      }
      try {
        const [{ branch, files, more }, repository] = await Promise.all([
          dirtyFiles(git, place),
          leases.repositoryAt(of),
        ]);
        const shown = files.filter((file) => {
          chars += file.length;
          return chars <= MAX_CHARS;
        });
        places.push({
          ...{ device, folder, repository: repository.id, repositoryName: repository.name },
          ...(branch !== undefined && { branch }),
          ...{ agents: agents.map((name) => leases.address(name)), files: shown },
          more: more + files.length - shown.length,
        });
      } catch (error) {
        skip((error as Error).message);
      }
    }
    return { places, leases: heldBy(leases), skipped };
  }
}

/** The overlaps in what several devices see. */
export function overlapsOf(seen: readonly (DeviceRadar & { readonly device: string })[]): Overlap[] {
  const events = seen.flatMap(({ device, places, leases }): RadarEvent[] => [
    ...places.map((place: DirtyPlace) => ({ type: 'place' as const, place: { ...place, device } })),
    ...leases.map((one) => ({ type: 'leases' as const, device, ...one })),
  ]);
  const state = events.reduce<RadarState>((before, event) => step(before, event).state, NO_RADAR);
  return [...state.overlaps.values()];
}

function heldBy({ held }: Leases): DeviceRadar['leases'] {
  const byRepository = new Map<string, DeviceRadar['leases'][number]['leases']>();
  for (const { repository, id, glob, holder } of held) {
    byRepository.set(repository, [...(byRepository.get(repository) ?? []), { id, glob, holder }]);
  }
  return [...byRepository].map(([repository, leases]) => ({ repository, leases }));
}

/** Several agents may work in one folder. */
function distinct(watched: readonly Watched[]): Watched[] {
  const found = new Map<string, Watched>();
  for (const one of watched) {
    const known = found.get(one.folder);
    found.set(one.folder, known ? { ...known, agents: [...new Set([...known.agents, ...one.agents])] } : one);
  }
  return [...found.values()];
}
