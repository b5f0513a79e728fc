import { resolve } from 'node:path';
import { splitAddress } from '../mesh/address.js';
import { CALLER_PROTOCOL } from '../mesh/registry-index.js';
import type { RosterToolsComponents } from '../roster/roster-tools.js';
import { TestRunner } from '../roster/test-runs.js';
import { ToolProcesses } from '../roster/tools/tool-processes.js';
import { Workspaces } from '../roster/workspaces.js';
import type { Parts } from '../runtime/part.js';
import type { Runtime } from '../runtime/runtime.js';
import type { ActionGate } from '../system/approvals/action-gate.js';
import type { Children } from '../system/process/children.js';
import type { LoadedConfig } from './config/load.js';
import type { EclipticNode } from './node.js';

interface RosterWorkComponents {
  runtime: Runtime;
  node: EclipticNode;
  children: Children;
  gate: ActionGate;
  parts: Parts;
  /** The checkout of a coding agent that is connected now. */
  checkoutOf: (agent: string) => string | undefined;
}

/** What the tools of the roster work with on a node: processes, the folders of each caller, and the owner's consent. */
export function rosterWork(
  { runtime, node, children, gate, parts, checkoutOf }: RosterWorkComponents,
  { config, folder }: LoadedConfig,
  dataFolder: string,
): RosterToolsComponents {
  const processes = new ToolProcesses({ runtime, children, hidden: [dataFolder] });
  parts.add({ name: 'tools of the roster', stop: () => processes.close() });
  const forAll = (config.workspaces ?? []).map((path) => resolve(folder, path));
  const foldersFor = (caller: string): string[] => {
    const { id, node: key } = splitAddress(caller);
    if (key !== undefined && key !== node.key) return forAll;
    const checkout = checkoutOf(id);
    if (checkout !== undefined) return [checkout, ...forAll];
    const card = node.registry.ownEntry(id)?.card;
    // A caller from outside has an agent here too, under its own name.
    const isOwn = id === 'operator' || (card !== undefined && !card.protocols.includes(CALLER_PROTOCOL));
    return isOwn ? [folder, ...forAll] : forAll;
  };
  const permit = async (command: string, place: string, caller: string, signal: AbortSignal | undefined) => {
    const summary = `may saturn run "${command}" in ${place}, for ${caller}? It runs code of the repository.`;
    const action = { agent: 'saturn', action: 'terminal.run', subject: command };
    await gate.require(action, { summary, folder: place, signal });
  };
  return {
    processes,
    workspaces: new Workspaces({ foldersFor }),
    testRuns: new TestRunner({ runtime, children, processes, permit }),
  };
}
