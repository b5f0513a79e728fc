/**
 * Licences and materials, from package-lock.json.
 *
 *   npm run sbom                       writes docs/licences.md; the build writes dist/sbom.cdx.json
 *   npm run sbom -- --check [--json]   compares both with the lock, and each licence with the list of allowed ones
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { LICENCE_PAGE, licencePage, packagesOf, refused, SBOM } from './supply/packages.mjs';

const { values } = parseArgs({ options: { check: { type: 'boolean' }, json: { type: 'boolean' } } });
const packages = packagesOf();
const page = licencePage(packages);
if (!values.check) writeFileSync(LICENCE_PAGE, page);

const failures = refused(packages).map(
  ({ name, version, licence }) => `${name} ${version} is under ${licence}, which is not allowed`,
);
if (readFileSync(LICENCE_PAGE, 'utf8') !== page) failures.push('docs/licences.md differs from the lock: npm run sbom');
const components = existsSync(SBOM) ? JSON.parse(readFileSync(SBOM, 'utf8')).components : [];
for (const { name, version, use } of packages) {
  const isThere = components.some((component) => component.name === name && component.version === version);
  if (use !== 'development' && !isThere) failures.push(`dist/sbom.cdx.json lacks ${name} ${version}: npm run build`);
}

const installed = packages.filter(({ use }) => use !== 'development').length;
const licences = new Set(packages.map(({ licence }) => licence)).size;
const figures = { packages: packages.length, installed, licences, 'in the bill': components.length };
if (values.json) console.log(JSON.stringify({ figures, failures }));
else console.log([...Object.entries(figures).map(([name, count]) => `${count} ${name}`), ...failures].join('\n'));
process.exitCode = failures.length > 0 ? 1 : 0;
