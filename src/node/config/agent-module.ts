import { pathToFileURL } from 'node:url';
import type { Agent } from '../../agent/agent.js';
import { describeError, EclipticError } from '../../runtime/errors.js';

interface AgentModule {
  setup?: (agent: Agent) => void | Promise<void>;
}

/** Loads a user's TypeScript or JavaScript file and lets it set up its agent. */
export async function runAgentModule(agent: Agent, file: string): Promise<void> {
  let module: AgentModule;
  try {
    module = await importModule(file);
  } catch (error) {
    throw new EclipticError('MODULE_FAILED', `${file} could not be loaded: ${describeError(error)}`, { file }, error);
  }
  if (typeof module.setup !== 'function') {
    throw new EclipticError('MODULE_FAILED', `${file} must export a function setup(agent)`, { file });
  }
  try {
    await module.setup(agent);
  } catch (error) {
    throw new EclipticError('MODULE_FAILED', `setup in ${file} threw: ${describeError(error)}`, { file }, error);
  }
}

/** Node imports JavaScript; TypeScript needs a loader, because Node 20 has none. */
async function importModule(file: string): Promise<AgentModule> {
  if (!/\.[cm]?ts$/.test(file)) return import(pathToFileURL(file).href);
  const { createJiti } = await import('jiti');
  return createJiti(import.meta.url, { moduleCache: false, fsCache: false }).import(file);
}
