import { isIP } from 'node:net';

export interface IpAddress {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** All addresses that begin with the same bits. */
export interface IpRange {
  readonly family: 4 | 6;
  /** The leading bits, shifted down. */
  readonly prefix: bigint;
  /** Number of bits behind the prefix. */
  readonly rest: bigint;
}

/** An IPv4-mapped IPv6 address (`::ffff:a.b.c.d`) is read as the IPv4 address that is used on the wire. */
export function parseIpAddress(text: string): IpAddress | undefined {
  const zone = text.indexOf('%');
  const bare = zone < 0 ? text : text.slice(0, zone);
  const family = isIP(bare);
  if (family === 4) return { family: 4, value: ipv4Value(bare) };
  if (family !== 6) return undefined;
  const value = ipv6Value(bare);
  return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value };
}

/** Such as `10.0.0.0/8` or `fd00::/8`. Undefined where bits are set behind the prefix. */
export function parseIpRange(text: string): IpRange | undefined {
  const [base = '', length = '', more] = text.split('/');
  const address = base.includes('%') ? undefined : parseIpAddress(base);
  if (!address || more !== undefined || !/^\d{1,3}$/.test(length)) return undefined;
  const width = address.family === 4 ? 32n : 128n;
  const bits = BigInt(length);
  // The prefix of an IPv4-mapped range is ambiguous.
  if (bits > width || (address.family === 4 && base.includes(':'))) return undefined;
  const rest = width - bits;
  const prefix = address.value >> rest;
  return prefix << rest === address.value ? { family: address.family, prefix, rest } : undefined;
}

export function inRange(address: IpAddress, range: IpRange): boolean {
  return address.family === range.family && address.value >> range.rest === range.prefix;
}

function ipv4Value(text: string): bigint {
  return text.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n);
}

function ipv6Value(text: string): bigint {
  const [head = '', tail] = text.split('::');
  const before = groups(head);
  const after = groups(tail ?? '');
  const gap = Array<bigint>(8 - before.length - after.length).fill(0n);
  return [...before, ...gap, ...after].reduce((value, group) => (value << 16n) | group, 0n);
}

/** Groups of 16 bits; the last two may be written as an IPv4 address. */
function groups(text: string): bigint[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)];
    const value = ipv4Value(group);
    return [value >> 16n, value & 0xffffn];
  });
}

/** Kinds of addresses that are not on the public Internet. */
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

/** From the IANA special-purpose address registries; the first match counts. */
const SPECIAL = [
  ['0.0.0.0/8', 'unspecified'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'shared'],
  ['127.0.0.0/8', 'loopback'],
  // Azure's virtual machines reach their host at this public-looking address.
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
  // Site-local: deprecated, but still in use.
  ['fec0::/10', 'private'],
  ['ff00::/8', 'multicast'],
] as const satisfies readonly (readonly [string, AddressKind])[];

/** Read with their first use: most of the time goes into Node's pattern of IPv6 addresses. */
let ranges: ReturnType<typeof readRanges> | undefined;

function readRanges() {
  const special = SPECIAL.map(([range, kind]) => [parseIpRange(range)!, kind] as const);
  return {
    special,
    nat64: parseIpRange('64:ff9b::/96')!,
    globalUnicast: parseIpRange('2000::/3')!,
    teredo: parseIpRange('2001::/32')!,
    protocolAssignments: parseIpRange('2001::/23')!,
    sixToFour: parseIpRange('2002::/16')!,
  };
}

const ISATAP: ReadonlySet<bigint> = new Set([0x0000_5efen, 0x0200_5efen]);

/** Undefined for a public address. */
export function addressKind(address: IpAddress): AddressKind | undefined {
  ranges ??= readRanges();
  const special = ranges.special.find(([range]) => inRange(address, range));
  if (special) return special[1];
  if (address.family === 4) return undefined;
  if (!inRange(address, ranges.globalUnicast) && !inRange(address, ranges.nat64)) return 'reserved';
  if (inRange(address, ranges.protocolAssignments) && !inRange(address, ranges.teredo)) return 'reserved';
  // A gateway may unpack these and send the packet to the embedded IPv4 address.
  for (const inner of embedded(address, ranges)) {
    const kind = addressKind({ family: 4, value: inner & 0xffff_ffffn });
    if (kind) return kind;
  }
  return undefined;
}

/** IPv4 addresses embedded in an IPv6 address. */
function embedded(address: IpAddress, { nat64, sixToFour, teredo }: ReturnType<typeof readRanges>): bigint[] {
  const { value } = address;
  if (inRange(address, nat64)) return [value];
  if (inRange(address, sixToFour)) return [value >> 80n];
  // Teredo: the server, and the client with inverted bits.
  if (inRange(address, teredo)) return [value >> 64n, ~value];
  return ISATAP.has((value >> 32n) & 0xffff_ffffn) ? [value] : [];
}
