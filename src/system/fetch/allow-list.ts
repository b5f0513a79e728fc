import { EclipticError } from '../../runtime/errors.js';
import type { AddressKind } from './address-kind.js';
import { type IpAddress, type IpRange, inRange, parseIpAddress, parseIpRange } from './ip-address.js';
import { parseTarget, type Target } from './target.js';

/**
 * What may be fetched although it is not public: nothing (`false`), everything inside (`true`), or the listed
 * `host:port` pairs and address ranges (`10.1.0.0/16`, `fd00::/8`).
 */
export type AllowPrivate = boolean | readonly string[];

/** Where people run servers. The other kinds are open to nobody, unless a range is listed that has them. */
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

  /** `kind` is what is wrong with the address; none means that only the name is not public. */
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
    // Written in full: a scheme's own port would be a guess.
    if (/^[^/?#@\\\s]+:\d{1,5}$/.test(entry)) return parseTarget(`http://${entry}`);
  } catch {
    // What cannot be fetched cannot be listed either.
  }
  const message = 'allowPrivate has an entry that is neither host:port nor an address range';
  throw new EclipticError('INVALID_CONFIG', message, { faults: [entry] });
}
