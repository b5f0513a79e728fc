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
  /** How many bits of an address are not part of the prefix. */
  readonly rest: bigint;
}

/** The address as what it is on the wire: an IPv4 address in IPv6 clothes (`::ffff:a.b.c.d`) is an IPv4 address. */
export function parseIpAddress(text: string): IpAddress | undefined {
  const zone = text.indexOf('%');
  const bare = zone < 0 ? text : text.slice(0, zone);
  const family = isIP(bare);
  if (family === 4) return { family: 4, value: ipv4Value(bare) };
  if (family !== 6) return undefined;
  const value = ipv6Value(bare);
  return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value };
}

/** `10.0.0.0/8`, `fd00::/8`; a range never has bits set behind its prefix. */
export function parseIpRange(text: string): IpRange | undefined {
  const [base = '', length = '', more] = text.split('/');
  const address = base.includes('%') ? undefined : parseIpAddress(base);
  if (!address || more !== undefined || !/^\d{1,3}$/.test(length)) return undefined;
  const width = address.family === 4 ? 32n : 128n;
  const bits = BigInt(length);
  // IPv4 in IPv6 clothes has two ways to count the bits.
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
