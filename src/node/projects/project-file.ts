import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { DETAIL_CHARS, detailText } from '../../http/dashboard/facts.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Environment } from '../../system/process/environment.js';
import { type LoadedConfig, parseConfig } from '../config/load.js';
import { VARIABLE } from '../config/providers.js';
import type { Config } from '../config/schema.js';
import { filesNamed } from './named-files.js';

/** The configuration of a project, and what an owner should know of it before it is used. */
export interface ProjectFile {
  readonly folder: string;
  readonly loaded: LoadedConfig;
  /** Of the configuration and of the files of the project that it names. */
  readonly digest: string;
  readonly about: Readonly<Record<string, unknown>>;
}

const NAME = 'ecliptic.json';
const MAX_FILE_BYTES = 1_048_576;
/** The settings of a project that are used; others are those of the node. */
const USED: ReadonlySet<string> = new Set(['$schema', 'agents', 'policy']);

/** The folder of the project that a client works in: the nearest with a configuration, within its repository. */
export function projectOf(checkout: string): string | undefined {
  const home = realpathSync(homedir());
  let folder: string;
  try {
    folder = realpathSync(checkout);
  } catch {
    return undefined;
  }
  for (;;) {
    const above = dirname(folder);
    if (folder === home || above === folder) return undefined;
    if (existsSync(join(folder, NAME))) return folder;
    if (existsSync(join(folder, '.git'))) return undefined;
    folder = above;
  }
}

/** Reads and checks it; starts nothing. Throws `INVALID_CONFIG`. */
export function readProject(folder: string, env: Environment): ProjectFile {
  const file = join(folder, NAME);
  if (statSync(file).size > MAX_FILE_BYTES) throw tooLarge(file);
  // Read once: what is shown to the owner is what is used.
  const text = readFileSync(file, 'utf8');
  const loaded = { config: parseConfig(text.replace(/^\ufeff/, ''), file), file, folder };
  const hash = createHash('sha256').update(text);
  const texts = [...textsIn(loaded.config.agents ?? {})];
  const named = filesNamed(folder, texts, env);
  if (!named) throw tooLarge(file);
  for (const path of named) hash.update(`\0${path}\0`).update(readFileSync(join(folder, path)));
  const about = aboutOf(loaded.config, texts, named);
  checkShown(file, about);
  return { folder, loaded, digest: hash.digest('hex'), about };
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) yield* textsIn(inner);
}

/** Every agent in full: what is not shown must not run. */
function aboutOf(config: Config, texts: readonly string[], files: readonly string[]): Record<string, unknown> {
  const agents = Object.entries(config.agents ?? {}).map(([id, agent]) => [`agent ${id}`, JSON.stringify(agent)]);
  const variables = new Set(texts.flatMap((text) => [...text.matchAll(VARIABLE)].map(([, name]) => name)));
  const ignored = Object.keys(config).filter((key) => !USED.has(key));
  return {
    ...Object.fromEntries(agents),
    ...(config.policy && { rules: config.policy.map((rule) => JSON.stringify(rule)) }),
    ...(variables.size > 0 && { 'reads from the environment': [...variables] }),
    ...(files.length > 0 && { 'names these files': files }),
    ...(ignored.length > 0 && { 'not used': ignored }),
  };
}

/** Throws `INVALID_CONFIG` where the owner would not see all of it. */
function checkShown(file: string, about: Readonly<Record<string, unknown>>): void {
  for (const [label, value] of Object.entries(about)) {
    const text = detailText(value);
    if (text.length <= DETAIL_CHARS) continue;
    throw new EclipticError(
      'INVALID_CONFIG',
      `${file}: "${label}" has ${text.length} characters; more than ${DETAIL_CHARS} cannot be shown for approval`,
      { file, faults: [label] },
    );
  }
}

function tooLarge(file: string): EclipticError {
  const message = `${file} is too large for the configuration of a project, or names too many files`;
  return new EclipticError('INVALID_CONFIG', message, { file, faults: [file] });
}
