import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The package's folder: the built code is one folder below it, this source file two. */
const FOLDER = new URL(/\.ts$/.test(import.meta.url) ? '../..' : '..', import.meta.url);

/** This package's version. */
export const VERSION: string = JSON.parse(readFileSync(new URL('package.json', FOLDER), 'utf8')).version;

/** Path of the package itself, for `npm install`. */
export const PACKAGE_FOLDER = fileURLToPath(FOLDER).replace(/[\\/]$/, '');

/** Path of the command-line program. */
export const PROGRAM = fileURLToPath(new URL('bin/ecliptic', FOLDER));

/** The definitions of gRPC's messages. */
export const PROTO_FOLDER = fileURLToPath(new URL('proto', FOLDER));

/** The files of the dashboard's page, once they are built. */
export const PAGE_FOLDER = fileURLToPath(new URL('dist/web', FOLDER));

/** The documents, which a node also serves. */
export const DOCS_FOLDER = fileURLToPath(new URL('docs', FOLDER));

/** The role prompts of the roster. */
export const ROSTER_FOLDER = fileURLToPath(new URL('roster', FOLDER));

/** The schemas of the configuration, of plans and of what commands print. */
export const SCHEMA_FOLDER = fileURLToPath(new URL('schema', FOLDER));
