import type { Agent } from '../agent/agent.js';

/** Lets an agent without behaviour of its own answer: it says who it is, and what it was sent. */
export function describeItself(agent: Agent): void {
  agent.onRequest((message) => {
    const { id, name, tier, description, capabilities } = agent.card;
    return { id, name, tier, description, capabilities: capabilities.map(({ id }) => id), echo: message.payload };
  });
  // Nothing is expected of it otherwise; what it is told is on the event stream.
  agent.onMessage(() => {});
}
