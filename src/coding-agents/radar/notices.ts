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

/** An operation of git that was stopped, because it would have taken HEAD, the index or changed files from other agents. */
export interface StoppedOperation {
  readonly repository: string;
  readonly folder: string;
  readonly command: string;
  /** The addresses of the agent that was stopped, and of the others that work in the folder. */
  readonly by: string;
  readonly others: readonly string[];
  /** The changed files of others that it would have overwritten; none where it would have moved HEAD or the index. */
  readonly paths: readonly string[];
}

/** An agent that tries the same operation again is news after this time. */
const SAME_MS = 60_000;
const MAX_STOPPED = 1_000;
/** Mail about further files of an overlap waits for this time. */
const GATHER_MS = 2_000;
const MAX_NAMED = 5;
const MAX_LISTED = 50;

/** Puts overlaps and stopped operations that concern this node on the event stream, once, and tells its agents by mail. */
export class Notices {
  readonly #components: NoticesComponents;
  readonly #open = new Map<string, Open>();
  /** When it was told of. */
  readonly #stopped = new Map<string, number>();
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

  /** One event, and mail to the others; the agent that was stopped has its answer. */
  stopped(operation: StoppedOperation): void {
    const { runtime, observability, leases, display, device } = this.#components;
    const { repository, folder, command, by, others, paths } = operation;
    const key = JSON.stringify([folder, command, by]);
    const now = runtime.now();
    if (this.#closed || now - (this.#stopped.get(key) ?? Number.NEGATIVE_INFINITY) < SAME_MS) return;
    this.#stopped.delete(key);
    this.#stopped.set(key, now);
    if (this.#stopped.size > MAX_STOPPED) this.#stopped.delete(this.#stopped.keys().next().value!);
    const about = { repository: leases.nameOf(repository), folder, command, by, others, device };
    const details = { ...about, paths: paths.slice(0, MAX_LISTED), pathCount: paths.length };
    observability.emit({ type: 'radar', topic: 'radar.operation', details, timestamp: now });
    const what = paths.length === 0 ? 'HEAD or the index' : pathsText(paths);
    const text = `${display(by)} was stopped before "${oneLine(command, 120)}" in ${oneLine(folder, 120)}, where you work: it would have taken ${what} from you. Commit your work, or agree with mesh_send who goes on.`;
    for (const other of others) this.#notify(other, text);
  }

  close(): void {
    this.#closed = true;
    for (const { timer } of this.#open.values()) timer.cancel();
    this.#open.clear();
  }

  #tell(key: string, overlap: Overlap): void {
    if (this.#closed) return;
    for (const [holder, text] of this.#texts(overlap)) this.#notify(holder, text);
    const paths = new Set<string>();
    const timer = this.#components.runtime.setTimer(() => {
      this.#open.delete(key);
      if (paths.size > 0) this.#tell(key, { ...overlap, paths: [...paths].sort() });
    }, GATHER_MS);
    this.#open.set(key, { paths, timer });
  }

  #notify(holder: string, text: string): void {
    const { device, leases, runtime } = this.#components;
    const name = holder.slice(0, holder.lastIndexOf('@'));
    if (!holder.endsWith(`@${device}`) || !leases.participants.isHere(name)) return;
    leases.notify(holder, text).catch((err: unknown) => {
      runtime.logger.error({ err, holder }, 'radar notice not stored');
    });
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

  /** The agents that it concerns, and what those of this node are told. */
  #texts({ places, lease, paths }: Overlap): Map<string, string> {
    const { device, display } = this.#components;
    const texts = new Map<string, string>();
    const named = pathsText(paths);
    const add = (holder: string, text: string) => texts.set(holder, text);
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
