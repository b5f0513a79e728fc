/** What the lock says of the packages that are installed, shipped and used for development, and under which licences. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
export const LICENCE_PAGE = at('docs/licences.md');
export const SBOM = at('dist/sbom.cdx.json');

/** Licences of what users get. They ask for a notice at most. */
const ALLOWED = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'Unlicense'];
/** Of tools that are not shipped. */
const ALLOWED_IN_DEVELOPMENT = [...ALLOWED, 'MPL-2.0'];

/** One row for each package and version of the lock, by name. `use` is dependency, optional or development. */
export function packagesOf(lock = JSON.parse(readFileSync(at('package-lock.json'), 'utf8'))) {
  const found = new Map();
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (path === '' || entry.link) continue;
    const name = entry.name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const use = entry.dev ? 'development' : entry.optional || entry.devOptional ? 'optional' : 'dependency';
    const key = `${name}@${entry.version}`;
    // Of two copies, the one that users get counts.
    if (found.has(key) && use === 'development') continue;
    const { version, integrity, dependencies = {} } = entry;
    found.set(key, {
      name,
      version,
      use,
      licence: licenceOf(name, entry, lock),
      integrity,
      needs: Object.keys(dependencies),
    });
  }
  return [...found.values()].sort((a, b) =>
    a.name < b.name ? -1 : a.name > b.name ? 1 : a.version < b.version ? -1 : 1,
  );
}

/** Builds for platforms that the registry of the lock did not have are of the package that asks for them. */
function licenceOf(name, { license, version }, { packages }) {
  if (license) return license;
  const parent = Object.values(packages).find(({ optionalDependencies }) => optionalDependencies?.[name] === version);
  return parent?.license ?? 'unknown';
}

/** Packages whose licence is not on the list. */
export function refused(packages) {
  return packages.filter(
    ({ licence, use }) => !allows(licence, use === 'development' ? ALLOWED_IN_DEVELOPMENT : ALLOWED),
  );
}

/** Of `A OR B` one must be allowed, of `A AND B` both. */
function allows(expression, list) {
  const inner = expression.replace(/^\((.*)\)$/, '$1');
  return inner.split(' OR ').some((all) => all.split(' AND ').every((licence) => list.includes(licence)));
}

/** The page of all licences. */
export function licencePage(packages) {
  const licences = [...new Set(packages.map(({ licence }) => licence))].sort();
  const of = (licence, ...uses) => packages.filter((row) => row.licence === licence && uses.includes(row.use));
  const names = (rows) => rows.map(({ name, version }) => `${name} ${version}`).join(', ');
  const shipped = packages.filter(({ use }) => use !== 'development');
  return [
    '# Licences',
    '',
    'Ecliptic is under Apache-2.0. `npm run sbom` writes this page from `package-lock.json`. The texts of packages whose code is in the build',
    'are in `dist/THIRD-PARTY.txt`, and `dist/sbom.cdx.json` (CycloneDX) lists what a user installs. A test refuses licences outside a list.',
    '',
    '| licence | installed | for development only |',
    '|---|---|---|',
    ...licences.map(
      (licence) =>
        `| ${licence} | ${of(licence, 'dependency', 'optional').length} | ${of(licence, 'development').length} |`,
    ),
    '',
    '## Installed with Ecliptic',
    '',
    '| package | version | licence | |',
    '|---|---|---|---|',
    ...shipped.map(
      ({ name, version, licence, use }) => `| ${name} | ${version} | ${licence} | ${use === 'optional' ? use : ''} |`,
    ),
    '',
    '## For development only',
    '',
    ...licences.flatMap((licence) => {
      const rows = of(licence, 'development');
      return rows.length === 0 ? [] : [`**${licence}**: ${names(rows)}`, ''];
    }),
  ].join('\n');
}

/**
 * A CycloneDX bill of what a user installs; `bundled` names the packages whose code is in the build. It has neither a
 * time nor a random number, so that two builds are equal.
 */
export function billOfMaterials(packages, bundled) {
  const { name, version, license } = JSON.parse(readFileSync(at('package.json'), 'utf8'));
  const own = {
    type: 'application',
    'bom-ref': `${name}@${version}`,
    name,
    version,
    purl: purl(name, version),
    licenses: [licenceEntry(license)],
  };
  const listed = packages.filter((row) => row.use !== 'development' || bundled.includes(row.name));
  const refs = new Map(listed.map((row) => [row.name, `${row.name}@${row.version}`]));
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: own },
    components: listed.map(({ name: of, version: at, use, licence, integrity }) => ({
      type: 'library',
      'bom-ref': `${of}@${at}`,
      name: of,
      version: at,
      scope: use === 'optional' ? 'optional' : 'required',
      purl: purl(of, at),
      licenses: [licenceEntry(licence)],
      ...(integrity && { hashes: [hash(integrity)] }),
      ...(bundled.includes(of) && { properties: [{ name: 'ecliptic:bundled', value: 'true' }] }),
    })),
    dependencies: listed.map(({ name: of, version: at, needs }) => ({
      ref: `${of}@${at}`,
      dependsOn: needs.flatMap((need) => refs.get(need) ?? []),
    })),
  };
}

function licenceEntry(licence) {
  return licence.includes(' ') ? { expression: licence } : { license: { id: licence } };
}

function purl(name, version) {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}

function hash(integrity) {
  const [kind, digest] = integrity.split(' ')[0].split('-');
  return { alg: kind.toUpperCase().replace('SHA', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') };
}
