import type { Agent } from '../../../src/index.js';

/** An agent that leaves when it is asked to. */
export function setup(agent: Agent): void {
  agent.tool('leave', { description: 'Leaves the mesh' }, () => {
    setImmediate(() => agent.leave());
    return 'leaving';
  });
}
