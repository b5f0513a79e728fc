/** A placeholder worker for the example plan: it returns its input. */
export function setup(agent) {
  agent.onRequest(({ payload }) => ({ by: agent.id, did: payload }));
}
