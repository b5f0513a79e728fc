import { posix } from 'node:path';
import { type SourceFile, sourceFiles } from '../source-files.js';

interface Declared {
  readonly name: string;
  readonly file: SourceFile;
  /** The members that a user of the type can see, one text each. */
  readonly members: readonly string[];
}

const CALLBACK_NAME = /^(?:on[A-Z]\w*|subscribe\w*|watch\w*|follow\w*|openInbox)$/;

/**
 * Every way, by `Type.member`, in which a program that embeds Ecliptic can have its own function called: the members
 * whose name says so, of all types that the package exports and of the types that the visible members of those
 * mention.
 */
export function publicCallbacks(): string[] {
  const files = new Map(sourceFiles('src').map((file) => [file.path, file]));
  const entries = ['index', 'mesh', 'a2a', 'providers'].map((name) => files.get(`src/${name}.ts`)!);
  const seen = new Set<Declared>();
  const open = entries.flatMap((entry) =>
    exportedNames(entry.text).map(({ name, value }) => ({ type: find(files, entry, name), value })),
  );
  const found = new Set<string>();
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { type, value } = next;
    if (!type || seen.has(type)) continue;
    seen.add(type);
    for (const member of type.members) {
      if (member.startsWith('constructor') && !value) continue;
      const own = /^(?:readonly |async |get |static )*(\w+)\??\s*(?:<[^(]*>)?\s*[(:]/.exec(member)?.[1];
      if (own !== undefined && CALLBACK_NAME.test(own)) found.add(`${type.name}.${own}`);
      for (const [mentioned] of member.matchAll(/\b[A-Z]\w+/g)) {
        open.push({ type: find(files, type.file, mentioned), value: false });
      }
    }
  }
  return [...found].sort();
}

const declarations = new Map<SourceFile, Map<string, Declared>>();

/** The type that a name stands for in a file: declared there, or in the file that the name is imported from. */
function find(files: ReadonlyMap<string, SourceFile>, file: SourceFile, name: string): Declared | undefined {
  const own = declarations.get(file) ?? read(file);
  declarations.set(file, own);
  if (own.has(name)) return own.get(name);
  for (const [, names, specifier] of file.text.matchAll(/(?:import|export) (?:type )?\{([^}]*)\} from '(\.[^']+)'/g)) {
    if (!new RegExp(`\\b${name}\\b`).test(names!)) continue;
    const target = files.get(posix.join(posix.dirname(file.path), specifier!.replace(/\.js$/, '.ts')));
    return target && find(files, target, name);
  }
  return undefined;
}

/** Relies on the formatter: a type begins at the margin, its members two characters further in. */
function read(file: SourceFile): Map<string, Declared> {
  const types = new Map<string, Declared>();
  for (const [, name, body] of file.text.matchAll(/^(?:export )?(?:abstract )?(?:class|interface) (\w+)(.*?)^\}/gms)) {
    types.set(name!, { name: name!, file, members: [body!.split('\n')[0]!, ...membersOf(body!)] });
  }
  for (const [alias, name] of file.text.matchAll(/^(?:export )?type (\w+)\b.*?;\n(?=\n|\S|$)/gms)) {
    types.set(name!, { name: name!, file, members: [alias] });
  }
  return types;
}

function exportedNames(text: string): { name: string; value: boolean }[] {
  return [...text.matchAll(/export (type )?\{([^}]*)\}/g)].flatMap(([, typesOnly, names]) =>
    names!
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '')
      .map((one) => ({ name: one.replace(/^type /, ''), value: !typesOnly && !one.startsWith('type ') })),
  );
}

function membersOf(body: string): string[] {
  const members: string[] = [];
  let internal = false;
  for (const line of body.split('\n').slice(1)) {
    const [, start] = /^ {2}([^\s/*}#].*)$/.exec(line) ?? [];
    if (start === undefined) {
      if (line.includes('@internal')) internal = true;
      // The parameters of a signature that did not fit on one line.
      else if (members.length > 0 && /^ {4}\w+\??: /.test(line)) members[members.length - 1] += ` ${line.trim()}`;
      continue;
    }
    if (!internal && !/^(?:private |(?:readonly |async |static |get )*#)/.test(start)) members.push(start);
    internal = false;
  }
  return members;
}
