import type { A2AObservability } from '../mesh/observability.js';
import type { A2ALogEvent } from '../mesh/schemas.js';
import type { Span, Tracer } from '../runtime/tracing.js';

/** Proposals and swarms under way that are recorded; the oldest is given up. */
const MAX_OPEN = 4_096;
const PROPOSAL_ENDS: ReadonlySet<string | undefined> = new Set(['accepted', 'rejected', 'timed-out']);
const SWARM_ENDS: ReadonlySet<string | undefined> = new Set(['completed', 'failed']);

/**
 * Records each proposal, from its first event until it is decided, and each swarm until its end, as spans that follow from
 * the work that began them. Returns the function that stops this.
 */
export function traceWork(tracer: Tracer, observability: A2AObservability): () => void {
  const open = new Map<string, Span>();
  const follow = (name: string, id: string, event: A2ALogEvent, isOver: boolean, failed: boolean): void => {
    const key = `${name} ${id}`;
    let span = open.get(key);
    if (!span) {
      span = tracer.start(name, { attributes: { [`ecliptic.${name}`]: id, 'ecliptic.sender': event.sender } });
      open.set(key, span);
      const [oldest] = open.keys();
      if (open.size > MAX_OPEN && oldest !== undefined) open.delete(oldest);
    }
    if (!isOver) return;
    open.delete(key);
    span.end(failed ? { code: event.code ?? 'failed', reason: event.reason ?? 'failed' } : undefined, {
      'ecliptic.recipient': event.recipient,
      'ecliptic.state': event.proposalStatus ?? event.swarmStatus,
    });
  };
  // Called in the turn of the work that the event is about, so that its span is active.
  return observability.subscribeToUnusual((event) => {
    const { type, proposalId, proposalStatus, swarmId, swarmStatus } = event;
    if (type === 'proposal' && proposalId !== undefined) {
      const isOver = PROPOSAL_ENDS.has(proposalStatus);
      follow('negotiation', proposalId, event, isOver, isOver && proposalStatus !== 'accepted');
    } else if (type === 'swarm' && swarmId !== undefined) {
      follow('swarm', swarmId, event, SWARM_ENDS.has(swarmStatus), swarmStatus === 'failed');
    }
  });
}
