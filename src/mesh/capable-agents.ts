import type { Admission, Failure } from './admission.js';
import type { Availability } from './availability.js';
import type { ValidEnvelope } from './envelope.js';
import type { Policy } from './policy.js';
import type { AgentRegistry } from './registry.js';
import type { RegistryEntry } from './registry-index.js';
import type { A2AMessageType } from './schemas.js';
import { unroutable, workOf } from './staffing.js';

export interface CapableAgentsComponents {
  registry: AgentRegistry;
  policy: Policy;
  admission: Admission;
  availability: Availability;
}

/** Finds those that can do something, may be asked, and can be reached. */
export class CapableAgents {
  readonly #components: CapableAgentsComponents;

  constructor(components: CapableAgentsComponents) {
    this.#components = components;
  }

  /**
   * All of them: local before remote, least loaded first, then earliest registered. With none, why the first was passed
   * over.
   */
  all(
    source: RegistryEntry,
    capabilities: readonly string[],
    type: A2AMessageType,
    justification?: string,
  ): { found: readonly RegistryEntry[]; refusal: Failure | undefined } {
    const { registry, policy, admission, availability } = this.#components;
    const found: RegistryEntry[] = [];
    let refusal: Failure | undefined;
    for (const entry of registry.entriesWithCapability(capabilities[0] ?? '')) {
      if (entry === source || !offersAll(entry, capabilities)) continue;
      const decision = policy.ask(source, entry, type, justification);
      const failure = decision.allowed
        ? (admission.unanswerable(source, entry) ?? unroutable(entry.card, workOf(type)) ?? availability.refusal(entry))
        : decision;
      if (failure) refusal ??= failure;
      else found.push(entry);
    }
    const rank = (entry: RegistryEntry) => (entry.node === undefined ? 0 : 1);
    found.sort((a, b) => rank(a) - rank(b) || loadOf(a) - loadOf(b) || a.order - b.order);
    return { found, refusal };
  }

  /** The one that gets a message to a capability, by the same order: the first idle one ends the search. */
  choose(envelope: ValidEnvelope, source: RegistryEntry, needsAnswer: boolean): RegistryEntry | undefined {
    const { registry, admission, availability } = this.#components;
    let best: RegistryEntry | undefined;
    for (const candidate of registry.entriesWithCapability(envelope.recipient)) {
      if (candidate === source) continue;
      if (best && candidate.node !== undefined) break;
      if (admission.refusal(envelope, source, candidate, false) || availability.refusal(candidate)) continue;
      if (needsAnswer && admission.unanswerable(source, candidate)) continue;
      if (candidate.status && unroutable(candidate.card, workOf(envelope.type))) continue;
      const load = loadOf(candidate);
      if (load === 0) return candidate;
      if (!best || load < loadOf(best)) best = candidate;
    }
    return best;
  }

  /** Why those that offer a capability, and may be asked, do not take the message: the reason of the first. */
  vacancy(envelope: ValidEnvelope, source: RegistryEntry): Failure | undefined {
    const { registry, admission } = this.#components;
    for (const candidate of registry.entriesWithCapability(envelope.recipient)) {
      if (candidate === source || admission.refusal(envelope, source, candidate, false)) continue;
      const vacancy = unroutable(candidate.card, workOf(envelope.type));
      if (vacancy) return vacancy;
    }
    return undefined;
  }

  /** The first that policy keeps from the sender, with the reason. */
  barred(envelope: ValidEnvelope, source: RegistryEntry): { entry: RegistryEntry; failure: Failure } | undefined {
    const { registry, policy } = this.#components;
    for (const entry of registry.entriesWithCapability(envelope.recipient)) {
      if (entry === source) continue;
      const decision = policy.judge(envelope, source, entry, false);
      if (!decision.allowed) return { entry, failure: decision };
    }
    return undefined;
  }
}

function offersAll(entry: RegistryEntry, capabilities: readonly string[]): boolean {
  return capabilities.every((wanted) => entry.card.capabilities.some(({ id }) => id === wanted));
}

/** One that still starts comes last: others can begin at once. */
function loadOf(entry: RegistryEntry): number {
  if (entry.status?.state === 'starting') return Number.MAX_SAFE_INTEGER;
  return entry.mailbox?.load ?? 0;
}
