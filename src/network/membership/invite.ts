import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { EclipticError } from '../../runtime/errors.js';

/** The content of an invite code: a secret that both sides prove to each other, and where the inviter can be found. */
export interface Invite {
  readonly secret: Uint8Array;
  /** Nodes of a private DHT, `host:port`; none means the public DHT. */
  readonly bootstrap: readonly string[];
  /** `ws://` addresses of the inviter. */
  readonly addresses: readonly string[];
}

export const SECRET_BYTES = 16;

const PREFIX = 'ecl1';
const CHECK_BYTES = 3;
// Without i, l, o and u, a code can be read aloud and typed.
const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';

/** The code for `ecliptic join`. */
export function encodeInvite({ secret, bootstrap, addresses }: Invite): string {
  const places = [...bootstrap.map((place) => `d${place}`), ...addresses.map((place) => `w${place}`)];
  const texts = places.map((place) => Buffer.from(place));
  if (texts.some(({ length }) => length > 255)) throw malformed('an address is too long for it');
  const body = Buffer.concat([secret, ...texts.flatMap((text) => [Buffer.of(text.length), text])]);
  return PREFIX + toBase32(Buffer.concat([body, checksum(body)]));
}

export function decodeInvite(code: string): Invite {
  const text = code.trim().toLowerCase().replaceAll('-', '');
  if (!text.startsWith(PREFIX)) throw malformed('it has a wrong prefix');
  const bytes = fromBase32(text.slice(PREFIX.length));
  if (bytes.length < SECRET_BYTES + CHECK_BYTES) throw malformed('it is too short');
  const body = bytes.subarray(0, bytes.length - CHECK_BYTES);
  const spelled = PREFIX + toBase32(bytes) === text;
  if (!spelled || !checksum(body).equals(bytes.subarray(body.length))) {
    throw malformed('a character is wrong or missing');
  }
  const places = readPlaces(body.subarray(SECRET_BYTES));
  return {
    secret: body.subarray(0, SECRET_BYTES),
    bootstrap: places.filter((place) => place.startsWith('d')).map((place) => place.slice(1)),
    addresses: places.filter((place) => place.startsWith('w')).map((place) => place.slice(1)),
  };
}

/** Identifies an invite without revealing its secret. */
export function inviteId(secret: Uint8Array): string {
  return createHash('sha256').update('ecliptic invite id 1\n').update(secret).digest('hex').slice(0, 32);
}

/** The DHT topic on which both sides of an invite find each other. */
export function inviteTopic(secret: Uint8Array): Buffer {
  return createHash('sha256').update('ecliptic invite topic 1\n').update(secret).digest();
}

/** Proves knowledge of the secret, for one side of one handshake only: it can be neither reflected nor replayed. */
export function proveInvite(secret: Uint8Array, role: 'guest' | 'host', handshake: Uint8Array): string {
  return createHmac('sha256', secret).update(`ecliptic invite ${role} 1\n`).update(handshake).digest('base64url');
}

export function isInviteProof(
  secret: Uint8Array,
  role: 'guest' | 'host',
  handshake: Uint8Array,
  proof: string,
): boolean {
  const expected = Buffer.from(proveInvite(secret, role, handshake));
  const given = Buffer.from(proof);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function readPlaces(bytes: Buffer): string[] {
  const places: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + bytes[at]!;
    if (end > bytes.length) throw malformed('it ends too early');
    places.push(bytes.toString('utf8', at + 1, end));
    at = end;
  }
  return places;
}

function checksum(body: Uint8Array): Buffer {
  return createHash('sha256').update(body).digest().subarray(0, CHECK_BYTES);
}

function toBase32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += DIGITS[(value >>> (bits - 5)) & 31];
  }
  return bits === 0 ? text : text + DIGITS[(value << (5 - bits)) & 31];
}

function fromBase32(text: string): Buffer {
  const bytes: number[] = [];
  let bits = 0;
  let value = 0;
  for (const character of text) {
    const digit = DIGITS.indexOf(character);
    if (digit < 0) throw malformed(`"${character}" does not belong in it`);
    value = ((value << 5) | digit) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((value >>> bits) & 0xff);
  }
  return Buffer.from(bytes);
}

function malformed(reason: string): EclipticError {
  return new EclipticError('INVALID_INVITE', `this is not an invite code: ${reason}`, { reason });
}
