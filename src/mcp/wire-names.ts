import { createHash } from 'node:crypto';
import type { Catalogue, Entry } from './catalogue.js';

/**
 * The style of tool and prompt names on the MCP wire. `safe`: `agent__tool`, for clients that refuse dots. `dotted`:
 * `agent.tool`. `bare`: `tool` where only one agent offers it and it has no dot, else as `safe`.
 */
export const NAME_STYLES = ['safe', 'dotted', 'bare'] as const;
export type NameStyle = (typeof NAME_STYLES)[number];

/** The longest name that every client accepts. */
const MAX_CHARS = 64;
/** Hash characters that make a name unique: few by default, many where an agent forged a collision of short ones. */
const HASH_CHARS = [8, 32] as const;
const NODE_CHARS = 8;

interface Names {
  readonly version: number;
  readonly byName: ReadonlyMap<string, Entry>;
  readonly byEntry: ReadonlyMap<Entry, string>;
}

/** Unique wire names for the entries of the catalogue, recomputed only when it changes. */
export class WireNames {
  readonly #catalogue: Catalogue;
  readonly #names = new Map<string, Names>();

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue;
  }

  nameOf(entry: Entry<{ kind: 'tool' | 'prompt' } & Entry['definition']>, style: NameStyle): string {
    return this.#current(entry.definition.kind, style).byEntry.get(entry) ?? entry.fullName;
  }

  find(kind: 'tool' | 'prompt', name: string, style: NameStyle): Entry | undefined {
    return this.#current(kind, style).byName.get(name);
  }

  #current(kind: 'tool' | 'prompt', style: NameStyle): Names {
    const id = `${kind} ${style}`;
    const known = this.#names.get(id);
    const { version } = this.#catalogue;
    if (known?.version === version) return known;
    const names = { version, ...assign(this.#catalogue, kind, style) };
    this.#names.set(id, names);
    return names;
  }
}

function assign(catalogue: Catalogue, kind: 'tool' | 'prompt', style: NameStyle): Omit<Names, 'version'> {
  const entries = catalogue.all(kind) as unknown as Entry[];
  const wanted = entries.map((entry) => baseName(catalogue, entry, style));
  const counts = countOf(wanted);
  if (style === 'bare') {
    for (const [index, name] of wanted.entries()) {
      // With a dot it could be read as another agent's full name.
      if (counts.get(name)! > 1 || name.includes('.')) wanted[index] = baseName(catalogue, entries[index]!, 'safe');
    }
  }
  const taken = formerNames(catalogue, entries, style === 'bare' ? 'safe' : style);
  const isTaken = (index: number) => {
    const other = taken.get(wanted[index]!);
    return other !== undefined && other !== plainName(entries[index]!);
  };
  const maxChars = style === 'dotted' ? Number.POSITIVE_INFINITY : MAX_CHARS;
  const hashes = wanted.map((name, index): number => (name.length > maxChars || isTaken(index) ? 1 : 0));
  const names = distinct(entries, wanted, hashes);
  return {
    byName: new Map(names.map((name, index) => [name, entries[index]!])),
    byEntry: new Map(names.map((name, index) => [entries[index]!, name])),
  };
}

/**
 * Lengthens names by a hash until all differ. All entries that share a name are lengthened, so that an ambiguous name
 * stops working rather than meaning another entry.
 */
function distinct(entries: readonly Entry[], wanted: readonly string[], hashes: number[]): string[] {
  for (;;) {
    const names = entries.map((entry, index) => lengthened(wanted[index]!, entry, hashes[index]!));
    const counts = countOf(names);
    let changed = false;
    for (const [index, name] of names.entries()) {
      if (counts.get(name) === 1 || hashes[index] === HASH_CHARS.length) continue;
      hashes[index]!++;
      changed = true;
    }
    if (!changed) return names;
  }
}

/** Depends on the entry alone, so that the name does not change with other entries. */
function lengthened(name: string, entry: Entry, hashes: number): string {
  if (hashes === 0) return name;
  const chars = HASH_CHARS[hashes - 1]!;
  const hash = createHash('sha256').update(entry.fullName).digest('hex').slice(0, chars);
  return `${name.slice(0, MAX_CHARS - chars - 1)}_${hash}`;
}

/**
 * The names that entries of another node had while their owner's plain id was unique, and their owners. Only an agent
 * of this node with that id may take such a name.
 */
function formerNames(catalogue: Catalogue, entries: readonly Entry[], style: NameStyle): ReadonlyMap<string, string> {
  const former = entries.filter((entry) => !isAlone(catalogue, entry));
  return new Map(former.map((entry) => [baseName(catalogue, entry, style, true), plainName(entry)]));
}

function plainName({ ownerId, key }: Entry): string {
  return `${ownerId}.${key}`;
}

function isAlone(catalogue: Catalogue, { ownerId, node }: Entry): boolean {
  return node === undefined || catalogue.ownersNamed(ownerId).size === 1;
}

function baseName(catalogue: Catalogue, entry: Entry, style: NameStyle, alone = isAlone(catalogue, entry)): string {
  if (style === 'bare') return entry.key;
  const { ownerId, node } = entry;
  if (style === 'dotted') return alone ? `${ownerId}.${entry.key}` : entry.fullName;
  const owner = alone ? ownerId : `${ownerId}_${node!.slice(0, NODE_CHARS)}`;
  return `${owner}__${entry.key}`.replace(/[^A-Za-z0-9_]/g, '_');
}

function countOf(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
