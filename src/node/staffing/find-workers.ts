import type { Runtime } from '../../runtime/runtime.js';
import { Children } from '../../system/process/children.js';
import type { Environment } from '../../system/process/environment.js';
import { findCodingAgents } from './coding-agents.js';
import type { FoundWorkers, WorkerKind } from './found.js';
import { findModels, type ModelOptions } from './model-endpoints.js';
import { findPackageScripts } from './package-scripts.js';

export interface FindOptions extends ModelOptions {
  /** The folder of the configuration, whose package's scripts are used. */
  readonly folder: string;
  readonly env: Environment;
  /** Look for workers of this kind only. */
  readonly only?: WorkerKind | undefined;
}

const NONE: FoundWorkers = { workers: [], unusable: [] };

/** Everything on this machine that can do the work of a role. The kinds are searched at the same time. */
export async function findWorkers(runtime: Runtime, options: FindOptions): Promise<FoundWorkers> {
  const { folder, env, only } = options;
  const wants = (kind: WorkerKind) => only === undefined || only === kind;
  const children = await Children.open(runtime);
  try {
    const found = await Promise.all([
      wants('acp') ? findCodingAgents({ runtime, children, env }) : NONE,
      wants('model') ? findModels(runtime, env, options) : NONE,
      wants('exec') ? findPackageScripts(folder, env) : NONE,
    ]);
    return {
      workers: found.flatMap(({ workers }) => workers),
      unusable: found.flatMap(({ unusable }) => unusable),
    };
  } finally {
    await children.close();
  }
}
