import { z } from 'zod';
import { MAX_DIRTY_FILES } from './dirty-files.js';
import { type DirtyPlace, NO_RADAR, type Overlap, type RadarEvent, type RadarState, step } from './radar-machine.js';

/** Folders of one device. */
export const MAX_PLACES = 64;
const text = z.string().max(4_096);
const PlaceSchema = z.object({
  device: text,
  folder: text,
  repository: text,
  repositoryName: text,
  branch: z.exactOptional(text),
  agents: z.array(text).max(1_000),
  files: z.array(text).max(MAX_DIRTY_FILES),
  /** How many more changed files there are. */
  more: z.int().nonnegative(),
  /** `polled`: the folder cannot be watched, and is read from time to time. `once`: nothing is at work there. */
  mode: z.exactOptional(z.enum(['watched', 'polled', 'once'])),
});
const LeaseSchema = z.object({ id: text, glob: text, holder: text });
const places = z.array(PlaceSchema).max(MAX_PLACES);
const leases = z.array(z.object({ repository: text, leases: z.array(LeaseSchema).max(2_000) })).max(1_000);

/** What one device sees. */
export const DeviceRadarSchema = z.object({
  places,
  leases,
  /** Folders that could not be read, or that do not fit. */
  skipped: z.array(z.object({ folder: text, reason: text })).max(1_000),
});
export type DeviceRadar = z.infer<typeof DeviceRadarSchema>;

/** What has changed on a device since its last report. */
export const RadarReportSchema = z.object({
  /** All folders that it knows now. */
  folders: z.array(text).max(MAX_PLACES),
  places,
  /** All leases of its agents. */
  leases: leases.optional(),
});
export type RadarReport = z.infer<typeof RadarReportSchema>;

/** A place as overlaps are looked for in it: what was left behind where nothing is at work is none. */
export function comparable(place: DeviceRadar['places'][number]): DirtyPlace {
  const { device, folder, repository, branch, agents, files, mode } = place;
  return { device, folder, repository, branch, agents, files: mode === 'once' ? [] : files };
}

/** The overlaps in what several devices see. */
export function overlapsOf(seen: readonly (DeviceRadar & { readonly device: string })[]): Overlap[] {
  const events = seen.flatMap(({ device, places: there, leases: held }): RadarEvent[] => [
    ...there.map((place) => ({ type: 'place' as const, place: { ...comparable(place), device } })),
    ...held.map((one) => ({ type: 'leases' as const, device, ...one })),
  ]);
  const state = events.reduce<RadarState>((before, event) => step(before, event).state, NO_RADAR);
  return [...state.overlaps.values()];
}
