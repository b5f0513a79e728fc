import type { Agent } from '../agent/agent.js';

/** Lets an agent without behaviour of its own answer: it says who it is, and what it was sent. */
export function describeItself(agent: Agent): void {
  const describe = () => {
    const { id, name, tier, description, capabilities } = agent.card;
    return { id, name, tier, description, capabilities: capabilities.map(({ id }) => id) };
  };
  agent.onRequest((message) => ({ ...describe(), echo: message.payload }));
  // Nothing is expected of it otherwise; what it is told is on the event stream.
  agent.onMessage(() => {});
  const description = `Says who ${agent.card.name} is and what it can do.`;
  agent.tool('describe', { description, annotations: { readOnlyHint: true } }, describe);
}
