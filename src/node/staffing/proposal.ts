import { isDeepStrictEqual } from 'node:util';
import { PLANETARY_ROSTER } from '../../roster/planetary-roster.js';
import { EclipticError } from '../../runtime/errors.js';
import type { FoundWorker, FoundWorkers, WorkerKind } from './found.js';

/** The part of a configuration that says who has a worker. Other keys are not looked at. */
export interface StaffedConfig {
  readonly roster?: unknown;
  readonly agents?: Readonly<Record<string, unknown>>;
}

export interface Assignment {
  readonly role: string;
  /** In order of preference: the first healthy one gets the work. */
  readonly workers: readonly FoundWorker[];
}

export interface StaffProposal {
  readonly assignments: readonly Assignment[];
  /** Roles that have a worker already. */
  readonly staffed: readonly string[];
  /** Roles for which nothing suitable was found. */
  readonly vacant: readonly { readonly role: string; readonly reason: string }[];
  /** Found, but neither assigned nor in the configuration. */
  readonly spare: readonly FoundWorker[];
}

/** Keys of an agent that give it a worker. */
const WORKER_KEYS = ['module', 'workers', 'a2a', 'command', 'acp', 'model', 'exec'];

/** Planning and judging need structured answers, which a model gives by JSON Schema. */
const DECIDERS: ReadonlySet<string> = new Set(['sun', 'mercury']);
/** Roles whose results are files. A coding agent edits them with tools of its own. */
const MAKERS: ReadonlySet<string> = new Set([
  ...['mars', 'venus', 'pluto', 'titan', 'saturn', 'ganymede', 'europa', 'mimas', 'io', 'triton', 'callisto'],
]);
/** Roles that are staffed without being asked for: enough to plan, build, test and judge. */
const BASE_ROLES = ['sun', 'mercury', 'mars', 'venus', 'pluto', 'saturn'];
const ALL = 'all';

/** Assigns found workers to roles: those asked for, or the base roles and roles that a script answers for. */
export function proposeStaff(
  { workers }: FoundWorkers,
  config: StaffedConfig,
  asked?: readonly string[],
): StaffProposal {
  const agents = config.agents ?? {};
  const known = [...new Set([...(config.roster === false ? [] : PLANETARY_IDS), ...Object.keys(agents)])];
  const roles = asked ? namedRoles(asked, known) : usualRoles(workers, known);
  const staffed = roles.filter((role) => hasWorker(ownValue(agents, role)));
  const assignments: Assignment[] = [];
  const vacant: { role: string; reason: string }[] = [];
  for (const role of roles.filter((one) => !staffed.includes(one))) {
    const suitable = workersFor(role, workers, asked !== undefined);
    // An agent that is configured keeps its other fields, so the one worker is written beside them.
    const most = ownValue(agents, role) === undefined ? suitable.length : 1;
    if (suitable.length > 0) assignments.push({ role, workers: suitable.slice(0, most) });
    else vacant.push({ role, reason: reasonOf(role, workers) });
  }
  const used = new Set(assignments.flatMap((one) => one.workers));
  const present = Object.values(agents).flat();
  const isPresent = ({ config: own }: FoundWorker) => present.some((one) => isDeepStrictEqual(one, own));
  return { assignments, staffed, vacant, spare: workers.filter((one) => !used.has(one) && !isPresent(one)) };
}

const PLANETARY_IDS = PLANETARY_ROSTER.map(({ id }) => id);

/** Does an entry under `agents` name a worker, alone or in a list? */
export function hasWorker(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasWorker);
  return typeof value === 'object' && value !== null && WORKER_KEYS.some((key) => Object.hasOwn(value, key));
}

function namedRoles(asked: readonly string[], known: readonly string[]): string[] {
  if (asked.includes(ALL)) return [...known];
  const unknown = asked.find((role) => !known.includes(role));
  if (unknown === undefined) return [...new Set(asked)];
  throw new EclipticError('USAGE', `no role is called "${unknown}"; these are known: ${known.join(', ')} and ${ALL}`);
}

function usualRoles(workers: readonly FoundWorker[], known: readonly string[]): string[] {
  const scripted = workers.flatMap(({ role }) => (role === undefined ? [] : [role]));
  return [...new Set([...BASE_ROLES, ...scripted])].filter((role) => known.includes(role));
}

/**
 * A script stands alone: it says whether the project's own check passes, and a model in its place could only claim that.
 * Without a script, coding agents come first where the result is files, and models elsewhere.
 */
function workersFor(role: string, workers: readonly FoundWorker[], isAsked: boolean): FoundWorker[] {
  const script = workers.filter((worker) => worker.role === role);
  if (script.length > 0) return script.slice(0, 1);
  const all = (kind: WorkerKind) => workers.filter((worker) => worker.kind === kind && worker.role === undefined);
  if (DECIDERS.has(role) && !isAsked) return all('model');
  return isMaker(role) ? [...all('acp'), ...all('model')] : [...all('model'), ...all('acp')];
}

/** Agents outside of the roster were most likely added to make something. */
function isMaker(role: string): boolean {
  return MAKERS.has(role) || !PLANETARY_IDS.includes(role);
}

function reasonOf(role: string, workers: readonly FoundWorker[]): string {
  const coder = DECIDERS.has(role) ? workers.find(({ kind }) => kind === 'acp') : undefined;
  if (!coder) return 'neither a coding agent nor a model can be used';
  return `no model can be used; ${coder.title} gets it with: ecliptic staff --roles ${role}`;
}

function ownValue(agents: Readonly<Record<string, unknown>>, role: string): unknown {
  return Object.hasOwn(agents, role) ? agents[role] : undefined;
}
