import { joinAddress } from '../mesh/address.js';
import type { A2AMessageType, RoutingResult } from '../mesh/schemas.js';
import type { Voice, VoiceOptions } from '../mesh/voice.js';
import { assertDelivered, type Outbox } from './outbox.js';

/** What coordination says in an agent's name goes through that agent's outbox. */
export class AgentVoice implements Voice {
  readonly agentId: string;
  readonly address: string;
  readonly #outbox: Outbox;

  constructor(agentId: string, nodeKey: string | undefined, outbox: Outbox) {
    this.agentId = agentId;
    this.address = joinAddress(agentId, nodeKey);
    this.#outbox = outbox;
  }

  async send(to: string, type: A2AMessageType, payload: unknown, options?: VoiceOptions): Promise<RoutingResult> {
    return assertDelivered(await this.post(to, type, payload, options));
  }

  post(
    to: string,
    type: A2AMessageType,
    payload: unknown,
    options: VoiceOptions = {},
  ): RoutingResult | Promise<RoutingResult> {
    return this.#outbox.route(to, type, payload, options, options.needsAnswer);
  }
}
