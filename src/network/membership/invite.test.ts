import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MembershipMemory } from '../../../test/network/membership-memory.js';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { Grant } from './certificate.js';
import { Identity } from './identity.js';
import {
  decodeInvite,
  encodeInvite,
  inviteId,
  inviteTopic,
  isInviteProof,
  proveInvite,
  SECRET_BYTES,
} from './invite.js';
import { type Handshake, Membership } from './membership.js';

const RUNS = { numRuns: 150 };
const HOUR = 3_600_000;
const FULL: Grant = { tiers: [0, 1, 2, 3], invite: true };
/** Every character that a code is written with. */
const DIGITS = [...'0123456789abcdefghjkmnpqrstvwxyz'];
const HASH = Buffer.alloc(64, 7);
const OTHER_HASH = Buffer.alloc(64, 8);

const arbSecret = () => fc.uint8Array({ minLength: SECRET_BYTES, maxLength: SECRET_BYTES });
const arbHash = () => fc.uint8Array({ minLength: 32, maxLength: 64 });
/** Like fast-check's 'binary', which takes a second to set up. */
const anyCharacter = () => fc.nat(0x10ffff).map((point) => String.fromCodePoint(point));
const arbPlaces = () => fc.array(fc.string({ maxLength: 60 }), { maxLength: 4 });

/** The typed error that the action ends with; anything else fails the test. */
function refusal(action: () => unknown): EclipticError {
  try {
    action();
  } catch (error) {
    if (error instanceof EclipticError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

function codeOf(action: () => unknown): ErrorCode {
  return refusal(action).code;
}

/** A code without, with one and with several places, so that it ends at different bits of its last character. */
function codes(): string[] {
  const secret = Buffer.from('000102030405060708090a0b0c0d0eff', 'hex');
  return ['', 'a', 'ab', 'abc', 'abcd', 'dht.example:49737'].map((place) =>
    encodeInvite({ secret, bootstrap: place === '' ? [] : [place], addresses: [] }),
  );
}

/** What is still taken as a code after a change at any one place. */
function takenAfter(code: string, change: (code: string, at: number) => readonly string[]): string[] {
  return [...code].flatMap((_, at) => change(code, at).filter(isTaken));
}

function isTaken(code: string): boolean {
  try {
    decodeInvite(code);
    return true;
  } catch (error) {
    expect((error as EclipticError).code).toBe('INVALID_INVITE');
    return false;
  }
}

function substitutions(code: string, at: number): string[] {
  const others = [...DIGITS, 'i', 'l', 'o', 'u', ' ', '_', 'é'].filter((digit) => digit !== code[at]);
  return others.map((digit) => code.slice(0, at) + digit + code.slice(at + 1));
}

describe('an invite code', () => {
  it('decodes to what was encoded', () => {
    fc.assert(
      fc.property(arbSecret(), arbPlaces(), arbPlaces(), (secret, bootstrap, addresses) => {
        const read = decodeInvite(encodeInvite({ secret, bootstrap, addresses }));
        expect(Buffer.from(read.secret).equals(secret)).toBe(true);
        expect(read.bootstrap).toEqual(bootstrap);
        expect(read.addresses).toEqual(addresses);
      }),
      RUNS,
    );
  });

  it('carries names that are not ASCII', () => {
    const places = { bootstrap: ['münchen.example:1'], addresses: ['ws://北京.example:2', 'ws://🪐'] };
    expect(decodeInvite(encodeInvite({ secret: Buffer.alloc(SECRET_BYTES, 1), ...places }))).toMatchObject(places);
  });

  it('can be typed in any case, with dashes anywhere and space around it', () => {
    fc.assert(
      fc.property(arbSecret(), arbPlaces(), fc.infiniteStream(fc.nat(9)), (secret, bootstrap, chance) => {
        const code = encodeInvite({ secret, bootstrap, addresses: [] });
        const typed = [...code].map((character) => {
          const drawn = chance.next().value!;
          return (drawn % 2 ? character.toUpperCase() : character) + (drawn > 6 ? '-' : '');
        });
        expect(decodeInvite(` -${typed.join('')}\n`)).toEqual(decodeInvite(code));
      }),
      RUNS,
    );
  });

  it('is written in characters that survive being read aloud', () => {
    for (const code of codes()) expect(code).toMatch(/^ecl1[0-9a-hjkmnp-tv-z]+$/);
  });

  it('is refused after any change of any one character', () => {
    for (const code of codes().slice(0, 2)) expect(takenAfter(code, substitutions)).toEqual([]);
    for (const code of codes()) expect(substitutions(code, code.length - 1).filter(isTaken)).toEqual([]);
  });

  it('is refused without any one of its characters, or with one too many', () => {
    const without = (code: string, at: number) => [code.slice(0, at) + code.slice(at + 1)];
    const twice = (code: string, at: number) => [code.slice(0, at) + code.slice(at - 1)];
    for (const code of codes()) {
      expect([...takenAfter(code, without), ...takenAfter(code, twice)]).toEqual([]);
      expect(DIGITS.map((digit) => code + digit).filter(isTaken)).toEqual([]);
    }
  });

  it('is refused after two neighbours changed places', () => {
    const swapped = (code: string, at: number) => {
      const changed =
        code.slice(0, at) +
        code
          .slice(at, at + 2)
          .split('')
          .reverse()
          .join('') +
        code.slice(at + 2);
      return changed === code ? [] : [changed];
    };
    for (const code of codes()) expect(takenAfter(code, swapped)).toEqual([]);
  });

  it('is refused wherever it was cut off', () => {
    for (const code of codes()) {
      for (let length = 0; length < code.length; length++) {
        expect(codeOf(() => decodeInvite(code.slice(0, length)))).toBe('INVALID_INVITE');
        expect(codeOf(() => decodeInvite(code.slice(length + 1)))).toBe('INVALID_INVITE');
      }
    }
  });

  it.each([
    ['nothing', ''],
    ['space', ' \t\n'],
    ['dashes', '----'],
    ['the beginning alone', 'ecl1'],
    ['the beginning twice', 'ecl1ecl1'],
    ['a later kind of code', `ecl2${'0'.repeat(40)}`],
    ['zeros', `ecl1${'0'.repeat(40)}`],
    ['characters that no code has', `ecl1${'u'.repeat(40)}`],
    ['a sentence', 'please let me in'],
    ['another kind of link', 'https://example.com/invite'],
    ['something very long', `ecl1${'z'.repeat(100_000)}`],
    ['half a pair of surrogates', 'ecl1\ud83e'],
    ['zero bytes', '\0\0\0'],
  ])('is not made of %s', (_, text) => {
    expect(codeOf(() => decodeInvite(text))).toBe('INVALID_INVITE');
  });

  it('is never made of random text, and that is always the error', () => {
    const arbText = fc.oneof(
      fc.string({ unit: anyCharacter(), maxLength: 80 }),
      fc.string({ unit: anyCharacter(), maxLength: 80 }).map((text) => `ecl1${text}`),
      fc.string({ unit: fc.constantFrom(...DIGITS), maxLength: 120 }).map((text) => `ecl1${text}`),
      fc.string({ unit: fc.constantFrom(...DIGITS, '-', 'E', 'C', 'L', ' '), maxLength: 60 }),
    );
    fc.assert(
      fc.property(arbText, (text) => {
        // A checksum of 24 bits: one text in sixteen million is a code by chance.
        expect(codeOf(() => decodeInvite(text))).toBe('INVALID_INVITE');
      }),
      { numRuns: 300 },
    );
  });

  it('is refused if its list of addresses is cut off, though its checksum holds', () => {
    const whole = encodeInvite({ secret: Buffer.alloc(SECRET_BYTES, 1), bootstrap: [], addresses: [] });
    // Its body is a secret of which the last bytes are read as a place when it is a little longer.
    const longer = encodeInvite({
      secret: Buffer.concat([Buffer.alloc(SECRET_BYTES, 1), Buffer.of(200, 100)]),
      bootstrap: [],
      addresses: [],
    });
    expect(decodeInvite(whole).bootstrap).toEqual([]);
    expect(codeOf(() => decodeInvite(longer))).toBe('INVALID_INVITE');
  });

  it('is refused with too short a secret, though its checksum holds', () => {
    for (let length = 0; length < SECRET_BYTES; length++) {
      const code = encodeInvite({ secret: Buffer.alloc(length, 1), bootstrap: [], addresses: [] });
      expect(codeOf(() => decodeInvite(code))).toBe('INVALID_INVITE');
    }
  });

  it('is not made with a place longer than it can say', () => {
    const made = (place: string) =>
      encodeInvite({ secret: Buffer.alloc(SECRET_BYTES, 1), bootstrap: [], addresses: [place] });
    const longest = 'a'.repeat(254);
    expect(decodeInvite(made(longest)).addresses).toEqual([longest]);
    for (const place of [`${longest}a`, 'é'.repeat(128)]) expect(codeOf(() => made(place))).toBe('INVALID_INVITE');
  });

  it('does not show its secret in its id or its topic', () => {
    fc.assert(
      fc.property(arbSecret(), arbSecret(), (secret, other) => {
        const hex = Buffer.from(secret).toString('hex');
        const topic = inviteTopic(secret).toString('hex');
        expect(inviteId(secret)).toMatch(/^[0-9a-f]{32}$/);
        expect(topic).toHaveLength(64);
        expect(new Set([hex, inviteId(secret), topic.slice(0, 32), topic.slice(32)]).size).toBe(4);
        if (Buffer.from(secret).equals(other)) return;
        expect(inviteId(secret)).not.toBe(inviteId(other));
        expect(inviteTopic(secret).equals(inviteTopic(other))).toBe(false);
      }),
      RUNS,
    );
  });
});

describe('the proof of an invite', () => {
  it('holds for its secret, its side and its handshake, and for nothing else', () => {
    fc.assert(
      fc.property(arbSecret(), arbSecret(), arbHash(), arbHash(), (secret, otherSecret, hash, otherHash) => {
        for (const [role, otherRole] of [
          ['guest', 'host'],
          ['host', 'guest'],
        ] as const) {
          const proof = proveInvite(secret, role, hash);
          expect(isInviteProof(secret, role, hash, proof)).toBe(true);
          expect(isInviteProof(secret, otherRole, hash, proof)).toBe(false);
          expect(isInviteProof(otherSecret, role, hash, proof)).toBe(Buffer.from(secret).equals(otherSecret));
          expect(isInviteProof(secret, role, otherHash, proof)).toBe(Buffer.from(hash).equals(otherHash));
        }
      }),
      RUNS,
    );
  });

  it('is refused after any change, whatever is given instead', () => {
    const secret = Buffer.alloc(SECRET_BYTES, 3);
    const proof = proveInvite(secret, 'guest', HASH);
    const changed = [...proof].map(
      (digit, at) => proof.slice(0, at) + (digit === 'A' ? 'B' : 'A') + proof.slice(at + 1),
    );
    const others = [...changed, '', proof.slice(1), `${proof}=`, `${proof} `, proof.toUpperCase(), 'ü'.repeat(43)];
    expect(others.filter((other) => isInviteProof(secret, 'guest', HASH, other))).toEqual([]);
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter() }), (text) => {
        expect(isInviteProof(secret, 'guest', HASH, text)).toBe(text === proof);
      }),
      RUNS,
    );
  });
});

interface Member {
  readonly identity: Identity;
  readonly membership: Membership;
}

function newcomer(runtime: SimulatedRuntime): Member {
  const identity = Identity.create(runtime);
  return { identity, membership: new Membership({ runtime, identity, store: new MembershipMemory() }) };
}

/** A mesh of one, whose founder has made an invite. */
function invitation(grant: Grant = FULL, ttlMs = HOUR) {
  const runtime = new SimulatedRuntime();
  const host = newcomer(runtime);
  host.membership.create('host', ['dht.example:1']);
  const secret = host.membership.invite(grant, ttlMs);
  return { runtime, host, guest: newcomer(runtime), secret };
}

/** The link as its host sees it. */
function linkTo(guest: Member, hash: Uint8Array = HASH): Handshake {
  return { hash, initiator: false, remoteKey: guest.identity.key };
}

/** Shows the invite as a guest does that keeps the rules. */
function show(host: Member, guest: Member, secret: Uint8Array, hash: Uint8Array = HASH) {
  const proof = proveInvite(secret, 'guest', hash);
  return host.membership.admit(inviteId(secret), proof, 'guest', linkTo(guest, hash));
}

describe('an invite', () => {
  it('lets the node in that proves to know its secret, and answers with the host’s proof', () => {
    const { host, guest, secret } = invitation({ tiers: [2, 3], sandboxes: ['red'], invite: false });
    const { welcome, proof } = show(host, guest, secret);
    expect(isInviteProof(secret, 'host', HASH, proof)).toBe(true);
    expect(isInviteProof(secret, 'guest', HASH, proof)).toBe(false);
    guest.membership.adopt(welcome, ['ws://host.example:1']);
    expect(guest.membership.mesh).toBe(host.membership.mesh);
    expect(guest.membership.grant).toEqual({ tiers: [2, 3], sandboxes: ['red'], invite: false });
    expect(guest.membership.bootstrap).toEqual(['dht.example:1']);
    expect(guest.membership.topic.equals(host.membership.topic)).toBe(true);
    expect(guest.membership.members.addresses).toEqual({ [host.identity.key]: ['ws://host.example:1'] });
  });

  it('is open until it is used', () => {
    const { host, guest, secret } = invitation();
    expect(host.membership.openInvites().map((open) => Buffer.from(open))).toEqual([Buffer.from(secret)]);
    show(host, guest, secret);
    expect(host.membership.openInvites()).toEqual([]);
  });

  it('is spent on disk before anything is given', () => {
    const runtime = new SimulatedRuntime();
    const identity = Identity.create(runtime);
    const store = new MembershipMemory();
    const membership = new Membership({ runtime, identity, store });
    membership.create('host', []);
    const secret = membership.invite(FULL, HOUR);
    const guest = newcomer(runtime);
    store.save = () => {
      throw new EclipticError('DATA_FOLDER', 'the disk is full');
    };
    expect(codeOf(() => show({ identity, membership }, guest, secret))).toBe('DATA_FOLDER');
    expect(membership.openInvites()).toHaveLength(1);
  });

  it('can be used again by the node that used it, whose answer may have been lost', () => {
    const { host, guest, secret } = invitation();
    show(host, guest, secret);
    const { welcome } = show(host, guest, secret, OTHER_HASH);
    guest.membership.adopt(welcome, []);
    expect(guest.membership.joined).toBe(true);
  });

  it('is still known as used after the host has restarted', () => {
    const runtime = new SimulatedRuntime();
    const identity = Identity.create(runtime);
    const store = new MembershipMemory();
    const before = new Membership({ runtime, identity, store });
    before.create('host', []);
    const secret = before.invite(FULL, HOUR);
    const [guest, thief] = [newcomer(runtime), newcomer(runtime)];
    show({ identity, membership: before }, guest, secret);
    const host = { identity, membership: new Membership({ runtime, identity, store }) };
    expect(codeOf(() => show(host, thief, secret))).toBe('INVALID_INVITE');
    expect(show(host, guest, secret).welcome.mesh).toBe(before.mesh);
  });

  it('is refused to any other node once it was used', () => {
    const { runtime, host, guest, secret } = invitation();
    show(host, guest, secret);
    expect(refusal(() => show(host, newcomer(runtime), secret)).message).toMatch(/used before/);
    expect(codeOf(() => show(host, newcomer(runtime), secret, OTHER_HASH))).toBe('INVALID_INVITE');
  });

  it('is refused from the moment it expires, also to the node that used it', async () => {
    const { runtime, host, guest, secret } = invitation(FULL, HOUR);
    const unused = host.membership.invite(FULL, HOUR);
    await runtime.advance(HOUR - 1);
    show(host, guest, secret);
    await runtime.advance(1);
    const { code, message } = refusal(() => show(host, guest, secret));
    expect({ code, message }).toMatchObject({ code: 'INVALID_INVITE', message: expect.stringMatching(/expired/) });
    expect(codeOf(() => show(host, guest, unused))).toBe('INVALID_INVITE');
    expect(host.membership.openInvites()).toEqual([]);
  });

  it('that expired long ago is refused as unknown', async () => {
    const { runtime, host, guest, secret } = invitation(FULL, HOUR);
    await runtime.advance(48 * HOUR);
    host.membership.invite(FULL, HOUR);
    expect(refusal(() => show(host, guest, secret)).message).toMatch(/no such invite/);
  });

  it('is refused after it was revoked, also to the node that used it', () => {
    const { host, guest, secret } = invitation();
    const used = host.membership.invite(FULL, HOUR);
    show(host, guest, used);
    host.membership.revokeInvite(used);
    expect(codeOf(() => show(host, guest, used))).toBe('INVALID_INVITE');
    host.membership.revokeInvite(secret);
    expect(host.membership.openInvites()).toEqual([]);
    expect(refusal(() => show(host, guest, secret)).message).toMatch(/revoked before/);
  });

  it('leaves other invites as they are when it is used or revoked', () => {
    const { runtime, host, guest, secret } = invitation();
    const second = host.membership.invite(FULL, HOUR);
    const third = host.membership.invite({ tiers: [3], invite: false }, HOUR);
    show(host, guest, secret);
    host.membership.revokeInvite(second);
    host.membership.revokeInvite(Buffer.alloc(SECRET_BYTES));
    const { welcome } = show(host, newcomer(runtime), third);
    expect(welcome.chain[0]!.grant).toEqual({ tiers: [3], invite: false });
  });

  it('that was never made is refused', () => {
    const { host, guest } = invitation();
    const made = Buffer.alloc(SECRET_BYTES, 9);
    expect(codeOf(() => show(host, guest, made))).toBe('INVALID_INVITE');
    for (const id of ['', 'x', '__proto__', 'constructor']) {
      const attempt = () => host.membership.admit(id, proveInvite(made, 'guest', HASH), 'guest', linkTo(guest));
      expect(codeOf(attempt)).toBe('INVALID_INVITE');
    }
  });

  it('of another node is refused', () => {
    const { runtime, guest, secret } = invitation();
    const other = newcomer(runtime);
    other.membership.create('other', []);
    expect(codeOf(() => show(other, guest, secret))).toBe('INVALID_INVITE');
  });

  it('is refused, and not spent, if the proof does not hold', () => {
    const { host, guest, secret } = invitation();
    const id = inviteId(secret);
    const proofs = {
      wrong: proveInvite(Buffer.alloc(SECRET_BYTES), 'guest', HASH),
      reflected: proveInvite(secret, 'host', HASH),
      'of another handshake': proveInvite(secret, 'guest', OTHER_HASH),
      stripped: '',
      'the id of the invite': id,
      'the secret itself': Buffer.from(secret).toString('hex'),
      'cut off': proveInvite(secret, 'guest', HASH).slice(0, -1),
    };
    for (const proof of Object.values(proofs)) {
      const { code, message } = refusal(() => host.membership.admit(id, proof, 'guest', linkTo(guest)));
      expect({ code, message }).toEqual({
        code: 'INVALID_INVITE',
        message: 'the invite is refused: the proof does not hold',
      });
    }
    expect(host.membership.openInvites()).toHaveLength(1);
    expect(show(host, guest, secret).welcome.mesh).toBe(host.membership.mesh);
  });

  it('tells one without its secret no more than that the proof does not hold', () => {
    const { host, guest, secret } = invitation();
    const attempt = () => host.membership.admit(inviteId(secret), 'x', 'guest', linkTo(guest));
    const open = refusal(attempt).message;
    show(host, guest, secret);
    const used = refusal(attempt).message;
    host.membership.revokeInvite(secret);
    expect([used, refusal(attempt).message]).toEqual([open, open]);
  });

  it('puts no secret into an error', () => {
    const { runtime, host, guest, secret } = invitation();
    show(host, guest, secret);
    const text = JSON.stringify(refusal(() => show(host, newcomer(runtime), secret)));
    for (const spelling of ['hex', 'base64url', 'base64'] as const) {
      expect(text).not.toContain(Buffer.from(secret).toString(spelling));
    }
  });

  it('binds the certificate it gives to the node at the other end of the link', () => {
    const { runtime, host, guest, secret } = invitation();
    const { welcome } = show(host, guest, secret);
    const thief = newcomer(runtime);
    expect(codeOf(() => thief.membership.adopt(welcome, []))).toBe('MEMBERSHIP_REFUSED');
    expect(thief.membership.joined).toBe(false);
  });

  it('does not let a node in again that used it and was then removed; a new one does', async () => {
    const { runtime, host, guest, secret } = invitation();
    const { welcome } = show(host, guest, secret);
    host.membership.remove(welcome.chain);
    await runtime.advance(1_000);
    expect(codeOf(() => show(host, guest, secret))).toBe('INVALID_INVITE');
    const again = show(host, guest, host.membership.invite(FULL, HOUR));
    guest.membership.adopt(again.welcome, []);
    expect(guest.membership.joined).toBe(true);
  });

  it('lets a node in at once that was removed by a clock that is ahead', () => {
    const { runtime, host, guest, secret } = invitation();
    const { welcome } = show(host, guest, secret);
    const ahead = new SimulatedRuntime({ seed: 2, start: runtime.now() + 300_000 });
    const other = newcomer(ahead);
    other.membership.adopt(show(host, other, host.membership.invite(FULL, HOUR)).welcome, []);
    host.membership.takeRemoval(other.membership.remove(welcome.chain));
    const again = show(host, guest, host.membership.invite(FULL, HOUR));
    expect(other.membership.lapsed(again.welcome.chain)).toBeUndefined();
    guest.membership.adopt(again.welcome, []);
    expect(guest.membership.joined).toBe(true);
  });

  it('that is shown again does not undo a removal that its host has not heard of', async () => {
    const { runtime, host, guest, secret } = invitation();
    const other = newcomer(runtime);
    other.membership.adopt(show(host, other, host.membership.invite(FULL, HOUR)).welcome, []);
    other.membership.remove(show(host, guest, secret).welcome.chain);
    await runtime.advance(1_000);
    const { welcome } = show(host, guest, secret);
    expect(other.membership.lapsed(welcome.chain)).toMatch(/removed/);
  });

  it('needs a mesh', () => {
    const lone = newcomer(new SimulatedRuntime());
    expect(codeOf(() => lone.membership.invite(FULL, HOUR))).toBe('NO_MESH');
    expect(codeOf(() => lone.membership.revokeInvite(Buffer.alloc(SECRET_BYTES)))).toBe('NO_MESH');
    expect(codeOf(() => show(lone, lone, Buffer.alloc(SECRET_BYTES)))).toBe('NO_MESH');
    expect(lone.membership.openInvites()).toEqual([]);
  });

  it('cannot be made by a member that may not invite', () => {
    const { host, guest, secret } = invitation({ tiers: [0, 1, 2, 3], invite: false });
    guest.membership.adopt(show(host, guest, secret).welcome, []);
    expect(codeOf(() => guest.membership.invite({ tiers: [3], invite: false }, HOUR))).toBe('NOT_GRANTED');
    expect(guest.membership.openInvites()).toEqual([]);
  });

  it.each([
    ['a tier', { tiers: [1, 2, 3], sandboxes: ['red'], invite: true }],
    ['a sandbox', { tiers: [2], sandboxes: ['red', 'blue'], invite: true }],
    ['freedom from sandboxes', { tiers: [2], invite: false }],
  ] satisfies [string, Grant][])('cannot hand on %s that its maker has not', (_, grant) => {
    const { host, guest, secret } = invitation({ tiers: [2, 3], sandboxes: ['red'], invite: true });
    guest.membership.adopt(show(host, guest, secret).welcome, []);
    expect(codeOf(() => guest.membership.invite(grant, HOUR))).toBe('NOT_GRANTED');
    expect(guest.membership.invite({ tiers: [3], sandboxes: ['red'], invite: true }, HOUR)).toHaveLength(SECRET_BYTES);
  });

  it('has a secret of its own each time', () => {
    const { host } = invitation();
    const secrets = Array.from({ length: 100 }, () => Buffer.from(host.membership.invite(FULL, HOUR)).toString('hex'));
    expect(new Set(secrets).size).toBe(100);
  });

  it('cannot be made by a member at the end of the longest chain, whose guest would be refused everywhere', () => {
    const runtime = new SimulatedRuntime();
    let last = newcomer(runtime);
    last.membership.create('1', []);
    for (let length = 2; length <= 8; length++) {
      const next = newcomer(runtime);
      next.membership.adopt(show(last, next, last.membership.invite(FULL, HOUR)).welcome, []);
      last = next;
    }
    expect(last.membership.chain).toHaveLength(8);
    expect(codeOf(() => last.membership.invite(FULL, HOUR))).toBe('NOT_GRANTED');
  });

  it('can be made and used at once by a member whose clock is behind its own inviter’s', () => {
    const { host, guest, secret, runtime } = invitation();
    const slow = new SimulatedRuntime({ seed: 2, start: runtime.now() - 5_000 });
    const store = new MembershipMemory();
    const member = {
      identity: guest.identity,
      membership: new Membership({ runtime: slow, identity: guest.identity, store }),
    };
    member.membership.adopt(show(host, member, secret).welcome, []);
    const third = newcomer(runtime);
    third.membership.adopt(show(member, third, member.membership.invite(FULL, HOUR)).welcome, []);
    expect(third.membership.joined).toBe(true);
  });

  it.each([
    ['no time', FULL, 0],
    ['less than no time', FULL, -1],
    ['a time that is no number', FULL, Number.NaN],
    ['a year', FULL, 365 * 24 * HOUR],
    ['ever', FULL, Number.POSITIVE_INFINITY],
    ['no tiers', { tiers: [], invite: false }, HOUR],
    ['a tier five times', { tiers: [3, 3, 3, 3, 3], invite: false }, HOUR],
    ['no sandbox', { tiers: [3], sandboxes: [], invite: false }, HOUR],
    ['a nameless sandbox', { tiers: [3], sandboxes: [''], invite: false }, HOUR],
  ] satisfies [string, Grant, number][])('cannot be made for %s', (_, grant, ttlMs) => {
    const { host } = invitation();
    expect(codeOf(() => host.membership.invite(grant, ttlMs))).toBe('INVALID_CONFIG');
    expect(host.membership.openInvites()).toHaveLength(1);
  });
});
