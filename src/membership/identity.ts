import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { statement } from './statement.js';

/** What a node's key looks like in addresses and files: 32 bytes as lower-case hex. */
export const NODE_KEY = /^[0-9a-f]{64}$/;

const SEED_BYTES = 32;
const SEED_FILE = 'node.key';
// The fixed bytes that make a bare Ed25519 key the document that node:crypto reads.
const PRIVATE_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const PUBLIC_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** A key pair that signs: a node's, or a mesh's root. Known by its public key. */
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

  /** The identity kept in a data folder; made on the first call, readable by its owner only. */
  static keptIn(folder: string, runtime: Runtime): Identity {
    const file = join(folder, SEED_FILE);
    try {
      if (!existsSync(file)) writePrivately(file, Buffer.from(runtime.bytes(SEED_BYTES)).toString('hex'));
      const text = readFileSync(file, 'utf8').trim();
      if (NODE_KEY.test(text)) return new Identity(Buffer.from(text, 'hex'));
    } catch (error) {
      throw new EclipticError('DATA_FOLDER', `cannot use ${file}: ${describeError(error)}`, { file }, error);
    }
    throw new EclipticError('DATA_FOLDER', `${file} does not hold a key; restore it, or remove it to start anew`, {
      file,
    });
  }

  /** The seed, for the one file that keeps a mesh's root. */
  get seed(): string {
    return this.#seed.toString('hex');
  }

  /** As the Noise handshake of a link wants it. */
  get keyPair(): { publicKey: Buffer; secretKey: Buffer } {
    const publicKey = Buffer.from(this.key, 'hex');
    return { publicKey, secretKey: Buffer.concat([this.#seed, publicKey]) };
  }

  sign(purpose: string, value: unknown): string {
    return sign(null, statement(purpose, value), this.#private).toString('base64url');
  }
}

/** Did the holder of `key` sign exactly this value for exactly this purpose? */
export function isSignedBy(key: string, purpose: string, value: unknown, signature: string): boolean {
  if (!NODE_KEY.test(key)) return false;
  try {
    const der = Buffer.concat([PUBLIC_PREFIX, Buffer.from(key, 'hex')]);
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' });
    return verify(null, statement(purpose, value), publicKey, Buffer.from(signature, 'base64url'));
  } catch {
    // Bytes that are no key sign nothing.
    return false;
  }
}

/** Writes a file that did not exist, for its owner only, and makes sure that it is on the disk. */
function writePrivately(file: string, text: string): void {
  const handle = openSync(file, 'wx', 0o600);
  try {
    writeSync(handle, text);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
