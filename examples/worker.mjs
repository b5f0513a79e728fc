/** Stands in for a worker in the example plan: it hands back what it was asked to do. */
export function setup(agent) {
  agent.onRequest(({ payload }) => ({ by: agent.id, did: payload }));
}
