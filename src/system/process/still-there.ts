import { wait } from '../../runtime/async.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from './child.js';

/** A little longer than the last words of a process that has ended are waited for. */
const LAST_WORDS_MS = 150;

/** Is a program whose pipe closed still there? It has mostly ended, and its end says more than that. */
export async function stillThere(runtime: Runtime, child: Child): Promise<boolean> {
  const there = wait(runtime, LAST_WORDS_MS).then(() => true);
  return Promise.race([child.exited.then(() => false), there]);
}
