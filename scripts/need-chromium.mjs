import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** The browser of the dashboard's tests. `ECLIPTIC_CHROMIUM` names another one. */
export const CHROMIUM = process.env.ECLIPTIC_CHROMIUM || '/usr/bin/chromium';

const LINE = 'apt-get update && apt-get install -y --no-install-recommends chromium';

if (!existsSync(CHROMIUM)) {
  const canInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get') && !process.env.ECLIPTIC_CHROMIUM;
  if (canInstall) {
    console.log(`The tests need Chromium: ${LINE}`);
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    spawnSync('sh', ['-c', LINE], { stdio: ['ignore', 'ignore', 'inherit'], env });
  }
  if (!existsSync(CHROMIUM)) {
    console.error(`The tests of the dashboard need Chromium at ${CHROMIUM}. Install it (as root):`);
    console.error(`  ${LINE}`);
    console.error('or name another one: ECLIPTIC_CHROMIUM=/path/to/chromium npm test');
    process.exit(1);
  }
}
