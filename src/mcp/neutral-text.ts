/**
 * Text that a model reads and a person does not see, or sees in another order: control characters, zero-width and
 * bidirectional marks, tags, and other characters without a shape. Line breaks, tabs and emoji variants stay.
 */
const HIDDEN = /(?:(?!\n|\t|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}])+/u;
const EVERY_HIDDEN = new RegExp(HIDDEN, 'gu');

/** Keys of a schema whose text is only read by people and models. */
const READ_ONLY_KEYS: ReadonlySet<string> = new Set(['title', 'description', '$comment']);

export function hasHidden(text: string): boolean {
  return HIDDEN.test(text);
}

/** Replaces each run of hidden characters with one visible mark. */
export function neutralText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(EVERY_HIDDEN, '\ufffd');
}

/** Shows hidden characters as escapes, for people. */
export function revealed(text: string): string {
  return text.replace(EVERY_HIDDEN, (run) =>
    [...run].map((character) => `\\u{${character.codePointAt(0)!.toString(16)}}`).join(''),
  );
}

/**
 * A definition with its descriptions neutralised. `spoiled` is the path of hidden text in a name or value, which cannot
 * be changed without changing its meaning.
 */
export function neutralise<T>(definition: T): { readonly value: T; readonly spoiled: string | undefined } {
  let spoiled: string | undefined;
  const visit = (value: unknown, path: string, key: string): unknown => {
    if (typeof value === 'string') {
      if (READ_ONLY_KEYS.has(key)) return neutralText(value);
      if (hasHidden(value)) spoiled ??= path;
      return value;
    }
    if (Array.isArray(value)) return value.map((member, index) => visit(member, `${path}.${index}`, ''));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => {
        if (hasHidden(name)) spoiled ??= `${path}.${revealed(name)}`;
        return [name, visit(member, `${path}.${name}`, name)];
      }),
    );
  };
  const value = visit(definition, '', '') as T;
  return { value, spoiled: spoiled?.slice(1) };
}
