import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { ControlClient } from '../node/control/client.js';
import { controlPath, prepareDataFolder, stoppedAt } from '../node/control/data-folder.js';
import { wait } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import { PROGRAM } from '../runtime/package.js';
import type { Runtime } from '../runtime/runtime.js';

type Environment = Readonly<Record<string, string | undefined>>;

const START_MS = 20_000;
/** How long the node of another process may take, after this one's exited because of it. */
const OTHERS_MS = 3_000;
const POLL_MS = 50;

/**
 * Connects to the user's node, and starts one if none runs; the node outlives this process. A node that its owner
 * stopped after `since` stays stopped.
 */
export async function connectOrStart(
  runtime: Runtime,
  dataFolder: string,
  env: Environment,
  since = Number.POSITIVE_INFINITY,
): Promise<ControlClient> {
  const path = controlPath(dataFolder, env);
  const found = await connect(path, runtime);
  if (found) return found;
  if (stoppedAt(dataFolder) > since) {
    const stopped = { stoppedByOwner: true };
    throw new EclipticError('NO_NODE', 'the owner stopped the node; start it with: ecliptic up', stopped);
  }
  process.stderr.write(`ecliptic: starting a node in the background; its log is ${logOf(dataFolder)}\n`);
  const exited = start(dataFolder, env);
  let deadline = runtime.now() + START_MS;
  let exiting = false;
  while (runtime.now() < deadline) {
    await wait(runtime, POLL_MS);
    const client = await connect(path, runtime);
    if (client) return client;
    // The start failed, or another process started its node first, which then answers soon.
    if (exited() && !exiting) {
      exiting = true;
      deadline = Math.min(deadline, runtime.now() + OTHERS_MS);
    }
  }
  const log = logOf(dataFolder);
  throw new EclipticError('NO_NODE', `the node did not start; ${log} says why, or run: ecliptic up`, { log });
}

async function connect(path: string, runtime: Runtime): Promise<ControlClient | undefined> {
  try {
    return await ControlClient.connect(path, runtime);
  } catch (error) {
    if (error instanceof EclipticError && error.code === 'NO_NODE') return undefined;
    throw error;
  }
}

/** Starts a detached node; the returned function tells whether it has exited. */
function start(dataFolder: string, env: Environment): () => boolean {
  prepareDataFolder(dataFolder);
  const output = openSync(logOf(dataFolder), 'a', 0o600);
  const child = spawn(process.execPath, [PROGRAM, 'up', '--background', '--data', dataFolder], {
    detached: true,
    // The output of `up` contains the owner's token, which must not get into the log.
    stdio: ['ignore', 'ignore', output],
    env: { ...env },
    cwd: dataFolder,
  });
  closeSync(output);
  child.on('error', () => {});
  child.unref();
  return () => child.exitCode !== null || child.signalCode !== null;
}

/** The log of a node in the background. */
export function logOf(dataFolder: string): string {
  return join(dataFolder, 'node.log');
}
