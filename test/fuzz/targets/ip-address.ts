import { BlockList, isIP } from 'node:net';
import { AddressSchema } from '../../../src/network/peers/wire.js';
import { addressKind, inRange, parseIpAddress, parseIpRange } from '../../../src/system/fetch/address.js';
import { type FuzzTarget, must } from '../fuzz-target.js';

/** Ranges that no URL of a stranger may lead to. */
const FORBIDDEN: readonly (readonly [string, number, 'ipv4' | 'ipv6'])[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['::', 127, 'ipv6'],
  ['fc00::', 7, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
  ['64:ff9b::a00:0', 104, 'ipv6'],
  ['64:ff9b::7f00:0', 104, 'ipv6'],
  ['2002:a00::', 24, 'ipv6'],
  ['2002:7f00::', 24, 'ipv6'],
];
const blocked = new BlockList();
for (const [net, prefix, family] of FORBIDDEN) blocked.addSubnet(net, prefix, family);

/** An address on the first line, a range on the second: Node's own reader and list agree with ours. */
export const target: FuzzTarget = {
  name: 'ip-address',
  about: 'addresses of foreign URLs and of other nodes',
  seeds: [
    '127.0.0.1\n10.0.0.0/8',
    '::ffff:10.1.2.3\nfd00::/8',
    '64:ff9b::7f00:1\n::/0',
    '2002:7f00:1::\n1.2.3.4/32',
    'fe80::1%eth0\nfe80::/10',
    '1::2:3.4.5.6\n1::/16',
  ],
  words: ['::', '::ffff:', '127.', '%', '/', '.', 'fe80', '2002:'],
  maxBytes: 256,
  run(input) {
    const [text = '', range = ''] = input.toString('utf8').split('\n');
    AddressSchema.safeParse(text);
    const address = parseIpAddress(text);
    const bare = text.split('%')[0]!;
    must((address !== undefined) === isIP(bare) > 0, () => `${text}: Node says ${isIP(bare)}`);
    const parsed = parseIpRange(range);
    if (!address) return;
    if (blocked.check(bare, isIP(bare) === 4 ? 'ipv4' : 'ipv6')) {
      must(addressKind(address) !== undefined, () => `${text} counts as public`);
    }
    if (!parsed) return;
    const [net = '', prefix = ''] = range.split('/');
    const list = new BlockList();
    list.addSubnet(net, Number(prefix), isIP(net) === 4 ? 'ipv4' : 'ipv6');
    // Node also matches mapped addresses against ranges of the other family, so only pure ones are compared.
    if (isIP(bare) !== isIP(net) || bare.includes('.') !== net.includes('.') || /ffff/i.test(bare + net)) return;
    must(
      inRange(address, parsed) === list.check(bare, isIP(bare) === 4 ? 'ipv4' : 'ipv6'),
      () => `${text} in ${range}`,
    );
  },
};
