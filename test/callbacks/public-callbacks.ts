import { sourceFiles } from '../source-files.js';

interface Declared {
  /** The members that a user of the type can see, one text each. */
  readonly members: readonly string[];
}

const CALLBACK_NAME = /^(?:on[A-Z]\w*|subscribe\w*|watch\w*|follow\w*|letterbox)$/;

/**
 * Every way, by `Type.member`, in which a program that embeds Ecliptic can have its own function called: the members
 * whose name says so, of all types that `src/index.ts` exports and of the types that the visible members of those
 * mention.
 */
export function publicCallbacks(): string[] {
  const { types, exported, values } = declarations();
  const seen = new Set<string>();
  const open = [...exported];
  const found = new Set<string>();
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const type = types.get(name);
    if (!type || seen.has(name)) continue;
    seen.add(name);
    for (const member of type.members) {
      if (member.startsWith('constructor') && !values.has(name)) continue;
      const own = /^(?:readonly |async |get |static )*(\w+)\??\s*(?:<[^(]*>)?\s*[(:]/.exec(member)?.[1];
      if (own !== undefined && CALLBACK_NAME.test(own)) found.add(`${name}.${own}`);
      for (const [mentioned] of member.matchAll(/\b[A-Z]\w+/g)) open.push(mentioned);
    }
  }
  return [...found].sort();
}

/** Reads what the formatter makes regular: a type begins at the margin, its members two characters further in. */
function declarations() {
  const types = new Map<string, Declared>();
  for (const { path, text } of sourceFiles('src')) {
    if (path.endsWith('.test.ts')) continue;
    for (const [, name, body] of text.matchAll(/^(?:export )?(?:abstract )?(?:class|interface) (\w+)(.*?)^\}/gms)) {
      types.set(name!, { members: [body!.split('\n')[0]!, ...membersOf(body!)] });
    }
    for (const [alias, name] of text.matchAll(/^(?:export )?type (\w+)\b.*?;\n(?=\n|\S|$)/gms)) {
      types.set(name!, { members: [alias] });
    }
  }
  const index = sourceFiles('src').find(({ path }) => path === 'src/index.ts')!.text;
  const exported = new Set<string>();
  const values = new Set<string>();
  for (const [, typesOnly, names] of index.matchAll(/export (type )?\{([^}]*)\}/g)) {
    for (const name of names!.split(',').map((one) => one.trim())) {
      const plain = name.replace(/^type /, '');
      if (plain === '') continue;
      exported.add(plain);
      if (!typesOnly && !name.startsWith('type ')) values.add(plain);
    }
  }
  return { types, exported, values };
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
