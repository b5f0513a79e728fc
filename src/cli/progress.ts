/** How long a command may be silent on a terminal. */
const SILENT_MS = 2_000;
const CLEAR = '\r\u001b[K';

/** Says on a terminal that the node still works on a call, and takes it back when the call ends. */
export async function withProgress<T>(work: Promise<T>, what: string): Promise<T> {
  // It may fail while the clock is being loaded.
  work.catch(() => {});
  const { stderr } = process;
  const { systemRuntime } = await import('../runtime/system-runtime.js');
  const runtime = systemRuntime();
  const began = runtime.stopwatch();
  let shown = false;
  const tick = () => {
    const seconds = Math.round((runtime.stopwatch() - began) / 1_000);
    stderr.write(`${CLEAR}the node works on ${what} … ${seconds} s (Ctrl-C leaves it)`);
    shown = true;
    timer = runtime.setTimer(tick, 1_000);
  };
  let timer = runtime.setTimer(tick, SILENT_MS);
  try {
    return await work;
  } finally {
    timer.cancel();
    if (shown) stderr.write(CLEAR);
  }
}
