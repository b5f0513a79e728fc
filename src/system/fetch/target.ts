import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { EclipticError } from '../../runtime/errors.js';
import {
  type AddressKind,
  addressKind,
  type IpAddress,
  type IpRange,
  inRange,
  parseIpAddress,
  parseIpRange,
} from './address.js';
import { causeOf, failed, refused } from './fetch-errors.js';

const MAX_URL_LENGTH = 8_192;

/** Names that never mean a place on the public Internet (RFC 6761, 6762, 8375, ICANN's `.internal`). */
const LOCAL_SUFFIXES = ['localhost', 'localdomain', 'local', 'internal', 'home.arpa'];

/** A parsed URL. Nothing parses the URL's text again after this, so that no second parser can disagree. */
export interface Target {
  readonly url: URL;
  readonly secure: boolean;
  /** A name without its trailing dot, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  readonly isAddress: boolean;
  /** Is it a name for local networks only? */
  readonly isLocalName: boolean;
}

/** Reads a URL, or one relative to `base`. The standard parser normalises every odd spelling of an address. */
export function parseTarget(input: string | URL, base?: Target, ports?: readonly number[]): Target {
  const url = parse(String(input), base?.url);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refused('scheme', 'only http and https URLs are fetched');
  }
  const { origin } = url;
  if (url.username !== '' || url.password !== '') {
    throw refused('userinfo', `the URL at ${origin} has a user or password in it`, { origin });
  }
  url.hash = '';
  const secure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$|\.$/g, '');
  const isAddress = isIP(host) !== 0;
  if (!isAddress && (host.length > 253 || host.split('.').some((label) => label === '' || label.length > 63))) {
    throw refused('name', 'the host of the URL is not a valid name', { origin });
  }
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port);
  if (port === 0 || (ports && !ports.includes(port))) {
    throw refused('port', `port ${port} may not be fetched from`, { origin, port });
  }
  return { url, secure, host, port, isAddress, isLocalName: !isAddress && isLocal(host) };
}

function parse(input: string, base: URL | undefined): URL {
  // The parser's error would contain the whole URL.
  const url = input.length <= MAX_URL_LENGTH && URL.canParse(input, base?.href) ? new URL(input, base) : undefined;
  if (!url || url.href.length > MAX_URL_LENGTH) throw refused('url', 'the URL is invalid');
  return url;
}

function isLocal(host: string): boolean {
  return LOCAL_SUFFIXES.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));
}

/**
 * Exceptions for private addresses: none (`false`), every address of a local network (`true`), or the listed
 * `host:port` pairs and address ranges (`10.1.0.0/16`, `fd00::/8`).
 */
export type AllowPrivate = boolean | readonly string[];

/** Kinds on which people run servers. The other kinds need a listed range. */
const INSIDE: ReadonlySet<AddressKind> = new Set(['link-local', 'loopback', 'private', 'shared', 'unique-local']);

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

export class AllowList {
  readonly #all: boolean;
  readonly #endpoints: Endpoint[] = [];
  readonly #ranges: IpRange[] = [];

  constructor(allow: AllowPrivate = false) {
    this.#all = allow === true;
    for (const entry of typeof allow === 'boolean' ? [] : allow) {
      const range = parseIpRange(entry);
      if (range) this.#ranges.push(range);
      else this.#endpoints.push(parseEndpoint(entry));
    }
  }

  get isEmpty(): boolean {
    return !this.#all && this.#endpoints.length === 0 && this.#ranges.length === 0;
  }

  /** `kind` is undefined where only the name is local. */
  allows(target: Target, address: IpAddress, kind: AddressKind | undefined): boolean {
    if (this.#ranges.some((range) => inRange(address, range))) return true;
    if (kind && !INSIDE.has(kind)) return false;
    return this.#all || this.#endpoints.some(({ host, port }) => port === target.port && isAt(host, target, address));
  }
}

function isAt(host: string, target: Target, address: IpAddress): boolean {
  if (host === target.host) return true;
  const listed = parseIpAddress(host);
  return listed !== undefined && listed.family === address.family && listed.value === address.value;
}

function parseEndpoint(entry: string): Endpoint {
  try {
    // The port must be given: the default port of a scheme would be a guess.
    if (/^[^/?#@\\\s]+:\d{1,5}$/.test(entry)) return parseTarget(`http://${entry}`);
  } catch {
    // Reported below.
  }
  const message = `"${entry}" in allowPrivate is neither host:port nor an address range`;
  throw new EclipticError('INVALID_CONFIG', message, { faults: [entry] });
}

/** The `host:port` of a URL; of a URL on this machine, with every name of the machine, since a card may use another one. */
export function placesOf(url: string): string[] {
  const { host, port } = parseTarget(url);
  if (isLoopback(host)) return ['localhost', '127.0.0.1', '[::1]'].map((name) => `${name}:${port}`);
  return [`${host.includes(':') ? `[${host}]` : host}:${port}`];
}

/** Does a host of a URL, without brackets, mean this machine? */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** All addresses of a name. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** The system's resolver, so that `/etc/hosts` counts too. */
export const systemResolve: Resolve = async (host) =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

/**
 * The addresses to connect to. They are resolved once and then used as they are, so that a name cannot resolve to one
 * address for the check and to another for the connection. One forbidden address forbids all.
 */
export async function resolveTarget(target: Target, allow: AllowList, resolve: Resolve): Promise<readonly string[]> {
  const { origin } = target.url;
  if (target.isLocalName && allow.isEmpty) throw localName(origin);
  const addresses = target.isAddress ? [target.host] : await ask(target, resolve);
  for (const text of addresses) {
    const address = parseIpAddress(text);
    if (!address) throw failed({ origin, cause: 'ENOTFOUND', sent: false });
    const kind = addressKind(address);
    if ((!kind && !target.isLocalName) || allow.allows(target, address, kind)) continue;
    // The address itself is not disclosed: it may be private.
    if (kind) throw refused('address', `${origin} may not be fetched: its address is ${kind}`, { origin, kind });
    throw localName(origin);
  }
  return addresses;
}

async function ask(target: Target, resolve: Resolve): Promise<readonly string[]> {
  const { origin } = target.url;
  let addresses: readonly string[];
  try {
    addresses = await resolve(target.url.hostname);
  } catch (error) {
    throw failed({ origin, cause: causeOf(error), sent: false });
  }
  if (addresses.length === 0) throw failed({ origin, cause: 'ENOTFOUND', sent: false });
  return addresses;
}

function localName(origin: string) {
  return refused('name', `${origin} may not be fetched: its name is a local one`, { origin });
}
