import { rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** A background node that was told to end may still write into its folder, which is then removed again. */
export async function removeFolder(folder: string): Promise<void> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    try {
      // The retries of `rmSync` would not remove files that are new.
      return rmSync(folder, { recursive: true, force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || performance.now() > deadline) throw error;
      await delay(50);
    }
  }
}
