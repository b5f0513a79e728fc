import { BlockList } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressKind, parseIpAddress, parseIpRange } from './address.js';

/** Node's own range arithmetic, and the registries written out a second time. */
const v4 = blockList('ipv4', [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]);
/** Everything outside 2000::/3, in which there is nothing public but what carries IPv4; and the exceptions inside. */
const v6 = blockList('ipv6', [
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  ['2001:1::', 32],
  ['2001:2::', 31],
  ['2001:4::', 30],
  ['2001:8::', 29],
  ['2001:10::', 28],
  ['2001:20::', 27],
  ['2001:40::', 26],
  ['2001:80::', 25],
  ['2001:100::', 24],
  ['2001:db8::', 32],
  ['3fff::', 20],
]);

const word = fc.integer({ min: 0, max: 0xffff_ffff });
/** Near the edges of ranges as often as anywhere. */
const ipv4 = fc.oneof(
  word,
  fc
    .tuple(
      fc.constantFrom(
        '0.0.0.0',
        '10.0.0.0',
        '11.0.0.0',
        '100.64.0.0',
        '100.128.0.0',
        '127.0.0.0',
        '128.0.0.0',
        '168.63.129.16',
        '169.254.0.0',
        '169.255.0.0',
        '172.16.0.0',
        '172.32.0.0',
        '192.0.0.0',
        '192.0.1.0',
        '192.0.2.0',
        '192.0.3.0',
        '192.88.99.0',
        '192.168.0.0',
        '192.169.0.0',
        '198.18.0.0',
        '198.20.0.0',
        '198.51.100.0',
        '203.0.113.0',
        '224.0.0.0',
        '240.0.0.0',
      ),
      fc.integer({ min: -2, max: 2 }),
    )
    .map(([base, by]) => (Number(parseIpAddress(base)!.value) + by) >>> 0),
);
const group = fc.integer({ min: 0, max: 0xffff });

describe('an address', () => {
  it.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.255', 'loopback'],
    ['0.0.0.0', 'unspecified'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['169.254.169.254', 'link-local'],
    ['100.100.100.200', 'shared'],
    ['168.63.129.16', 'metadata'],
    ['192.0.0.192', 'reserved'],
    ['198.19.0.1', 'benchmark'],
    ['192.0.2.1', 'documentation'],
    ['239.1.1.1', 'multicast'],
    ['255.255.255.255', 'reserved'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['fec0::1', 'private'],
    ['fd00:ec2::254', 'unique-local'],
    ['ff02::1', 'multicast'],
    ['2001:db8::1', 'documentation'],
    ['3fff:fff::1', 'documentation'],
    ['2001:2::1', 'benchmark'],
    ['2001:20::1', 'reserved'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['::127.0.0.1', 'reserved'],
    ['::ffff:0:127.0.0.1', 'reserved'],
    ['64:ff9b::127.0.0.1', 'loopback'],
    ['64:ff9b::a9fe:a9fe', 'link-local'],
    ['64:ff9b:1::1', 'reserved'],
    ['2002:7f00:1::', 'loopback'],
    ['2002:a9fe:a9fe::1', 'link-local'],
    // Teredo: the client's address is inverted.
    ['2001:0:808:808::80ff:fffe', 'loopback'],
    ['2001:0:7f00:1::f7f7:f7f7', 'loopback'],
    ['2606:4700::5efe:10.0.0.1', 'private'],
    ['2606:4700::200:5efe:10.0.0.1', 'private'],
  ] as const)('%s is %s [SF1]', (text, kind) => {
    expect(addressKind(parseIpAddress(text)!)).toBe(kind);
  });

  it.each([
    '1.1.1.1',
    '93.184.216.34',
    '172.15.255.255',
    '172.32.0.0',
    '100.63.255.255',
    '223.255.255.255',
    '2606:4700::1111',
    '2a00:1450:4001::1',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
    '2002:808:808::1',
    '2001:0:808:808::f7f7:f7f7',
  ])('%s is public', (text) => {
    expect(addressKind(parseIpAddress(text)!)).toBeUndefined();
  });

  it('of IPv4 is public exactly where no registry lists it [SF1]', () => {
    fc.assert(
      fc.property(ipv4, (value) => {
        const text = dotted(value);
        expect([text, addressKind(parseIpAddress(text)!) !== undefined]).toEqual([text, v4.check(text, 'ipv4')]);
      }),
      { numRuns: 5_000 },
    );
  });

  it('of IPv6 is never public where a registry lists it [SF1]', () => {
    const start = fc.constantFrom(
      0,
      0x64,
      0x100,
      0x2000,
      0x2001,
      0x2620,
      0x3ffe,
      0x3fff,
      0x4000,
      0xfc00,
      0xfe80,
      0xff00,
    );
    fc.assert(
      fc.property(fc.oneof(start, group), fc.array(group, { minLength: 7, maxLength: 7 }), (first, others) => {
        const text = [first, ...others].map((part) => part.toString(16)).join(':');
        const embeds =
          first === 0x64 || first === 0x2002 || (first === 0x2001 && others[0] === 0) || others[4] === 0x5efe;
        if (embeds) return;
        expect([text, addressKind(parseIpAddress(text)!) !== undefined]).toEqual([text, v6.check(text, 'ipv6')]);
      }),
      { numRuns: 5_000 },
    );
  });

  it('is judged by the IPv4 address embedded in it [SF1]', () => {
    fc.assert(
      fc.property(ipv4, fc.array(group, { minLength: 4, maxLength: 4 }), (value, [a, b, c, d]) => {
        const inner = addressKind(parseIpAddress(dotted(value))!);
        const [high, low] = [(value >>> 16).toString(16), (value & 0xffff).toString(16)];
        const [a16, b16, c16, d16] = [a, b, c, d].map((part) => part!.toString(16));
        const inverted = ~value >>> 0;
        const [notHigh, notLow] = [(inverted >>> 16).toString(16), (inverted & 0xffff).toString(16)];
        for (const text of [
          `::ffff:${dotted(value)}`,
          `::ffff:${high}:${low}`,
          `0:0:0:0:0:FFFF:${high}:${low}`,
          `64:ff9b::${high}:${low}`,
          `64:ff9b::${dotted(value)}`,
          `2606:4700:${a16}:${b16}:0:5efe:${high}:${low}`,
        ]) {
          expect([text, addressKind(parseIpAddress(text)!)]).toEqual([text, inner]);
        }
        if (!inner) return;
        for (const text of [
          `::${high}:${low}`,
          `2002:${high}:${low}:${a16}:${b16}:${c16}:${d16}:1`,
          `2001:0:${high}:${low}:${a16}:${b16}:${c16}:${d16}`,
          `2001:0:808:808:${a16}:${b16}:${notHigh}:${notLow}`,
        ]) {
          expect([text, addressKind(parseIpAddress(text)!) !== undefined]).toEqual([text, true]);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('a range', () => {
  it.each([
    '10.0.0.1/8',
    '10.0.0.0/33',
    '10.0.0.0',
    '10.0.0.0/',
    '/8',
    '::ffff:10.0.0.0/104',
    'fe80::%1/64',
    'x/8',
    '::/129',
    '::/8/8',
    '10.0.0.0/-1',
  ])('is not %s', (text) => {
    expect(parseIpRange(text)).toBeUndefined();
  });
});

function dotted(value: number): string {
  return [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255].join('.');
}

function blockList(family: 'ipv4' | 'ipv6', ranges: readonly (readonly [string, number])[]): BlockList {
  const list = new BlockList();
  for (const [base, bits] of ranges) list.addSubnet(base, bits, family);
  return list;
}
