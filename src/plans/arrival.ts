import type { AgentRegistry } from '../mesh/registry.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Assignment } from './dispatcher.js';
import type { MeshWorld } from './plan-world.js';

/** How long a task waits for an agent that is not there. */
const ARRIVAL_MS = 30_000;

/**
 * Waits until there is somebody who can do a task, for a while. Everybody was there when the plan was checked, but a
 * node that starts again knows the agents of others a moment later.
 */
export async function untilSomebodyCan(
  { runtime, registry, world }: { runtime: Runtime; registry: AgentRegistry; world: MeshWorld },
  { task, run, signal }: Assignment,
): Promise<void> {
  const isThere = () => world.canBeDone(task, run.agent);
  if (isThere()) return;
  await new Promise<void>((resolve) => {
    const end = () => {
      stop();
      timer.cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const stop = registry.onCard(() => {
      if (isThere()) end();
    });
    const timer = runtime.setTimer(end, ARRIVAL_MS);
    signal.addEventListener('abort', end);
  });
}
