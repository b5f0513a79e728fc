import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const LINE = 'apt-get update && apt-get install -y --no-install-recommends faketime iproute2';
const tools = ['ip', 'bridge'];

const hasTools = () => tools.every((tool) => spawnSync(tool, ['-V'], { stdio: 'ignore' }).status === 0);

/** The library that changes a program's clock, if it is installed. */
export function faketime() {
  const places = ['/usr/lib', '/usr/lib64', '/usr/local/lib'].filter((place) => existsSync(place));
  const below = (place) => readdirSync(place).map((name) => `${place}/${name}`);
  const folders = places.flatMap((place) => [`${place}/faketime`, ...below(place).map((inner) => `${inner}/faketime`)]);
  return folders.map((folder) => `${folder}/libfaketime.so.1`).find((file) => existsSync(file));
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.platform === 'linux') {
  const isComplete = () => hasTools() && faketime() !== undefined;
  if (!isComplete() && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    console.log(`The tests of faults need iproute2 and libfaketime: ${LINE}`);
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    spawnSync('sh', ['-c', LINE], { stdio: ['ignore', 'ignore', 'inherit'], env });
  }
  if (!isComplete()) {
    console.error('The tests of faults need iproute2 and libfaketime. Install them (as root):');
    console.error(`  ${LINE}`);
    process.exit(1);
  }
}
