import { createHash } from 'node:crypto';

/** Ranges of addresses that lead back to this machine, for `allowPrivate`. */
export const LOOPBACK_RANGES: readonly string[] = ['127.0.0.0/8', '::1/128'];

/** Is a URL's host this machine, as it is written? */
export function isLoopbackHost(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname);
}

/** What a caller proves itself with. */
export interface Credentials {
  readonly bearer?: string | undefined;
  /** Any other headers that the agent asks for, such as an API key. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Further origins that they are for, where an agent's interfaces are not where its card is. */
  readonly origins?: readonly string[] | undefined;
}

/** As they are, or where to ask for them before each request. */
export type CredentialsOf = Credentials | (() => Promise<Credentials> | Credentials);

export async function currentCredentials(credentials: CredentialsOf = {}): Promise<Credentials> {
  return typeof credentials === 'function' ? credentials() : credentials;
}

export function credentialHeaders({ bearer, headers }: Credentials): Readonly<Record<string, string>> {
  return { ...headers, ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }) };
}

/**
 * The headers for a URL that a card names. The caller meant them for where the card is: a card that names another place
 * does not get them sent there.
 */
export function credentialsFor(
  url: string,
  cardUrl: string,
  credentials: Credentials,
): Readonly<Record<string, string>> {
  const allowed = [cardUrl, ...(credentials.origins ?? [])];
  return allowed.some((origin) => isSamePlace(url, origin)) ? credentialHeaders(credentials) : {};
}

/** Tells callers apart without keeping what they prove themselves with. */
export function credentialsKey(credentials: Credentials): string {
  const headers = Object.entries(credentialHeaders(credentials)).sort(([a], [b]) => (a < b ? -1 : 1));
  return headers.length === 0 ? '' : createHash('sha256').update(JSON.stringify(headers)).digest('base64url');
}

/** The loopback names of one port mean the same server: people type `localhost` where a card says `127.0.0.1`. */
export function isSamePlace(one: string, other: string): boolean {
  if (!URL.canParse(one) || !URL.canParse(other)) return false;
  const [a, b] = [new URL(one), new URL(other)];
  if (a.origin === b.origin) return true;
  return a.protocol === b.protocol && a.port === b.port && isLoopbackHost(a.hostname) && isLoopbackHost(b.hostname);
}
