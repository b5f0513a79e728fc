export type XmlEvent =
  | { readonly type: 'open'; readonly name: string; readonly attributes: Readonly<Record<string, string>> }
  | { readonly type: 'close'; readonly name: string }
  | { readonly type: 'text'; readonly text: string };

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };
const MAX_TAG_CHARS = 1_048_576;

/**
 * Reads the elements and texts of an XML document. Entities that a document declares are not expanded, so that none can
 * grow; what is not well-formed is passed over.
 */
export function* readXml(text: string): Generator<XmlEvent> {
  let at = 0;
  while (at < text.length) {
    const open = text.indexOf('<', at);
    if (open < 0) return;
    if (open > at) yield { type: 'text', text: decoded(text.slice(at, open)) };
    if (text.startsWith('<!--', open)) at = after(text, '-->', open);
    else if (text.startsWith('<![CDATA[', open)) {
      const end = text.indexOf(']]>', open);
      yield { type: 'text', text: text.slice(open + 9, end < 0 ? text.length : end) };
      at = after(text, ']]>', open);
    } else if (text[open + 1] === '?' || text[open + 1] === '!') at = after(text, '>', open);
    else {
      const end = endOfTag(text, open + 1);
      const tag = text.slice(open + 1, end);
      at = end + 1;
      const name = /^\/?\s*([\w:.-]{1,200})/.exec(tag)?.[1];
      if (name === undefined) continue;
      if (tag.startsWith('/')) yield { type: 'close', name };
      else {
        yield { type: 'open', name, attributes: attributesOf(tag.slice(name.length)) };
        if (tag.endsWith('/')) yield { type: 'close', name };
      }
    }
  }
}

function after(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found + mark.length;
}

/** A `>` within a quoted value does not end the tag. */
function endOfTag(text: string, start: number): number {
  let quote = '';
  const limit = Math.min(text.length, start + MAX_TAG_CHARS);
  for (let at = start; at < limit; at++) {
    const char = text[at]!;
    if (quote !== '') quote = char === quote ? '' : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === '>') return at;
  }
  return limit;
}

function attributesOf(tag: string): Record<string, string> {
  const found: [string, string][] = [];
  for (const [, name, double, single] of tag.matchAll(/([\w:.-]{1,200})\s{0,8}=\s{0,8}(?:"([^"]*)"|'([^']*)')/g)) {
    found.push([name!, decoded(double ?? single ?? '')]);
  }
  return Object.fromEntries(found);
}

function decoded(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-fA-F]{1,6})|(\w{1,10}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
