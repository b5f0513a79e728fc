import { createHash } from 'node:crypto';

/** For `allowPrivate`. */
export const LOOPBACK_RANGES: readonly string[] = ['127.0.0.0/8', '::1/128'];

export function isLoopbackHost(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname);
}

export interface Credentials {
  readonly bearer?: string;
  /** Other headers, such as an API key. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further origins that may receive them, if the agent's interfaces are not at the origin of its card. */
  readonly origins?: readonly string[];
}

/** Fixed, or asked for before each request. */
export type CredentialsOf = Credentials | (() => Promise<Credentials> | Credentials);

export async function currentCredentials(credentials: CredentialsOf = {}): Promise<Credentials> {
  return typeof credentials === 'function' ? credentials() : credentials;
}

export function credentialHeaders({ bearer, headers }: Credentials): Readonly<Record<string, string>> {
  return { ...headers, ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }) };
}

/**
 * The headers for a URL on a card. Credentials are meant for the card's origin: a card that names another one does not
 * receive them.
 */
export function credentialsFor(
  url: string,
  cardUrl: string,
  credentials: Credentials,
): Readonly<Record<string, string>> {
  const allowed = [cardUrl, ...(credentials.origins ?? [])];
  return allowed.some((origin) => isSamePlace(url, origin)) ? credentialHeaders(credentials) : {};
}

/** As `credentialsFor`, for a gRPC interface: it has a port of its own, so the host of the card counts. */
export function credentialsForGrpc(
  address: string,
  cardUrl: string,
  credentials: Credentials,
): Readonly<Record<string, string>> {
  const place = hostOf(/^[a-z]+:\/\//i.test(address) ? address : `grpc://${address}`);
  const allowed = [cardUrl, ...(credentials.origins ?? [])].map(hostOf);
  return place !== undefined && allowed.includes(place) ? credentialHeaders(credentials) : {};
}

/** All names of this machine are one. */
function hostOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const { hostname } = new URL(url);
  return isLoopbackHost(hostname) ? 'localhost' : hostname;
}

/** A cache key that does not reveal the credentials. */
export function credentialsKey(credentials: Credentials): string {
  const headers = Object.entries(credentialHeaders(credentials)).sort(([a], [b]) => (a < b ? -1 : 1));
  return headers.length === 0 ? '' : createHash('sha256').update(JSON.stringify(headers)).digest('base64url');
}

/** Loopback names with one port are the same server: users type `localhost` where a card says `127.0.0.1`. */
export function isSamePlace(one: string, other: string): boolean {
  if (!URL.canParse(one) || !URL.canParse(other)) return false;
  const [a, b] = [new URL(one), new URL(other)];
  if (a.origin === b.origin) return true;
  return a.protocol === b.protocol && a.port === b.port && isLoopbackHost(a.hostname) && isLoopbackHost(b.hostname);
}
