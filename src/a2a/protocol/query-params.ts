const INTEGERS: ReadonlySet<string> = new Set(['pageSize', 'historyLength']);
const FLAGS: ReadonlySet<string> = new Set(['includeArtifacts']);
/** Service parameters travel in the query too, and are no parameters of the operation. */
const SERVICE_PARAMETER = /^a2a-/i;

/**
 * The query of an HTTP+JSON request as the parameters that its reader takes. What does not look like a number or a
 * flag stays text, so that the reader says what is wrong with it.
 */
export function paramsOfQuery(query: URLSearchParams): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const [name, text] of query) {
    if (SERVICE_PARAMETER.test(name)) continue;
    if (INTEGERS.has(name)) params[name] = /^-?\d{1,15}$/.test(text) ? Number(text) : text;
    else if (FLAGS.has(name)) params[name] = text === 'true' ? true : text === 'false' ? false : text;
    else params[name] = text;
  }
  return params;
}
