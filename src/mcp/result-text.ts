/** A tool's result, as far as it is looked at here. */
interface Result {
  readonly content: readonly { readonly type: string }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

/**
 * Gives a result's structured data as text too, unless a text says it already: several clients show their model the
 * content alone.
 */
export function withStructuredText<T extends object>(result: T): T {
  const { content, structuredContent } = result as Partial<Result>;
  if (structuredContent === undefined || !Array.isArray(content)) return result;
  const json = JSON.stringify(structuredContent);
  if (content.some((block) => saysJson(block, json))) return result;
  return { ...result, content: [...content, { type: 'text', text: json }] };
}

/**
 * A result that is content alone, and marked as an error in words: other clients show their model the structured data
 * alone, and some show no mark of an error.
 */
export function asContent<T extends object>(result: T): T {
  const { structuredContent: _, ...rest } = withStructuredText(result) as T & Partial<Result>;
  const { content, isError } = rest as Partial<Result>;
  if (isError !== true || !Array.isArray(content) || content.some(saysError)) return rest as T;
  return { ...rest, content: [{ type: 'text', text: FAILED }, ...content] } as T;
}

const FAILED = 'Error HANDLER_FAILED: the tool reports that it failed';

function saysError(block: { type: string; text?: unknown }): boolean {
  return block.type === 'text' && /^Error [A-Z_]+: /.test(String(block.text));
}

function saysJson(block: { type: string; text?: unknown }, json: string): boolean {
  if (block.type !== 'text' || typeof block.text !== 'string') return false;
  if (block.text === json) return true;
  // Written with other white space; a text that is much longer says something else.
  if (block.text.length < json.length || !/^\s*[[{]/.test(block.text)) return false;
  try {
    return JSON.stringify(JSON.parse(block.text)) === json;
  } catch {
    return false;
  }
}

/** Everything in a result that can be said in words. */
export function textsOf(content: readonly object[]): string[] {
  return content.map((block) => {
    const { type, text, uri, name, description, mimeType, resource } = block as Readonly<Record<string, unknown>>;
    if (type === 'text') return String(text);
    if (type === 'resource_link') return `[resource ${name}: ${uri}${description ? ` (${description})` : ''}]`;
    const { text: inside, uri: at } = (resource ?? {}) as { text?: unknown; uri?: unknown };
    if (type === 'resource') return inside === undefined ? `[resource ${at}, not text]` : `[resource ${at}]\n${inside}`;
    return `[${type}${mimeType ? ` ${mimeType}` : ''}, not text]`;
  });
}
