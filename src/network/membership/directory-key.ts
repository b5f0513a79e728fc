import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { removePrivately, writePrivately } from '../../system/files/private-file.js';

export const DirectorySecretSchema = z.tuple([
  z.int().positive().max(1_000_000_000),
  z.string().regex(/^[0-9a-f]{64}$/),
]);
/** A generation and its secret; the later generation counts and, of two of the same generation, the greater secret. */
export type DirectorySecret = z.infer<typeof DirectorySecretSchema>;

/** Removals in a row that a node may have missed. */
const MAX_SKIPPED = 10_000;

interface DirectoryKeyInit {
  /** The data folder. Without one, the secret ends with the process. */
  folder?: string | undefined;
}

/**
 * The secret under which a broker holds the directory, known to full members only. The founder makes the first one; a node
 * that removes another makes the next, so that the removed node cannot read later entries. Members pass it on to each other.
 */
export class DirectoryKey {
  readonly #runtime: Runtime;
  readonly #file: string | undefined;
  #secret: DirectorySecret | undefined;
  #bytes: Buffer | undefined;

  constructor(runtime: Runtime, { folder }: DirectoryKeyInit = {}) {
    this.#runtime = runtime;
    this.#file = folder === undefined ? undefined : join(folder, 'directory-key.json');
    this.#secret = this.#file === undefined ? undefined : load(this.#file);
  }

  get secret(): DirectorySecret | undefined {
    return this.#secret;
  }

  get bytes(): Buffer | undefined {
    if (!this.#secret) return undefined;
    this.#bytes ??= createHash('sha256').update('ecliptic directory key 1\n').update(this.#secret[1]).digest();
    return this.#bytes;
  }

  /** Makes the first secret, or the next. */
  renew(): void {
    const secret = Buffer.from(this.#runtime.bytes(32)).toString('hex');
    this.#set([(this.#secret?.[0] ?? 0) + 1, secret]);
  }

  /** Takes a secret that another member passed on. True if it is a later one. */
  take(other: DirectorySecret): boolean {
    const own = this.#secret;
    // A member that skips generations would use them up.
    if (own && other[0] > own[0] + MAX_SKIPPED) return false;
    if (own && (other[0] < own[0] || (other[0] === own[0] && other[1] <= own[1]))) return false;
    this.#set(other);
    return true;
  }

  clear(): void {
    this.#secret = undefined;
    if (this.#file !== undefined) removePrivately(this.#file);
  }

  #set(secret: DirectorySecret): void {
    if (this.#file !== undefined) writePrivately(this.#file, JSON.stringify(secret));
    this.#secret = secret;
    this.#bytes = undefined;
  }
}

function load(file: string): DirectorySecret | undefined {
  if (!existsSync(file)) return undefined;
  try {
    return DirectorySecretSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    const reason = `${describeError(error)}; remove the file, and another member gives this node the key again`;
    throw new EclipticError('DATA_FOLDER', `cannot use ${file}: ${reason}`, { file }, error);
  }
}
