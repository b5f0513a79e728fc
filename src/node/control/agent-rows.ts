import { OWNER } from '../../coding-agents/mailbox/letter.js';
import type { Mailbox } from '../../mesh/mailbox.js';
import type { AgentCard } from '../../mesh/schemas.js';
import type { ProviderRow } from '../../providers/registry/registered-provider.js';
import type { ControlContext } from './context.js';
import type { AgentRow } from './rows.js';

type Sources = Pick<ControlContext, 'node' | 'failures' | 'codingAgents'>;

/** Agents with their states, their workers and their load. */
export function agentRows(cards: readonly AgentCard[], { node, failures, codingAgents }: Sources): AgentRow[] {
  const providers = new Map<string, ProviderRow[]>();
  for (const row of node.providers.list()) {
    for (const agent of new Set([row.id, row.pool])) providers.set(agent, [...(providers.get(agent) ?? []), row]);
  }
  const connected = new Set(codingAgents.present.map(({ name }) => name));
  return cards.map((card) => {
    const isOwn = card.node === undefined;
    const failure = card.origin === 'local' ? failures.get(card.id) : undefined;
    const unreachable = card.node !== undefined && node.network?.peers.reachable(card.node) === false;
    const state = failure ? 'failed' : unreachable ? 'unreachable' : (card.status?.state ?? 'ready');
    const own = isOwn ? (providers.get(card.id) ?? []) : [];
    return {
      id: card.id,
      name: card.name,
      tier: card.tier,
      capabilities: card.capabilities.map(({ id }) => id),
      sandbox: card.sandboxId ?? null,
      origin: card.origin,
      node: card.node ?? null,
      description: card.description,
      state,
      failure: failure?.message ?? null,
      reason: failure?.message ?? (unreachable ? 'its node is away' : (card.status?.reason ?? null)),
      // Of an agent that is away, only whether it was unstaffed.
      fix: unreachable && card.status?.state !== 'unstaffed' ? null : (card.status?.fix ?? null),
      workers: [
        ...own.map(({ id, type, state: health }) => ({ id, type, state: health })),
        ...(isOwn && card.id === OWNER ? [{ id: OWNER, type: 'person', state }] : []),
        ...(isOwn && connected.has(card.id) ? [{ id: card.id, type: 'coding agent', state }] : []),
      ],
      load: loadOf(isOwn ? node.registry.entry(card.id)?.mailbox : undefined, own),
    };
  });
}

/** What a handler has in hand is worked on, or waits for a provider of the agent. */
function loadOf(
  mailbox: Pick<Mailbox, 'waiting' | 'inHand'> | undefined,
  own: readonly ProviderRow[],
): AgentRow['load'] {
  const { waiting = 0, inHand = 0 } = mailbox ?? {};
  const working = own.length === 0 ? inHand : own.reduce((sum, { inFlight }) => sum + inFlight, 0);
  return { queued: waiting + Math.max(0, inHand - working), working };
}
