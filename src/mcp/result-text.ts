interface Result {
  readonly content: readonly { readonly type: string }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

/**
 * Adds structured data as text, unless a text block has it already: several clients show their model the content only.
 */
export function withStructuredText<T extends object>(result: T): T {
  const { content, structuredContent } = result as Partial<Result>;
  if (structuredContent === undefined || !Array.isArray(content)) return result;
  const json = JSON.stringify(structuredContent);
  if (content.some((block) => saysJson(block, json))) return result;
  return { ...result, content: [...content, { type: 'text', text: json }] };
}

/**
 * A result that every client shows its model in full, with errors marked in the text: some clients show no other mark.
 */
export function asContent<T extends object>(result: T): T {
  const seen = withWordsSeen(result, {});
  const { structuredContent: _, ...rest } = seen as T & Partial<Result>;
  const { content, isError } = rest as Partial<Result>;
  if (isError !== true || !Array.isArray(content)) return seen;
  return (content.some(saysError) ? rest : { ...rest, content: [{ type: 'text', text: FAILED }, ...content] }) as T;
}

/**
 * A tool result for an MCP client. Several clients show their model only the structured data if there is some, so it is
 * removed where the content says more, unless the tool's schema promises it. An error promises none.
 */
export function withWordsSeen<T extends object>(result: T, { outputSchema }: { outputSchema?: unknown }): T {
  const { content, structuredContent, isError } = result as Partial<Result>;
  if (structuredContent === undefined || !Array.isArray(content)) return result;
  if (outputSchema !== undefined && isError !== true) return result;
  // One block of JSON repeats the structured data, and says nothing more.
  if (content.length === 1 && isJson(content[0])) return result;
  const { structuredContent: _, ...rest } = withStructuredText(result) as T & Partial<Result>;
  return rest as T;
}

const FAILED = 'Error HANDLER_FAILED: the tool reports that it failed';

function saysError(block: { type: string; text?: unknown }): boolean {
  return block.type === 'text' && /^Error [A-Z_]+: /.test(String(block.text));
}

function saysJson(block: { type: string; text?: unknown }, json: string): boolean {
  if (block.type !== 'text' || typeof block.text !== 'string') return false;
  if (block.text === json) return true;
  // The same data with other white space; a much longer text is something else.
  if (block.text.length < json.length || !isJson(block)) return false;
  try {
    return JSON.stringify(JSON.parse(block.text)) === json;
  } catch {
    return false;
  }
}

function isJson({ type, text }: { type: string; text?: unknown }): boolean {
  return type === 'text' && typeof text === 'string' && /^\s*[[{]/.test(text);
}

/** The text of each content block, or a note about a block that is not text. */
export function textsOf(content: readonly object[]): string[] {
  return content.map((block) => {
    // What a block of another server holds need not be text, nor be convertible to it.
    const texts = Object.entries(block).filter(([, value]) => typeof value === 'string');
    const { type, text = '', uri, name, description, mimeType } = Object.fromEntries(texts) as Record<string, string>;
    const { resource } = block as { resource?: unknown };
    if (type === 'text') return text;
    if (type === 'resource_link') return `[resource ${name}: ${uri}${description ? ` (${description})` : ''}]`;
    const { text: inside, uri: at } = (resource ?? {}) as { text?: unknown; uri?: unknown };
    if (type === 'resource')
      return typeof inside !== 'string' ? `[resource ${at}, not text]` : `[resource ${at}]\n${inside}`;
    return `[${type}${mimeType ? ` ${mimeType}` : ''}, not text]`;
  });
}
