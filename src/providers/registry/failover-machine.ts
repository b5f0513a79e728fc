import type { Step } from '../../runtime/machine.js';
import type { ProviderState, ProviderType } from '../adapter/adapter.js';

export interface Candidate {
  readonly id: string;
  readonly type: ProviderType;
  /** Providers of one pool stand in for each other. Default: the type. */
  readonly pool?: string | undefined;
  readonly workspaceId: string;
  readonly capabilities: readonly string[];
  /** The smallest is the first choice; equal ones are ordered by id. */
  readonly priority: number;
  readonly state: ProviderState;
  readonly phase: RoutingPhase;
}

/** Only ready providers get work. Starting ones raise no alarm; held ones are out of routing. */
export type RoutingPhase = 'starting' | 'ready' | 'held';

interface Group {
  /** By priority, in any state. */
  readonly all: readonly Candidate[];
  readonly routable: readonly Candidate[];
  /** The last choice for each capability; `''` is the type itself. */
  readonly chosen: ReadonlyMap<string, string>;
  /** Capabilities whose providers are all down. */
  readonly missing: ReadonlySet<string>;
}

export interface RoutingTable {
  readonly groups: ReadonlyMap<string, Group>;
}

export type RoutingEvent =
  | { readonly type: 'added'; readonly candidate: Candidate }
  | { readonly type: 'removed'; readonly id: string }
  | { readonly type: 'changed'; readonly id: string; readonly state?: ProviderState; readonly phase?: RoutingPhase };

interface Affected {
  readonly providerType: ProviderType;
  readonly pool: string;
  readonly workspaceId: string;
  readonly capabilities: readonly string[];
  readonly wholeType: boolean;
}

export type RoutingEffect =
  | ({ readonly type: 'failover'; readonly from: string; readonly to: string } & Affected)
  | ({ readonly type: 'unavailable' | 'available' } & Affected);

export const EMPTY_TABLE: RoutingTable = { groups: new Map() };

/** The pure routing machine: the next table and its events. Called on transitions only. */
export function stepRouting(now: RoutingTable, event: RoutingEvent): Step<RoutingTable, RoutingEffect> {
  const key = event.type === 'added' ? groupKey(event.candidate) : keyOf(now, event.id);
  if (key === undefined) return { state: now, effects: [] };
  const before = now.groups.get(key) ?? NO_GROUP;
  const all = candidatesAfter(before.all, event);
  const groups = new Map(now.groups);
  if (all.length === 0) {
    groups.delete(key);
    return { state: { groups }, effects: [] };
  }
  const { group, effects } = regroup(before, all);
  groups.set(key, group);
  return { state: { groups }, effects };
}

export function select(
  table: RoutingTable,
  pool: string,
  required: readonly string[],
  workspaceId: string,
): string | null {
  const group = table.groups.get(`${workspaceId} ${pool}`);
  return group?.routable.find((candidate) => hasAll(candidate, required))?.id ?? null;
}

/** Is there a provider with those capabilities, healthy or not? */
export function isServed(table: RoutingTable, pool: string, required: readonly string[], workspaceId: string): boolean {
  const group = table.groups.get(`${workspaceId} ${pool}`);
  return group?.all.some((candidate) => hasAll(candidate, required)) ?? false;
}

const NO_GROUP: Group = { all: [], routable: [], chosen: new Map(), missing: new Set() };

function candidatesAfter(before: readonly Candidate[], event: RoutingEvent): readonly Candidate[] {
  if (event.type === 'removed') return before.filter(({ id }) => id !== event.id);
  if (event.type === 'added') {
    return [...before.filter(({ id }) => id !== event.candidate.id), event.candidate].sort(byPriority);
  }
  const { state, phase } = event;
  const changes = { ...(state !== undefined && { state }), ...(phase !== undefined && { phase }) };
  return before.map((candidate) => (candidate.id === event.id ? { ...candidate, ...changes } : candidate));
}

function regroup(before: Group, all: readonly Candidate[]): { group: Group; effects: RoutingEffect[] } {
  const routable = all.filter(({ state, phase }) => phase === 'ready' && state === 'healthy');
  const capabilities = ['', ...new Set(all.flatMap((candidate) => candidate.capabilities))];
  const chosen = new Map<string, string>();
  const missing = new Set<string>();
  const moved = new Map<string, string[]>();
  const lost: string[] = [];
  const back: string[] = [];
  for (const capability of capabilities) {
    const last = before.chosen.get(capability);
    const now = routable.find((candidate) => offers(candidate, capability))?.id;
    if (now === undefined) {
      if (last !== undefined) chosen.set(capability, last);
      const hope = all.some((candidate) => candidate.phase === 'starting' && offers(candidate, capability));
      if (before.missing.has(capability) || !hope) missing.add(capability);
      if (missing.has(capability) && !before.missing.has(capability)) lost.push(capability);
      continue;
    }
    chosen.set(capability, now);
    if (before.missing.has(capability)) back.push(capability);
    if (last === undefined || last === now) continue;
    const move = `${last} ${now}`;
    moved.set(move, [...(moved.get(move) ?? []), capability]);
  }
  const { type: providerType, pool = providerType, workspaceId } = all[0]!;
  const about = { providerType, pool, workspaceId };
  const affected = (some: readonly string[]) => ({
    ...about,
    capabilities: some.filter((one) => one !== ''),
    wholeType: some.includes(''),
  });
  const effects: RoutingEffect[] = [...moved].map(([move, some]) => {
    const [from, to] = move.split(' ') as [string, string];
    // A pool may have providers of several types.
    const { type } = all.find(({ id }) => id === to)!;
    return { type: 'failover', from, to, ...affected(some), providerType: type };
  });
  if (lost.length > 0) effects.push({ type: 'unavailable', ...affected(lost) });
  if (back.length > 0) effects.push({ type: 'available', ...affected(back) });
  return { group: { all, routable, chosen, missing }, effects };
}

function byPriority(a: Candidate, b: Candidate): number {
  return a.priority - b.priority || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function offers({ capabilities }: Candidate, capability: string): boolean {
  return capability === '' || capabilities.includes(capability);
}

function hasAll({ capabilities }: Candidate, required: readonly string[]): boolean {
  return required.every((capability) => capabilities.includes(capability));
}

function groupKey({ workspaceId, type, pool = type }: Candidate): string {
  return `${workspaceId} ${pool}`;
}

function keyOf({ groups }: RoutingTable, id: string): string | undefined {
  for (const [key, { all }] of groups) if (all.some((candidate) => candidate.id === id)) return key;
  return undefined;
}
