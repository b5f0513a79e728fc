import { issueCertificate } from '../../../src/network/membership/certificate.js';
import { Identity } from '../../../src/network/membership/identity.js';
import {
  ConfirmationSchema,
  headOf,
  isConfirmed,
  readEntry,
  signConfirmation,
  signEntry,
} from '../../../src/network/peers/directory-entry.js';
import { parsed } from '../../../src/network/peers/wire.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const node = Identity.fromSeed(Buffer.alloc(32, 5));
const certificate = issueCertificate(node, {
  mesh: node.key,
  node: node.key,
  name: 'n',
  grant: { tiers: [3], invite: false },
  since: 1,
  issuedAt: 1,
  expiresAt: 2,
});
const entry = signEntry(node, {
  version: 3,
  protocol: 5,
  software: 'ecliptic',
  chain: [certificate],
  addresses: ['ws://h:1'],
  complete: true,
  gone: false,
  items: [['c', [], 'x']],
});
const confirmation = signConfirmation(node, 3, 1_000);
const SEEDS: unknown[] = [JSON.parse(entry.text), confirmation];

/** Only what its node signed is an entry of the directory. */
export const target: FuzzTarget = {
  name: 'directory-entry',
  about: 'entries of the directory of nodes',
  seeds: ['\0', '\x01', entry.text],
  run(input) {
    const value = jsonOf(input, SEEDS);
    const confirmed = unlessRefused(() => parsed(ConfirmationSchema, value));
    if (confirmed && isConfirmed(confirmed)) mustEqual(confirmed, confirmation, 'a forged confirmation');
    const text = input[0] === 0x5b ? input.toString('utf8') : (JSON.stringify(value) ?? '');
    const head = headOf(text);
    const about = readEntry(text);
    must(about.node === head.node && about.version === head.version, () => 'head and entry differ');
    mustEqual(JSON.parse(text), JSON.parse(entry.text), 'a forged entry');
  },
};
