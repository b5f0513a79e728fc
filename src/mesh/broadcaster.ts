import { BROADCAST, type ValidEnvelope } from './envelope.js';
import type { Dispatcher } from './mailbox.js';
import { type Failure, failureOf, type MessageChecks } from './message-checks.js';
import type { Policy } from './policy.js';
import type { Carrier } from './ports.js';
import type { AgentRegistry } from './registry.js';
import type { RegistryEntry } from './registry-index.js';
import type { RoutingReporter } from './routing-reporter.js';
import type { BroadcastCounts, RoutingResult } from './schemas.js';

export interface BroadcasterComponents {
  registry: AgentRegistry;
  policy: Policy;
  checks: MessageChecks;
  reporter: RoutingReporter;
  dispatcher: Dispatcher;
  carrier?: Carrier | undefined;
}

/** Delivers one envelope to every agent that may have it and can be reached, and counts the outcomes. */
export class Broadcaster {
  readonly #components: BroadcasterComponents;

  constructor(components: BroadcasterComponents) {
    this.#components = components;
  }

  send(envelope: ValidEnvelope, source: RegistryEntry): RoutingResult | Promise<RoutingResult> {
    const { reporter, checks, dispatcher } = this.#components;
    const started = reporter.startTimed();
    const unfit = checks.unfit(envelope);
    if (unfit) return reporter.refused(envelope, BROADCAST, unfit, started);
    const { here, elsewhere, counts } = this.#fanOut(envelope, source);
    const failure = checks.enterBroadcast(envelope, source, [...here, ...elsewhere]);
    if (failure) return reporter.refused(envelope, BROADCAST, failure, started);
    counts.delivered = here.length;
    for (const entry of here) entry.mailbox!.put(envelope);
    if (elsewhere.length > 0) {
      dispatcher.run();
      return this.#carryAll(envelope, source, elsewhere, counts).then((carried) =>
        seenBy(source, reporter.broadcast(envelope, source, [...here, ...carried], counts, started)),
      );
    }
    const result = reporter.broadcast(envelope, source, here, counts, started);
    dispatcher.run();
    return seenBy(source, result);
  }

  /** Sorts all other agents into here, elsewhere, withheld and failed. Delivers nothing yet. */
  #fanOut(envelope: ValidEnvelope, source: RegistryEntry) {
    const { registry, policy, checks, reporter } = this.#components;
    const counts: BroadcastCounts = { recipients: 0, delivered: 0, withheld: 0, failed: 0, withheldByCode: {} };
    const here: RegistryEntry[] = [];
    const elsewhere: RegistryEntry[] = [];
    for (const target of registry.entries()) {
      if (target === source || target.isCaller) continue;
      counts.recipients++;
      const decision = policy.judge(envelope, source, target, false);
      if (!decision.allowed) {
        counts.withheld++;
        counts.withheldByCode[decision.code] = (counts.withheldByCode[decision.code] ?? 0) + 1;
        reporter.about('security', envelope, target.address, decision);
        continue;
      }
      const unavailable = checks.unavailable(target);
      if (unavailable) {
        counts.failed++;
        reporter.about('delivery-failure', envelope, target.address, unavailable);
      } else if (target.node === undefined) here.push(target);
      else elsewhere.push(target);
    }
    return { here, elsewhere, counts };
  }

  async #carryAll(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    targets: readonly RegistryEntry[],
    counts: BroadcastCounts,
  ): Promise<RegistryEntry[]> {
    const { carrier, reporter } = this.#components;
    const carry = ({ node, card }: RegistryEntry) =>
      new Promise<Failure | undefined>((resolve) => {
        const outcome = { taken: () => resolve(undefined), refused: (error: unknown) => resolve(failureOf(error)) };
        carrier!.carry(node!, envelope, source.card.id, card.id, outcome);
      });
    const failures = await Promise.all(targets.map(carry));
    const carried = targets.filter((_, index) => failures[index] === undefined);
    targets.forEach(({ address }, index) => {
      const failure = failures[index];
      if (failure) reporter.about('delivery-failure', envelope, address, failure);
    });
    counts.delivered += carried.length;
    counts.failed += targets.length - carried.length;
    return carried;
  }
}

/** Hides agents outside its sandbox from a sandboxed sender; events and the audit log have them all. */
function seenBy(source: RegistryEntry, result: RoutingResult): RoutingResult {
  const hidden = result.broadcast?.withheldByCode.SANDBOX_VIOLATION;
  if (source.sandboxId === undefined || hidden === undefined) return result;
  const { recipients, withheld, withheldByCode, ...counts } = result.broadcast!;
  const { SANDBOX_VIOLATION: _, ...others } = withheldByCode;
  const view = { ...counts, recipients: recipients - hidden, withheld: withheld - hidden, withheldByCode: others };
  return { ...result, broadcast: view };
}
