import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Config } from '../node/config/schema.js';
import type { Host } from '../node/host.js';
import { IdleExit } from '../node/idle-exit.js';
import type { Runtime } from '../runtime/runtime.js';
import { writePrivately } from '../system/files/private-file.js';

type Environment = Readonly<Record<string, string | undefined>>;

const IDLE_MS = 1_800_000;

/** The user's own configuration: a node in the background belongs to no project. */
export function ownConfig(env: Environment, cwd = process.cwd()): string | undefined {
  // The data folder, where such a node is started, may have one of its own.
  if (existsSync(resolve(cwd, 'ecliptic.json'))) return undefined;
  const file = join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'ecliptic', 'ecliptic.json');
  return existsSync(file) ? file : undefined;
}

function portFile(dataFolder: string): string {
  return join(dataFolder, 'background-port');
}

/** The port of the last time, so that addresses which people and clients noted stay valid. */
export function knownPort(dataFolder: string): number | undefined {
  try {
    const port = Number(readFileSync(portFile(dataFolder), 'utf8'));
    return Number.isInteger(port) && port > 0 && port <= 65_535 ? port : undefined;
  } catch {
    return undefined;
  }
}

/** Notes the node's port, and ends the node when it is not used any more. */
export function runInBackground(
  host: Host,
  runtime: Runtime,
  dataFolder: string,
  { stay = false, idleMs = IDLE_MS }: NonNullable<Config['background']>,
): void {
  writePrivately(portFile(dataFolder), new URL(host.gateway.url).port);
  if (stay) return;
  // Not the owner's command: the next client starts the node again.
  const idle = new IdleExit(runtime, { idleMs, isBusy: () => host.busy(), exit: () => void host.stop() });
  void host.stopped.then(() => idle.stop());
}
