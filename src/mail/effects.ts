import type { EnvelopeFactory, ValidEnvelope } from '../mesh/envelope.js';
import type { Write } from '../store/store.js';
import { type Effects, keptText } from './incoming-mail.js';
import { type Prepared, together } from './prepared.js';
import { agentState } from './tables.js';

/** Prepares the effects that an agent wants with the end of a message; `send` prepares a message of its. */
export function prepareEffects(
  agent: string,
  { keep = {}, send: sent = [] }: Effects,
  factory: EnvelopeFactory,
  send: (made: ValidEnvelope) => Prepared,
): Prepared {
  const state = Object.entries(keep).map(([key, value]): Write => {
    if (value === undefined) return agentState.delete({ agent, key });
    return agentState.put({ agent, key, value: keptText(key, value) });
  });
  const sends = sent.map(({ to: recipient, payload, thread: correlationId }) => () => {
    const about = { sender: agent, recipient, type: 'notification', correlationId } as const;
    return send(factory.create({ ...about, payload, metadata: { durable: true } }));
  });
  return together(state, sends);
}
