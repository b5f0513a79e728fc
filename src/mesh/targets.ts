import { EclipticError } from '../runtime/errors.js';
import type { ValidEnvelope } from './envelope.js';
import type { Expects, Failure, MessageChecks } from './message-checks.js';
import type { Policy } from './policy.js';
import { type AgentRegistry, notFound } from './registry.js';
import type { RegistryEntry } from './registry-index.js';
import type { A2AMessageType } from './schemas.js';
import { unroutable, workOf } from './staffing.js';

export interface TargetsComponents {
  registry: AgentRegistry;
  policy: Policy;
  checks: MessageChecks;
}

/** Finds the agents that a message may go to, by name or by capability. */
export class Targets {
  readonly #components: TargetsComponents;

  constructor(components: TargetsComponents) {
    this.#components = components;
  }

  /**
   * The agent of that name. The error for an ambiguous name lists only candidates that the sender may discover. To a
   * sandboxed sender, a hidden agent and one that does not exist look the same.
   */
  lookUp(agentId: string, source: RegistryEntry): RegistryEntry | EclipticError {
    const { registry, policy } = this.#components;
    try {
      const found = registry.candidate(agentId, source);
      if (policy.mayDiscover(source, found)) return found;
      // To any other agent, one of a project does not exist.
      if (policy.isConfined(found.address)) throw notFound(agentId);
      return (source.sandboxId !== undefined && this.#beyondSandbox(agentId, source)) || found;
    } catch (error) {
      if (!(error instanceof EclipticError)) throw error;
      return (error.code === 'AGENT_NOT_FOUND' && this.#beyondSandbox(agentId, source)) || error;
    }
  }

  /**
   * All agents that offer these capabilities, may be addressed and can be reached: local before remote, least loaded
   * first, then earliest registered. If there are none, the reason of the first that was passed over.
   */
  capable(
    source: RegistryEntry,
    capabilities: readonly string[],
    type: A2AMessageType,
    justification?: string,
  ): { found: readonly RegistryEntry[]; refusal: Failure | undefined } {
    const { registry, policy, checks } = this.#components;
    const found: RegistryEntry[] = [];
    let refusal: Failure | undefined;
    for (const entry of registry.entriesWithCapability(capabilities[0] ?? '')) {
      if (entry === source || !offersAll(entry, capabilities)) continue;
      const decision = policy.ask(source, entry, type, justification);
      if (!decision.allowed && policy.isConfined(entry.address)) continue;
      const failure = decision.allowed
        ? (checks.unanswerable(source, entry) ??
          unroutable(entry.card, workOf(type), capabilities) ??
          checks.unavailable(entry))
        : decision;
      if (failure) refusal ??= failure;
      else found.push(entry);
    }
    return { found: found.sort(byPreference), refusal };
  }

  /** The agent that gets a message to a capability, by the same order. The first idle one ends the search. */
  choose(envelope: ValidEnvelope, source: RegistryEntry, expects: Expects): RegistryEntry | undefined {
    const { registry, checks } = this.#components;
    let best: RegistryEntry | undefined;
    for (const candidate of registry.entriesWithCapability(envelope.recipient)) {
      if (candidate === source) continue;
      if (best && best.node === undefined && candidate.node !== undefined) break;
      if (checks.refusal(envelope, source, candidate) || checks.unavailable(candidate)) continue;
      if (expects === 'answer' && checks.unanswerable(source, candidate)) continue;
      if (candidate.status && unroutable(candidate.card, workOf(envelope.type), [envelope.recipient])) continue;
      const load = loadOf(candidate);
      if (load === 0) return candidate;
      if (!best || load < loadOf(best)) best = candidate;
    }
    return best;
  }

  /** Why agents that offer the capability and may be addressed take no such work: the reason of the first. */
  vacancy(envelope: ValidEnvelope, source: RegistryEntry): Failure | undefined {
    const { registry, checks } = this.#components;
    for (const candidate of registry.entriesWithCapability(envelope.recipient)) {
      if (candidate === source || checks.refusal(envelope, source, candidate)) continue;
      const vacancy = unroutable(candidate.card, workOf(envelope.type), [envelope.recipient]);
      if (vacancy) return vacancy;
    }
    return undefined;
  }

  /** The first agent with the capability that policy keeps from the sender, with the reason. */
  barred(envelope: ValidEnvelope, source: RegistryEntry): { entry: RegistryEntry; failure: Failure } | undefined {
    const { registry, policy } = this.#components;
    for (const entry of registry.entriesWithCapability(envelope.recipient)) {
      if (entry === source) continue;
      const decision = policy.ask(source, entry, envelope.type, envelope.metadata?.escalationJustification);
      if (!decision.allowed && !policy.isConfined(entry.address)) return { entry, failure: decision };
    }
    return undefined;
  }

  /** The refusal of a message to an agent outside the sender's sandbox that would have this name. */
  #beyondSandbox(agentId: string, source: RegistryEntry): EclipticError | undefined {
    const outside = { address: agentId, node: undefined, tier: source.tier, sandboxId: undefined } as const;
    const decision = this.#components.policy.ask(source, outside, 'notification');
    if (decision.allowed || decision.code !== 'SANDBOX_VIOLATION') return undefined;
    return new EclipticError(decision.code, decision.reason, { sender: source.address, recipient: agentId });
  }
}

export function lookUpFailure({ code, message: reason, details }: EclipticError): Failure {
  return { code, reason, candidates: details.candidates as string[] | undefined };
}

function offersAll(entry: RegistryEntry, capabilities: readonly string[]): boolean {
  return capabilities.every((wanted) => entry.card.capabilities.some(({ id }) => id === wanted));
}

/** Local before remote, least loaded first, then earliest registered. */
export function byPreference(a: RegistryEntry, b: RegistryEntry): number {
  const rank = ({ node }: RegistryEntry) => (node === undefined ? 0 : 1);
  return rank(a) - rank(b) || loadOf(a) - loadOf(b) || a.order - b.order;
}

/** A starting agent comes last: others can begin at once. */
function loadOf(entry: RegistryEntry): number {
  if (entry.status?.state === 'starting') return Number.MAX_SAFE_INTEGER;
  return entry.mailbox?.load ?? entry.sending;
}
