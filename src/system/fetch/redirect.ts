import { refused } from './fetch-errors.js';
import { parseTarget, type Target } from './target.js';

/** What one hop asks for. */
export interface Ask {
  readonly target: Target;
  readonly method: string;
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer | undefined;
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** What another origin may see. Any other header may be a credential: API keys have names of their own. */
const HARMLESS: ReadonlySet<string> = new Set([
  'a2a-extensions',
  'a2a-version',
  'accept',
  'accept-language',
  'cache-control',
  'content-language',
  'content-type',
  'user-agent',
]);

/** The next hop, if the answer sends us on; the rules are those of the Fetch standard, and a few more. */
export function redirected(
  ask: Ask,
  status: number,
  location: string | undefined,
  ports: readonly number[] | undefined,
): Ask | undefined {
  if (!REDIRECTS.has(status) || location === undefined) return undefined;
  const from = ask.target;
  const target = parseTarget(location, from, ports);
  const { origin } = target.url;
  if (from.secure && !target.secure) {
    throw refused('downgrade', `${from.url.origin} redirects from https to http`, { origin });
  }
  const toGet =
    (status === 303 && ask.method !== 'GET' && ask.method !== 'HEAD') || (status < 303 && ask.method === 'POST');
  const kept = [...ask.headers].filter(
    ([name]) => (origin === from.url.origin || HARMLESS.has(name)) && !(toGet && name.startsWith('content-')),
  );
  return {
    target,
    method: toGet ? 'GET' : ask.method,
    headers: new Map(kept),
    body: toGet ? undefined : ask.body,
  };
}
