/** A worker for tests: it answers with its card and with the payload that it was sent. */
export function setup(agent) {
  agent.onRequest(({ payload }) => {
    const { id, name, tier, description, capabilities } = agent.card;
    return { id, name, tier, description, capabilities: capabilities.map(({ id }) => id), echo: payload };
  });
  agent.onMessage(() => {});
}
