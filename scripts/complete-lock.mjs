/**
 * Adds to each package-lock.json the packages for other platforms that npm left out because the registry in use does not
 * have them. `npm ci` insists that they are listed, though it installs none of them here. Then writes docs/licences.md from the
 * lock. Run after `npm install`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { LICENCE_PAGE, licencePage, packagesOf } from './supply/packages.mjs';

const FILES = [
  'package-lock.json',
  'test/conformance/package-lock.json',
  'test/fuzz/package-lock.json',
  'test/clients/package-lock.json',
  'test/clients/frameworks/package-lock.json',
  'scripts/api-reference/package-lock.json',
];
const SYSTEMS = ['android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'aix', 'win32'];
const PROCESSORS = ['arm64', 'arm', 'ia32', 'x64', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32'];

for (const file of FILES) {
  const url = new URL(`../${file}`, import.meta.url);
  const lock = JSON.parse(readFileSync(url, 'utf8'));
  const added = [];
  for (const [path, entry] of Object.entries(lock.packages)) {
    for (const [name, range] of Object.entries(entry.optionalDependencies ?? {})) {
      const places = [`${path}/node_modules/${name}`, `node_modules/${name}`];
      if (places.some((place) => lock.packages[place])) continue;
      const words = name.replace('fsevents', 'darwin').replace('windows', 'win32').split(/[-/]/);
      const os = SYSTEMS.filter((system) => words.includes(system));
      const cpu = PROCESSORS.filter((processor) => words.includes(processor));
      if (os.length + cpu.length === 0) throw new Error(`${name} names no platform; add it by hand`);
      lock.packages[`node_modules/${name}`] = {
        version: range.replace(/^[~^]/, ''),
        ...(cpu.length > 0 && { cpu }),
        ...(words.includes('musl') && { libc: ['musl'] }),
        ...(entry.dev && { dev: true }),
        optional: true,
        ...(os.length > 0 && { os }),
      };
      added.push(name);
    }
  }
  lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(url, `${JSON.stringify(lock, null, 2)}\n`);
  const outcome = added.length === 0 ? 'is complete' : `lacked ${added.length} packages of other platforms`;
  console.log(`${file} ${outcome}`);
}

writeFileSync(LICENCE_PAGE, licencePage(packagesOf()));
