import { decodeInvite, encodeInvite } from '../../../src/network/membership/invite.js';
import { type FuzzTarget, mustEqual } from '../fuzz-target.js';
import { Decisions } from '../shaped-input.js';

const code = encodeInvite({ secret: Buffer.alloc(16, 7), bootstrap: ['dht.example:1'], addresses: ['ws://h:3000'] });

/** An invite survives its code, and a code that is taken is the code of what it says. */
export const target: FuzzTarget = {
  name: 'invite',
  about: 'codes of invites',
  seeds: [code, code.toUpperCase(), `E${Buffer.alloc(20, 3).toString('latin1')}\x05hello`],
  words: ['ecl1', '-', 'ECL1'],
  maxBytes: 512,
  run(input) {
    if (input[0] === 0x45) {
      const decisions = new Decisions(input.subarray(1));
      const secret = Buffer.alloc(16);
      decisions.bytes(16).copy(secret);
      const places = Array.from({ length: decisions.below(4) }, () => decisions.text(80));
      const invite = { secret, bootstrap: places.slice(0, 2), addresses: places.slice(2) };
      const read = decodeInvite(encodeInvite(invite));
      mustEqual({ ...read, secret: Buffer.from(read.secret) }, invite, 'an invite written and read');
      return;
    }
    const text = input.toString('utf8');
    const invite = decodeInvite(text);
    mustEqual(decodeInvite(encodeInvite(invite)), invite, 'an invite read, written and read');
  },
};
