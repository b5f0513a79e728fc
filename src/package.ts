import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The files of this package that are not code. Only this module looks for them: it is one folder below the package's
 * own, in the source and when built, where the others are not.
 */
const FOLDER = new URL('..', import.meta.url);

/** This package's version. */
export const VERSION: string = JSON.parse(readFileSync(new URL('package.json', FOLDER), 'utf8')).version;

/** The command-line program, for those who start it. */
export const PROGRAM = fileURLToPath(new URL('bin/ecliptic', FOLDER));

/** The definitions of gRPC's messages. */
export const PROTO_FOLDER = fileURLToPath(new URL('proto', FOLDER));
