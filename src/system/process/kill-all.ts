import { wait } from '../../runtime/async.js';
import type { Runtime } from '../../runtime/runtime.js';
import { findProcesses, signalProcess, type Wanted } from './process-table.js';

/** Rounds and pauses come to about a second: only a process that hangs in the kernel lives longer. */
const ROUNDS = 50;
const PAUSE_MS = 20;

/**
 * Kills the wanted processes, and looks again until none is left: one may have started another meanwhile. False when
 * some would not go.
 */
export async function killAll(runtime: Runtime, wanted: Wanted): Promise<boolean> {
  for (let round = 0; round < ROUNDS; round++) {
    const pids = await findProcesses(runtime, wanted);
    if (pids.length === 0) return true;
    for (const pid of pids) signalProcess(pid, 'SIGKILL');
    await wait(runtime, PAUSE_MS);
  }
  return false;
}
