import type { AgentCard, AgentStatus, AgentTier, CapabilityDescriptor } from '../mesh/schemas.js';
import { defaultTier } from '../mesh/tier-config.js';

/** A capability in full, or just its id. */
export type CapabilityInit = string | (Partial<CapabilityDescriptor> & { id: string });

export interface AgentInit {
  /** Letters, digits, `_` and `-`. */
  id: string;
  /** Default: the id in capitals. */
  name?: string;
  description?: string;
  /** Default '1.0.0'. */
  version?: string;
  /** Default: the planetary assignment for the id, or 3. */
  tier?: AgentTier;
  capabilities?: readonly CapabilityInit[];
  /** The agent's sandbox; it can then reach only that sandbox and its allow list. */
  sandbox?: string;
  /** Protocols besides `a2a/1.0`. */
  protocols?: readonly string[];
  /**
   * @internal Why it has no worker until it has handlers, and the configuration that would staff it. Without handlers
   * it takes notifications silently and leaves its durable mail on disk.
   */
  vacancy?: { readonly reason: string; readonly fix?: string };
  /** @internal Its durable mail waits until it is fetched, even if it has handlers. */
  fetchesMail?: boolean;
}

export function buildCard(init: AgentInit, now: number, status?: AgentStatus): AgentCard {
  return {
    id: init.id,
    name: init.name ?? String(init.id).toUpperCase(),
    version: init.version ?? '1.0.0',
    description: init.description ?? '',
    tier: init.tier ?? defaultTier(init.id),
    protocols: ['a2a/1.0', ...(init.protocols ?? [])],
    endpoints: [{ transport: 'local' }],
    capabilities: (init.capabilities ?? []).map(describeCapability),
    revision: 0,
    sandboxId: init.sandbox,
    origin: 'local',
    lastSeenAt: now,
    status,
  };
}

function describeCapability(init: CapabilityInit): CapabilityDescriptor {
  const given = typeof init === 'string' ? { id: init } : init;
  return { name: given.id, description: '', inputSchema: {}, outputSchema: {}, ...given };
}
