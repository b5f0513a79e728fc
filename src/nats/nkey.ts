import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from 'node:crypto';

const PRIVATE_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const PUBLIC_PREFIX_BYTES = 12;
/** The prefix byte of a user's public key: its text begins with `U`. */
const USER = 20 << 3;
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** A user's public key as servers and their configuration spell it. */
export const NKEY_USER = /^U[A-Z2-7]{55}$/;

/**
 * The key with which a node logs in at a broker. The client signs whatever nonce the broker sends, so this key is derived
 * from the node's seed under a label of its own, and never is the key that signs certificates and cards.
 */
export class BrokerKey {
  /** The public key, for the server's configuration. */
  readonly text: string;
  readonly #private: KeyObject;

  /** `seed`: the node's 32 bytes as hex. */
  constructor(seed: string) {
    const derived = Buffer.from(hkdfSync('sha256', Buffer.from(seed, 'hex'), 'ecliptic nats', 'broker login', 32));
    const der = Buffer.concat([PRIVATE_PREFIX, derived]);
    this.#private = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    const spki = createPublicKey(this.#private).export({ format: 'der', type: 'spki' });
    this.text = encode(USER, spki.subarray(PUBLIC_PREFIX_BYTES));
  }

  /** Answers a broker's nonce. */
  sign(nonce: string): string {
    return sign(null, Buffer.from(nonce), this.#private).toString('base64url');
  }
}

/** One prefix byte, the key and a CRC-16 (little-endian) in base32 without padding. */
function encode(prefix: number, key: Uint8Array): string {
  const body = Buffer.concat([Buffer.from([prefix]), key]);
  const check = Buffer.alloc(2);
  check.writeUInt16LE(crc16(body));
  return base32(Buffer.concat([body, check]));
}

/** CRC-16/XMODEM. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc & 0x8000) !== 0 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc;
}

function base32(bytes: Uint8Array): string {
  let text = '';
  let [value, bits] = [0, 0];
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32[(value >>> bits) & 31];
    }
    value &= (1 << bits) - 1;
  }
  return bits > 0 ? text + BASE32[(value << (5 - bits)) & 31] : text;
}
