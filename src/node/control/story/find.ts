import { STORY_KINDS, type StoryKind } from '../../../http/dashboard/story-facts.js';
import { EclipticError } from '../../../runtime/errors.js';
import { ambiguousId } from '../../../runtime/short-ids.js';
import { approvalSource } from './approval.js';
import { leaseSource } from './lease.js';
import { messageSource } from './message.js';
import { proposalSource } from './proposal.js';
import { runSource, runTaskSource } from './run.js';
import { subTaskSource, swarmSource } from './swarm.js';
import { taskSource } from './task.js';
import { threadSource } from './thread.js';
import type { StoryContext, StorySource, Told } from './told.js';
import { toolCallSource } from './tool-call.js';

/** Where two kinds have the same id, the first is told and the others are related. */
export function storySources(context: StoryContext): readonly StorySource[] {
  return [
    taskSource(context),
    runSource(context),
    runTaskSource(context),
    swarmSource(context),
    subTaskSource(context),
    proposalSource(context),
    approvalSource(context),
    leaseSource(context),
    toolCallSource(context),
    messageSource(context),
    threadSource(context),
  ];
}

/** Kinds as lists of what waits write them. */
const OTHER_NAMES: ReadonlyMap<string, readonly StoryKind[]> = new Map<string, readonly StoryKind[]>([
  ['mail', ['message']],
  ['held', ['message']],
  ['tool', ['approval', 'tool call']],
  ['task', ['task', 'run task', 'sub-task']],
  ['tool-call', ['tool call']],
  ['run-task', ['run task']],
]);

/** Finds an id, whole or shortened, among all kinds, or among that of `KIND:ID`. */
export async function findStory(given: string, sources: readonly StorySource[]): Promise<Told> {
  const found = await lookUp(given, sources);
  if (found) return found;
  const named = splitKind(given);
  const among = named && sources.filter(({ kind }) => named.kinds.includes(kind));
  const byKind = named && among && (await lookUp(named.id, among));
  if (byKind) return byKind;
  const message = `nothing with the id "${given}" is known; a story can be told of ${STORY_KINDS.join(', ')}, by the whole id or a unique beginning of it`;
  throw new EclipticError('STORY_NOT_FOUND', message, { id: given, kinds: STORY_KINDS });
}

async function lookUp(given: string, sources: readonly StorySource[]): Promise<Told | undefined> {
  const exact = await told(given, sources);
  if (exact) return exact;
  const found = (await Promise.all(sources.map((source) => source.ids(given)))).flat();
  const [id, ...others] = [...new Set(found)].sort();
  if (id !== undefined && others.length > 0) throw ambiguousId(given, [id, ...others]);
  return id === undefined ? undefined : told(id, sources);
}

async function told(id: string, sources: readonly StorySource[]): Promise<Told | undefined> {
  const all = (await Promise.all(sources.map((source) => source.tell(id)))).filter((one) => one !== undefined);
  const [first, ...others] = all;
  if (!first) return undefined;
  return { ...first, related: [...others.map(({ kind }) => ({ id, kind })), ...(first.related ?? [])] };
}

function splitKind(given: string): { kinds: readonly StoryKind[]; id: string } | undefined {
  const at = given.indexOf(':');
  const name = given.slice(0, Math.max(0, at));
  const kinds = OTHER_NAMES.get(name) ?? STORY_KINDS.filter((kind) => kind === name);
  const id = given.slice(at + 1);
  return kinds.length === 0 || id === '' ? undefined : { kinds, id };
}
