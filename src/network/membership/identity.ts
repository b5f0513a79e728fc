import { createPrivateKey, createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { writePrivately } from '../../system/files/private-file.js';
import { statement } from './statement.js';

/** A node's key in addresses and files: 32 bytes as lower-case hex. */
export const NODE_KEY = /^[0-9a-f]{64}$/;

const SEED_BYTES = 32;
const SEED_FILE = 'node.key';
// The fixed bytes before a bare Ed25519 key in the DER documents that node:crypto reads.
const PRIVATE_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const PUBLIC_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** A signing key pair, of a node or of a mesh's root, identified by its public key. */
export class Identity {
  readonly key: string;
  readonly #seed: Buffer;
  readonly #private: KeyObject;

  private constructor(seed: Uint8Array) {
    this.#seed = Buffer.from(seed);
    this.#private = createPrivateKey({
      key: Buffer.concat([PRIVATE_PREFIX, this.#seed]),
      format: 'der',
      type: 'pkcs8',
    });
    const der = createPublicKey(this.#private).export({ format: 'der', type: 'spki' });
    this.key = der.subarray(PUBLIC_PREFIX.length).toString('hex');
  }

  static fromSeed(seed: Uint8Array): Identity {
    return new Identity(seed);
  }

  static create(runtime: Runtime): Identity {
    return new Identity(runtime.bytes(SEED_BYTES));
  }

  /** The identity in a data folder, by default the node's. Creates it, readable by its owner only, if it is missing. */
  static keptIn(folder: string, runtime: Runtime, name = SEED_FILE): Identity {
    const file = join(folder, name);
    try {
      if (!existsSync(file)) writePrivately(file, Buffer.from(runtime.bytes(SEED_BYTES)).toString('hex'));
      makePrivate(file, runtime);
      const text = readFileSync(file, 'utf8').trim();
      if (NODE_KEY.test(text)) return new Identity(Buffer.from(text, 'hex'));
    } catch (error) {
      throw new EclipticError('DATA_FOLDER', `cannot use ${file}: ${describeError(error)}`, { file }, error);
    }
    throw new EclipticError(
      'DATA_FOLDER',
      `${file} does not hold a key; restore it, or remove it to get a new identity`,
      {
        file,
      },
    );
  }

  /** The seed, for the file that stores a mesh's root. */
  get seed(): string {
    return this.#seed.toString('hex');
  }

  /** For the Noise handshake of a link. */
  get keyPair(): { publicKey: Buffer; secretKey: Buffer } {
    const publicKey = Buffer.from(this.key, 'hex');
    return { publicKey, secretKey: Buffer.concat([this.#seed, publicKey]) };
  }

  sign(purpose: string, value: unknown): string {
    return sign(null, statement(purpose, value), this.#private).toString('base64url');
  }
}

/** Closes a key file that other users can read, and warns the owner: they may have copied it. */
function makePrivate(file: string, runtime: Runtime): void {
  const mode = statSync(file).mode & 0o777;
  if (process.platform === 'win32' || (mode & 0o077) === 0) return;
  chmodSync(file, 0o600);
  const was = mode.toString(8).padStart(4, '0');
  runtime.logger.warn({ file, mode: was }, 'key file was open to other users; its mode is 0600 now');
}

/** Points of small order, without their sign: for these, one signature fits every message. */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

/** Is this the key of a node that alone can sign with it? */
export function isNodeKey(key: string): boolean {
  if (!NODE_KEY.test(key)) return false;
  const last = (Number.parseInt(key.slice(62), 16) & 0x7f).toString(16).padStart(2, '0');
  return !SMALL_ORDER.has(key.slice(0, 62) + last);
}

/** Did the holder of `key` sign exactly this value for exactly this purpose? */
export function isSignedBy(key: string, purpose: string, value: unknown, signature: string): boolean {
  if (!isNodeKey(key)) return false;
  try {
    const bytes = Buffer.from(signature, 'base64url');
    // Accept one spelling of a signature only.
    if (bytes.toString('base64url') !== signature) return false;
    const signed = statement(purpose, value);
    const proof = hash('sha256', Buffer.concat([Buffer.from(key, 'hex'), bytes, signed]), 'base64');
    if (proofs.has(proof)) return true;
    if (!verify(null, signed, publicKeyOf(key), bytes)) return false;
    const [oldest] = proofs;
    if (oldest !== undefined && proofs.size >= MAX_PROOFS) proofs.delete(oldest);
    proofs.add(proof);
    return true;
  } catch {
    return false;
  }
}

/** Signatures that held lately. All nodes of a process read the same entries, and a check costs twenty times as much. */
const proofs = new Set<string>();
const MAX_PROOFS = 2_048;

/** Making a key object costs more than checking a signature with it, so recent ones are cached. */
const keyCache = new Map<string, KeyObject>();
const MAX_CACHED_KEYS = 512;

function publicKeyOf(key: string): KeyObject {
  let found = keyCache.get(key);
  if (!found) {
    const der = Buffer.concat([PUBLIC_PREFIX, Buffer.from(key, 'hex')]);
    found = createPublicKey({ key: der, format: 'der', type: 'spki' });
    if (keyCache.size >= MAX_CACHED_KEYS) keyCache.clear();
    keyCache.set(key, found);
  }
  return found;
}
