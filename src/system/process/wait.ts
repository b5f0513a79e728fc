import type { Runtime } from '../../runtime/runtime.js';

export function wait(runtime: Runtime, ms: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, ms);
  });
}
