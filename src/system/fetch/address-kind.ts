import { type IpAddress, type IpRange, inRange, parseIpRange } from './ip-address.js';

/** Why an address is not a place on the public Internet. */
export type AddressKind =
  | 'benchmark'
  | 'documentation'
  | 'link-local'
  | 'loopback'
  | 'metadata'
  | 'multicast'
  | 'private'
  | 'reserved'
  | 'shared'
  | 'unique-local'
  | 'unspecified';

/** From the IANA special-purpose address registries; the first that fits counts. */
const SPECIAL: readonly (readonly [IpRange, AddressKind])[] = (
  [
    ['0.0.0.0/8', 'unspecified'],
    ['10.0.0.0/8', 'private'],
    ['100.64.0.0/10', 'shared'],
    ['127.0.0.0/8', 'loopback'],
    // Azure gives this public-looking address to every virtual machine as a door to its host.
    ['168.63.129.16/32', 'metadata'],
    ['169.254.0.0/16', 'link-local'],
    ['172.16.0.0/12', 'private'],
    ['192.0.0.0/24', 'reserved'],
    ['192.0.2.0/24', 'documentation'],
    ['192.88.99.0/24', 'reserved'],
    ['192.168.0.0/16', 'private'],
    ['198.18.0.0/15', 'benchmark'],
    ['198.51.100.0/24', 'documentation'],
    ['203.0.113.0/24', 'documentation'],
    ['224.0.0.0/4', 'multicast'],
    ['240.0.0.0/4', 'reserved'],
    ['::/128', 'unspecified'],
    ['::1/128', 'loopback'],
    ['100::/64', 'reserved'],
    ['2001:2::/48', 'benchmark'],
    ['2001:db8::/32', 'documentation'],
    ['3fff::/20', 'documentation'],
    ['fc00::/7', 'unique-local'],
    ['fe80::/10', 'link-local'],
    // Site-local: deprecated, but still somebody's inside.
    ['fec0::/10', 'private'],
    ['ff00::/8', 'multicast'],
  ] as const
).map(([range, kind]) => [parseIpRange(range)!, kind]);

const NAT64 = parseIpRange('64:ff9b::/96')!;
const GLOBAL_UNICAST = parseIpRange('2000::/3')!;
const TEREDO = parseIpRange('2001::/32')!;
const PROTOCOL_ASSIGNMENTS = parseIpRange('2001::/23')!;
const SIX_TO_FOUR = parseIpRange('2002::/16')!;
const ISATAP: ReadonlySet<bigint> = new Set([0x0000_5efen, 0x0200_5efen]);

/** What keeps the address from being public, or nothing. */
export function addressKind(address: IpAddress): AddressKind | undefined {
  const special = SPECIAL.find(([range]) => inRange(address, range));
  if (special) return special[1];
  if (address.family === 4) return undefined;
  if (!inRange(address, GLOBAL_UNICAST) && !inRange(address, NAT64)) return 'reserved';
  if (inRange(address, PROTOCOL_ASSIGNMENTS) && !inRange(address, TEREDO)) return 'reserved';
  // A gateway on the way may unpack these: the packet then goes where the IPv4 address inside says.
  for (const inner of embedded(address.value, address)) {
    const kind = addressKind({ family: 4, value: inner & 0xffff_ffffn });
    if (kind) return kind;
  }
  return undefined;
}

/** IPv4 addresses that an IPv6 address carries inside. */
function embedded(value: bigint, address: IpAddress): bigint[] {
  if (inRange(address, NAT64)) return [value];
  if (inRange(address, SIX_TO_FOUR)) return [value >> 80n];
  // Teredo: the server, and the client with its bits turned over.
  if (inRange(address, TEREDO)) return [value >> 64n, ~value];
  return ISATAP.has((value >> 32n) & 0xffff_ffffn) ? [value] : [];
}
