import { isIP } from 'node:net';
import { refused } from './fetch-errors.js';

const MAX_URL_LENGTH = 8_192;

/** Names that never mean a place on the public Internet (RFC 6761, 6762, 8375, ICANN's `.internal`). */
const LOCAL_SUFFIXES = ['localhost', 'localdomain', 'local', 'internal', 'home.arpa'];

/** One place to fetch from, as the URL standard understands it: nothing reads the URL's text again after this. */
export interface Target {
  readonly url: URL;
  readonly secure: boolean;
  /** A name without its trailing dot, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  readonly isAddress: boolean;
  /** Is it a name that only means something inside? */
  readonly isLocalName: boolean;
}

/** Reads a URL, or one relative to `base`; the standard's own parser undoes every odd spelling of an address. */
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
    throw refused('name', 'the URL’s host is no name', { origin });
  }
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port);
  if (port === 0 || (ports && !ports.includes(port))) {
    throw refused('port', `port ${port} may not be fetched from`, { origin, port });
  }
  return { url, secure, host, port, isAddress, isLocalName: !isAddress && isLocal(host) };
}

function parse(input: string, base: URL | undefined): URL {
  // The parser's own error holds the whole URL, so it goes no further.
  const url = input.length <= MAX_URL_LENGTH && URL.canParse(input, base?.href) ? new URL(input, base) : undefined;
  if (!url || url.href.length > MAX_URL_LENGTH) throw refused('url', 'that is no URL that can be fetched');
  return url;
}

function isLocal(host: string): boolean {
  return LOCAL_SUFFIXES.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));
}
