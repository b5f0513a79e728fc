import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { isNodeKey } from './identity.js';

// The fixed bytes before a bare X25519 key in the DER documents that node:crypto reads.
const PRIVATE_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const PUBLIC_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');
const CIPHER = 'aes-256-gcm';
/** Each box has a key of its own, so that one nonce serves all. */
const NONCE = Buffer.alloc(12);
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const VERSION = 1;
const HEAD_BYTES = 1 + KEY_BYTES + TAG_BYTES;
/** What a box adds to the size of its content. */
export const BOX_BYTES = HEAD_BYTES;

/** The prime of Curve25519. */
const P = 2n ** 255n - 19n;

const MAX_CACHED_KEYS = 512;

/**
 * Encrypts bytes so that one node alone can read them: a fresh X25519 key for each box, agreed with the X25519 form of the
 * recipient's key. A box does not prove who made it; its content must be signed.
 */
export class SealedBoxes {
  readonly #runtime: Pick<Runtime, 'bytes'>;
  readonly #private: KeyObject;
  readonly #public: Buffer;
  readonly #recipients = new Map<string, { readonly key: KeyObject; readonly bytes: Buffer }>();

  /** `seed`: this node's 32 bytes as hex. */
  constructor(runtime: Pick<Runtime, 'bytes'>, seed: string) {
    this.#runtime = runtime;
    const secret = createHash('sha512').update(Buffer.from(seed, 'hex')).digest().subarray(0, KEY_BYTES);
    this.#private = privateKey(secret);
    this.#public = bytesOf(this.#private);
  }

  /** A box for that node; it opens only with the same context. */
  seal(node: string, context: string, content: Uint8Array): Buffer {
    const recipient = this.#recipient(node);
    const own = privateKey(this.#runtime.bytes(KEY_BYTES));
    const point = bytesOf(own);
    const key = boxKey(own, recipient.key, point, recipient.bytes);
    const cipher = createCipheriv(CIPHER, key, NONCE).setAAD(Buffer.from(context));
    const body = Buffer.concat([cipher.update(content), cipher.final()]);
    return Buffer.concat([Buffer.from([VERSION]), point, cipher.getAuthTag(), body]);
  }

  /** The content of a box for this node; undefined if it is none, or was changed, or has another context. */
  open(context: string, box: Uint8Array): Buffer | undefined {
    if (box.byteLength < HEAD_BYTES || box[0] !== VERSION) return undefined;
    try {
      const point = Buffer.from(box.subarray(1, 1 + KEY_BYTES));
      const key = boxKey(this.#private, publicKey(point), point, this.#public);
      const decipher = createDecipheriv(CIPHER, key, NONCE).setAAD(Buffer.from(context));
      decipher.setAuthTag(box.subarray(1 + KEY_BYTES, HEAD_BYTES));
      return Buffer.concat([decipher.update(box.subarray(HEAD_BYTES)), decipher.final()]);
    } catch {
      return undefined;
    }
  }

  #recipient(node: string): { readonly key: KeyObject; readonly bytes: Buffer } {
    const known = this.#recipients.get(node);
    if (known) return known;
    if (!isNodeKey(node)) throw new EclipticError('INVALID_ARGUMENTS', `"${node}" is not a node key`);
    const bytes = montgomery(Buffer.from(node, 'hex'));
    const made = { key: publicKey(bytes), bytes };
    if (this.#recipients.size >= MAX_CACHED_KEYS) this.#recipients.clear();
    this.#recipients.set(node, made);
    return made;
  }
}

function boxKey(own: KeyObject, other: KeyObject, point: Buffer, recipient: Buffer): Buffer {
  const shared = diffieHellman({ privateKey: own, publicKey: other });
  const salt = Buffer.concat([point, recipient]);
  return Buffer.from(hkdfSync('sha256', shared, salt, 'ecliptic sealed box', KEY_BYTES));
}

/** The X25519 form of an Ed25519 public key: u = (1 + y) / (1 − y). */
function montgomery(key: Buffer): Buffer {
  const bytes = Buffer.from(key).reverse();
  bytes[0]! &= 0x7f;
  const y = BigInt(`0x${bytes.toString('hex')}`) % P;
  const u = ((1n + y) * power((1n + P - y) % P, P - 2n)) % P;
  return Buffer.from(u.toString(16).padStart(64, '0'), 'hex').reverse();
}

function power(base: bigint, exponent: bigint): bigint {
  let [result, square] = [1n, base];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % P;
    square = (square * square) % P;
  }
  return result;
}

function privateKey(secret: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.concat([PRIVATE_PREFIX, secret]), format: 'der', type: 'pkcs8' });
}

function publicKey(bytes: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([PUBLIC_PREFIX, bytes]), format: 'der', type: 'spki' });
}

function bytesOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(PUBLIC_PREFIX.length);
}
