import { resolve } from 'node:path';
import { describeError } from '../../runtime/errors.js';
import { AllowList } from '../../system/fetch/target.js';
import { type Environment, fileFault, programFault } from '../../system/process/environment.js';
import { type LoadedConfig, type Path, refuseValues } from './load.js';
import { readMcpServers, readNotify, readWorkers } from './providers.js';
import { kindsOf } from './worker-schema.js';

/** The parts of a program's configuration that decide whether it can be started. */
interface Startable {
  readonly command: string;
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Throws `INVALID_CONFIG` when a module or a program that the configuration names is missing or may not be used, or a
 * variable that it needs is not set. Loads no module and starts no program.
 */
export function checkPresence({ config, file, folder }: LoadedConfig, env: Environment): void {
  if (file === undefined) return;
  const program = ({ command, cwd = folder, env: own = {} }: Startable) => {
    const plain = Object.entries(own).filter((setting): setting is [string, string] => typeof setting[1] === 'string');
    return programFault({ command, cwd, env: Object.fromEntries(plain) }, env);
  };
  const faults: [path: Path, message: string][] = [];
  const note = (path: Path, find: () => string | undefined) => {
    const message = attempt(find);
    if (message !== undefined) faults.push([path, message]);
  };
  for (const [id, agent] of Object.entries(config.agents ?? {})) {
    const { module, workers = [agent] } = agent;
    if (module !== undefined) note(['agents', id, 'module'], () => fileFault(resolve(folder, module)));
    for (const [index, worker] of workers.entries()) {
      const place = agent.workers ? ['workers', index] : [];
      note(['agents', id, ...place, ...kindsOf(worker)], () => {
        for (const { type, config } of readWorkers(worker, env, folder)) {
          if (type === 'model' && config.promptFile !== undefined) return fileFault(config.promptFile);
          if (type === 'command' || type === 'acp' || (type === 'exec' && !config.shell)) return program(config);
        }
        return undefined;
      });
    }
  }
  const { servers, idle } = readMcpServers(config.mcpServers ?? {}, env, folder);
  for (const { name, fault } of idle) note(['mcpServers', name], () => fault?.message);
  for (const { name, endpoint } of servers) {
    if (endpoint.kind === 'stdio') note(['mcpServers', name, 'command'], () => program(endpoint));
  }
  note(['http', 'allowPrivate'], () => {
    new AllowList(config.http?.allowPrivate);
    return undefined;
  });
  note(['notify', 'webhook'], () => {
    readNotify(config.notify ?? {}, env);
    return undefined;
  });
  if (faults.length > 0) refuseValues(file, faults);
}

function attempt(find: () => string | undefined): string | undefined {
  try {
    return find();
  } catch (error) {
    return describeError(error);
  }
}
