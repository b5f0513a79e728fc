import type { Report } from './compare.js';
import { run as negotiation } from './negotiation.js';
import { run as sharedState } from './shared-state.js';
import { run as swarm } from './swarm.js';

/** Agents that work together: proposals, shared documents, swarms. */
export async function run(report: Report): Promise<void> {
  await sharedState(report);
  await negotiation(report);
  await swarm(report);
}
