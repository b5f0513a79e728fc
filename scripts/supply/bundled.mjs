import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The packages whose code is in a bundle, by name, each with the notice that its licence asks for. */
export function bundledPackages(inputs) {
  const folders = new Set(inputs.flatMap((input) => /^.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1] ?? []));
  return [...folders].sort().map((folder) => {
    const place = join(root, 'node_modules', folder);
    const { name, version, license } = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8'));
    const file = readdirSync(place).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? '' : readFileSync(join(place, file), 'utf8').trim();
    return { name, notice: `${name} ${version} (${license})\n\n${text}\n` };
  });
}
