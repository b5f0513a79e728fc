import { joinAddress } from './address.js';
import type { Failure } from './message-checks.js';
import type { A2AMessageType, AgentCard, WorkKind } from './schemas.js';

/** The kind of work that a message of this type asks for, if any. */
export function workOf(type: A2AMessageType): WorkKind | undefined {
  if (type === 'request') return 'request';
  return type === 'task-proposal' ? 'proposal' : undefined;
}

/** Why the agent takes no work of that kind, or none that asks for those capabilities, by its card. */
export function vacancyFor(
  { id, node, status }: AgentCard,
  kind: WorkKind | undefined,
  asked: readonly string[] = [],
): Failure | undefined {
  if (status === undefined) return undefined;
  const { state, takes, capabilities } = status;
  const isAble = capabilities === undefined || asked.every((one) => capabilities.includes(one));
  const isTaken = kind === undefined || takes === undefined || takes.includes(kind);
  if (state !== 'unstaffed' && isTaken && isAble) return undefined;
  return noWorker(joinAddress(id, node), kind ?? 'request', status);
}

/**
 * Why the agent takes no task that asks for no capability, by its card: one whose tools do its tasks takes only those that
 * ask for what they implement.
 */
export function vacancyForWords(card: AgentCard): Failure | undefined {
  const { id, node, status } = card;
  return vacancyFor(card, 'task') ?? (status?.capabilities && noWorker(joinAddress(id, node), 'task', status));
}

/** The capabilities of a card that the agent has a worker for, whatever its health. */
export function workedCapabilities({ capabilities, status }: AgentCard): string[] {
  const all = capabilities.map(({ id }) => id);
  const { capabilities: worked } = status ?? {};
  return worked === undefined ? all : all.filter((id) => worked.includes(id));
}

/** Why work for a capability does not go to that agent: it is not healthy, or takes no such work. */
export function unroutable(
  card: AgentCard,
  kind: WorkKind | undefined,
  asked: readonly string[] = [],
): Failure | undefined {
  const { id, node, status } = card;
  const vacancy = vacancyFor(card, kind, asked);
  if (vacancy || (status?.state !== 'degraded' && status?.state !== 'unavailable')) return vacancy;
  const agent = joinAddress(id, node);
  return { code: 'AGENT_UNAVAILABLE', reason: `${agent} is ${status.state}: ${status.reason ?? 'no reason is known'}` };
}

export function noWorker(
  agent: string,
  kind: WorkKind,
  { reason, fix }: { readonly reason?: string | undefined; readonly fix?: string | undefined } = {},
): Failure {
  const why = reason === undefined ? '' : `: ${reason}`;
  const how = fix === undefined ? '' : `. To staff it: ${fix}`;
  return { code: 'NO_WORKER', reason: `${agent} has no worker for a ${kind}${why}${how}` };
}
