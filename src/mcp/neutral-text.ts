/**
 * Text that a person would not see, or see in another order, while a model reads it: control characters, zero-width
 * and bidirectional marks, tags, and whatever else has no shape. Line breaks, tabs and the shape of emoji stay.
 */
const HIDDEN = /(?:(?!\n|\t|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}])+/u;
const EVERY_HIDDEN = new RegExp(HIDDEN, 'gu');

/** Keys of a schema whose text is there to be read, and means nothing else. */
const READ_ONLY_KEYS: ReadonlySet<string> = new Set(['title', 'description', '$comment']);

export function hasHidden(text: string): boolean {
  return HIDDEN.test(text);
}

/** Each run of hidden characters becomes one visible mark. A line break of Windows stays a line break. */
export function neutralText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(EVERY_HIDDEN, '\ufffd');
}

/** The same where it hides, for people to see. */
export function revealed(text: string): string {
  return text.replace(EVERY_HIDDEN, (run) =>
    [...run].map((character) => `\\u{${character.codePointAt(0)!.toString(16)}}`).join(''),
  );
}

/**
 * A definition with its descriptions neutralised. `spoiled` says where hidden text stands in something that would
 * mean something else without it, such as a name or a value.
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
