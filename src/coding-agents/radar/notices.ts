import { oneLine } from '../../mcp/fence.js';
import type { A2AObservability } from '../../mesh/observability.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Leases } from '../leases/leases.js';
import type { DirtyPlace, Overlap, RadarEffect } from './radar-machine.js';

/** How agents are named to a reader of this node. */
export interface Spoken {
  display: (address: string) => string;
}

interface NoticesComponents extends Spoken {
  runtime: Runtime;
  leases: Leases;
  observability: A2AObservability;
  device: string;
}

interface Open {
  readonly paths: Set<string>;
  timer: Timer;
}

/** Mail about further files of an overlap waits for this time. */
const GATHER_MS = 2_000;
const MAX_NAMED = 5;
const MAX_LISTED = 50;

/** Puts overlaps that concern this node on the event stream, once, and tells its agents by mail. */
export class Notices {
  readonly #components: NoticesComponents;
  readonly #open = new Map<string, Open>();
  #closed = false;

  constructor(components: NoticesComponents) {
    this.#components = components;
  }

  take({ type, overlap }: RadarEffect): void {
    if (!this.#concernsUs(overlap)) return;
    this.#emit(type === 'cleared' ? 'radar.cleared' : 'radar.overlap', overlap);
    if (type === 'cleared') return;
    const key = keyOf(overlap);
    const open = this.#open.get(key);
    if (open) for (const path of overlap.paths) open.paths.add(path);
    else this.#tell(key, overlap);
  }

  close(): void {
    this.#closed = true;
    for (const { timer } of this.#open.values()) timer.cancel();
    this.#open.clear();
  }

  #tell(key: string, overlap: Overlap): void {
    if (this.#closed) return;
    for (const [holder, text] of this.#texts(overlap)) {
      this.#components.leases.notify(holder, text).catch((err: unknown) => {
        this.#components.runtime.logger.error({ err, holder }, 'overlap notice not stored');
      });
    }
    const paths = new Set<string>();
    const timer = this.#components.runtime.setTimer(() => {
      this.#open.delete(key);
      if (paths.size > 0) this.#tell(key, { ...overlap, paths: [...paths].sort() });
    }, GATHER_MS);
    this.#open.set(key, { paths, timer });
  }

  #concernsUs({ places, lease }: Overlap): boolean {
    const { device } = this.#components;
    return places.some((place) => place.device === device) || lease?.holder.endsWith(`@${device}`) === true;
  }

  #emit(topic: 'radar.overlap' | 'radar.cleared', { repository, places, lease, paths }: Overlap): void {
    const { runtime, observability, leases } = this.#components;
    const details = {
      ...{ repository: leases.nameOf(repository), paths: paths.slice(0, MAX_LISTED), pathCount: paths.length },
      places: places.map(({ device, folder, branch, agents }) => ({ device, folder, branch, agents })),
      ...(lease && { lease }),
    };
    observability.emit({ type: 'radar', topic, details, timestamp: runtime.now() });
  }

  /** The agents of this node that it concerns, and what each is told. */
  #texts({ places, lease, paths }: Overlap): Map<string, string> {
    const { device, leases, display } = this.#components;
    const texts = new Map<string, string>();
    const named = pathsText(paths);
    const add = (holder: string, text: string) => {
      const name = holder.slice(0, holder.lastIndexOf('@'));
      if (holder.endsWith(`@${device}`) && leases.participants.isHere(name)) texts.set(holder, text);
    };
    for (const place of places) {
      const other = places.find((one) => one !== place);
      const text = lease
        ? `Overlap: ${named} changed in your folder, but ${display(lease.holder)} holds ${oneLine(lease.glob, 200)}. Do not go on with it; agree with mesh_send.`
        : `Overlap: ${named} changed in your folder, and also ${placeText(other!, display)}; neither is committed. Agree with mesh_send who goes on.`;
      if (place.device === device) for (const agent of place.agents) add(agent, text);
    }
    if (lease) {
      const [place] = places;
      const text = `Overlap: ${named} changed ${placeText(place!, display)}, though you hold ${oneLine(lease.glob, 200)}. It is not committed; agree with mesh_send.`;
      add(lease.holder, text);
    }
    return texts;
  }
}

export function pathsText(paths: readonly string[]): string {
  const named = paths.slice(0, MAX_NAMED).map((path) => oneLine(path, 120));
  return named.join(', ') + (paths.length > named.length ? ` and ${paths.length - named.length} more` : '');
}

/** By whom something is changed in a place, or where: of agents that share a folder it is not known which one changed it. */
export function placeText({ agents, branch, folder }: DirtyPlace, display: Spoken['display']): string {
  const names = agents.map(display);
  const person = `by a person in ${oneLine(folder, 120)}`;
  const who =
    names.length > 1 ? `in the folder of ${names.join(', ')}` : names.length === 1 ? `by ${names[0]}` : person;
  return branch === undefined ? who : `${who} on ${oneLine(branch, 80)}`;
}

function keyOf({ places, lease }: Overlap): string {
  return [...places.map(({ device, folder }) => `${device}\n${folder}`), lease?.id ?? ''].join('\n\n');
}
