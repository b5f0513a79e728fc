import { EclipticError } from '../../runtime/errors.js';
import { type AddressKind, addressKind, parseIpAddress } from './address.js';
import { parseTarget, type Resolve, systemResolve } from './target.js';

/** Kinds of addresses that occur together: a network that uses one of them may use all. */
const NETWORKS: readonly (readonly AddressKind[])[] = [
  ['loopback'],
  ['private', 'shared', 'unique-local'],
  ['link-local'],
];

/** The kinds of private addresses in use, judging by `ws://` addresses that the owner configured. */
export function kindsOf(addresses: readonly string[]): ReadonlySet<AddressKind> {
  const kinds = new Set<AddressKind>();
  for (const address of addresses) {
    for (const kind of NETWORKS.find((network) => network.includes(kindOf(address)!)) ?? []) kinds.add(kind);
  }
  return kinds;
}

/**
 * The addresses to dial for a `ws://` address that another node named. A private address is dialled only where the owner's
 * own addresses show that the mesh uses that kind. Throws `PEER_UNREACHABLE`.
 */
export async function dialable(
  address: string,
  allowed: ReadonlySet<AddressKind>,
  resolve: Resolve = systemResolve,
): Promise<readonly string[]> {
  const target = targetOf(address);
  const found = target.isAddress ? [target.host] : await resolve(target.host);
  for (const text of found) {
    const ip = parseIpAddress(text);
    const kind = ip && addressKind(ip);
    if (ip && (kind === undefined || allowed.has(kind))) continue;
    throw new EclipticError('PEER_UNREACHABLE', `${address} is not dialled: another node named it, and it is ${kind}`, {
      address,
      kind,
    });
  }
  return found;
}

function kindOf(address: string): AddressKind | undefined {
  // Such an address is not dialled either.
  if (!URL.canParse(address)) return undefined;
  const { host, isAddress, isLocalName } = targetOf(address);
  if (isLocalName) return host === 'localhost' || host.endsWith('.localhost') ? 'loopback' : 'private';
  const ip = isAddress ? parseIpAddress(host) : undefined;
  return ip && addressKind(ip);
}

function targetOf(address: string) {
  const { hostname } = new URL(address);
  return parseTarget(`http://${hostname}`);
}
