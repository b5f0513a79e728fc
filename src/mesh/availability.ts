import type { Failure } from './admission.js';
import type { Carrier } from './ports.js';
import type { RegistryEntry } from './registry-index.js';

/** Can an agent be handed something right now? */
export class Availability {
  readonly #carrier: Carrier | undefined;
  readonly #mailboxCapacity: number;

  constructor(carrier: Carrier | undefined, mailboxCapacity: number) {
    this.#carrier = carrier;
    this.#mailboxCapacity = mailboxCapacity;
  }

  /** Why not, if it cannot. */
  refusal(target: RegistryEntry): Failure | undefined {
    if (target.node !== undefined) {
      if (this.#carrier?.reachable(target.node)) return undefined;
      return { code: 'AGENT_UNAVAILABLE', reason: `there is no link to the node of ${target.address}` };
    }
    const mailbox = target.mailbox;
    if (!mailbox?.attached) {
      return { code: 'AGENT_UNAVAILABLE', reason: `${target.address} is registered, but nothing listens for it` };
    }
    if (!mailbox.full) return undefined;
    return { code: 'MAILBOX_FULL', reason: `${this.#mailboxCapacity} messages wait for ${target.address}` };
  }
}
