import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { type LoadedConfig, parseConfig } from '../config/load.js';
import { VARIABLE } from '../config/providers.js';
import type { Config } from '../config/schema.js';

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
/** Files of the project that the configuration names. */
const MAX_NAMED = 100;
const MAX_NAMED_BYTES = 16 * 1_048_576;
const SHOWN_CHARS = 300;
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
export function readProject(folder: string): ProjectFile {
  const file = join(folder, NAME);
  if (statSync(file).size > MAX_FILE_BYTES) throw tooLarge(file);
  // Read once: what is shown to the owner is what is used.
  const text = readFileSync(file, 'utf8');
  const loaded = { config: parseConfig(text.replace(/^\ufeff/, ''), file), file, folder };
  const hash = createHash('sha256').update(text);
  const texts = [...textsIn(loaded.config.agents ?? {})];
  const named = filesNamed(folder, texts);
  for (const path of named) hash.update(`\0${path}\0`).update(readFileSync(join(folder, path)));
  return { folder, loaded, digest: hash.digest('hex'), about: aboutOf(loaded.config, texts, named) };
}

/** Files of the project among the words of its settings: programs, scripts and prompts. */
function filesNamed(folder: string, texts: readonly string[]): string[] {
  const words = texts.flatMap((text) => [text, ...text.split(/[\s'"=]+/)]);
  const found = new Set<string>();
  let bytes = 0;
  for (const word of words) {
    if (word === '' || word.includes('\0') || word.length > 1_000) continue;
    const path = relative(folder, resolve(folder, word));
    if (path === '' || path.startsWith('..') || found.has(path)) continue;
    const stat = statSync(join(folder, path), { throwIfNoEntry: false });
    if (!stat?.isFile()) continue;
    bytes += stat.size;
    if (bytes > MAX_NAMED_BYTES || found.size >= MAX_NAMED) throw tooLarge(join(folder, path));
    found.add(path);
  }
  return [...found].sort();
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) yield* textsIn(inner);
}

function aboutOf(config: Config, texts: readonly string[], files: readonly string[]): Record<string, unknown> {
  const agents = Object.entries(config.agents ?? {}).map(([id, agent]) => {
    return [id, cutText(JSON.stringify(agent.workers ?? agent), SHOWN_CHARS)];
  });
  const variables = new Set(texts.flatMap((text) => [...text.matchAll(VARIABLE)].map(([, name]) => name)));
  const ignored = Object.keys(config).filter((key) => !USED.has(key));
  return {
    agents: Object.fromEntries(agents),
    ...(config.policy && { rules: config.policy.map((rule) => JSON.stringify(rule)) }),
    ...(variables.size > 0 && { 'reads from the environment': [...variables] }),
    ...(files.length > 0 && { 'names these files': files }),
    ...(ignored.length > 0 && { 'not used': ignored }),
  };
}

function tooLarge(file: string): EclipticError {
  return new EclipticError('INVALID_CONFIG', `${file} is too large for the configuration of a project`, {
    ...{ file, faults: [file] },
  });
}
