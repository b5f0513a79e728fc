import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto';
import { type Dirent, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { createPrivately } from '../files/private-file.js';
import { CredentialNameSchema } from './credential-source.js';

/** The owner and name of a credential. */
export interface Place {
  readonly provider: string;
  readonly workspace: string;
  readonly name: string;
}

export const KEY_BYTES = 32;
export const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

/** An id that reveals nothing about the key. */
export function keyId(master: Uint8Array): string {
  return createHash('sha256').update(derive(master, 'name of the key')).digest('hex').slice(0, 16);
}

/** Encrypts text for one place. Decryption needs the same place and `about`. */
export function seal(master: Uint8Array, place: Place, about: string, text: string, nonce: Uint8Array): string {
  const cipher = createCipheriv(CIPHER, placeKey(master, place), nonce);
  cipher.setAAD(associated(place, about));
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
}

/** Undefined where the text was changed, or encrypted for another place or with another key. */
export function unseal(master: Uint8Array, place: Place, about: string, sealed: string): string | undefined {
  const bytes = Buffer.from(sealed, 'base64');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const tagAt = bytes.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, placeKey(master, place), bytes.subarray(0, NONCE_BYTES));
  decipher.setAAD(associated(place, about));
  decipher.setAuthTag(bytes.subarray(tagAt));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, tagAt)), decipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}

function placeKey(master: Uint8Array, { provider, workspace }: Place): Uint8Array {
  return derive(master, JSON.stringify(['provider', workspace, provider]));
}

function associated({ provider, workspace, name }: Place, about: string): Buffer {
  return Buffer.from(JSON.stringify(['ecliptic credential', provider, workspace, name, about]));
}

function derive(master: Uint8Array, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', master, 'ecliptic credentials', purpose, KEY_BYTES));
}

const StoredSchema = z.strictObject({
  version: z.literal(1),
  /** Id of the master key. */
  key: z.string().min(1),
  provider: CredentialNameSchema,
  workspace: CredentialNameSchema,
  name: CredentialNameSchema,
  id: z.string().min(1),
  /** The id of the value that was set last; rotations keep it. */
  lineage: z.string().min(1),
  at: z.number(),
  /** How long holders of the previous value may use it. */
  graceMs: z.number().nonnegative(),
  state: z.enum(['set', 'revoked']),
  /** Empty for a revoked credential. */
  sealed: z.string(),
});

export type Stored = Readonly<z.infer<typeof StoredSchema>>;

/** A stored credential and its revision number. */
export interface Revision {
  readonly revision: number;
  readonly file: string;
  readonly stored: Stored;
}

/** Credentials, revoked ones included. */
const MAX_PLACES = 10_000;
/** Earlier revision numbers that stay taken, so that a slow writer notices that others were faster. */
const KEPT_NUMBERS = 100;
/** An older draft was abandoned. */
const DRAFT_MS = 60_000;
const REVISION = /^(\d+)\.json$/;

/**
 * The files of the credentials: one folder for each, with numbered revisions of which all but the latest are empty.
 * Several processes may read and write at once: a revision appears whole, and follows the one before it.
 */
export class CredentialFiles {
  readonly #runtime: Runtime;
  readonly #folder: string;

  constructor(runtime: Runtime, folder: string) {
    this.#runtime = runtime;
    this.#folder = folder;
  }

  /** Undefined where there is none. A damaged file is refused, never treated as absent. */
  read(place: Place): Revision | undefined {
    return this.#readIn(this.#folderOf(place));
  }

  /** All credentials; an error in place of each that cannot be read. */
  all(): (Revision | EclipticError)[] {
    return this.#places().flatMap((name) => {
      try {
        return this.#readIn(join(this.#folder, name)) ?? [];
      } catch (error) {
        return error as EclipticError;
      }
    });
  }

  /** Writes the revision that `next` returns; `next` is called again where another process was faster. */
  write(place: Place, next: (now: Revision | undefined) => Stored): Revision {
    const folder = this.#folderOf(place);
    for (;;) {
      const now = this.#readIn(folder);
      const stored = next(now);
      const revision = (now?.revision ?? 0) + 1;
      const file = join(folder, `${revision}.json`);
      try {
        if (!existsSync(folder)) this.#add(folder);
        if (!createPrivately(file, `${JSON.stringify(stored)}\n`, this.#runtime.id())) continue;
      } catch (error) {
        if (error instanceof EclipticError) throw error;
        throw new EclipticError('DATA_FOLDER', `cannot write ${file}: ${describeError(error)}`, { file }, error);
      }
      const latest = revisionsIn(folder)[0] ?? revision;
      if (latest - revision < KEPT_NUMBERS) {
        this.#tidy(folder, latest);
        return { revision, file, stored };
      }
      // The number was free because its earlier use had been removed.
      rmSync(file, { force: true });
    }
  }

  #add(folder: string): void {
    const { length } = this.#places();
    if (length >= MAX_PLACES) throw new EclipticError('QUEUE_FULL', `${length} credentials are kept already`);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  #places(): string[] {
    return entriesOf(this.#folder)
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  }

  #readIn(folder: string): Revision | undefined {
    for (;;) {
      const revision = revisionsIn(folder)[0];
      if (revision === undefined) return undefined;
      const file = join(folder, `${revision}.json`);
      const stored = parse(textOf(file));
      // Another process has replaced the revision meanwhile.
      if (!stored && revisionsIn(folder)[0] !== revision) continue;
      if (!stored) throw unreadable(file, 'is damaged, or of a newer release');
      if (this.#folderOf(stored) !== folder) throw unreadable(file, 'belongs to another credential');
      return { revision, file, stored };
    }
  }

  /** Empties earlier revisions, and removes the drafts of crashed writers. */
  #tidy(folder: string, latest: number): void {
    try {
      for (const revision of revisionsIn(folder)) {
        const file = join(folder, `${revision}.json`);
        if (revision <= latest - KEPT_NUMBERS) rmSync(file, { force: true });
        else if (revision < latest && (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0) truncateSync(file);
      }
      const drafts = entriesOf(folder).filter(({ name }) => name.endsWith('.new'));
      for (const draft of drafts.map(({ name }) => join(folder, name))) {
        const { mtimeMs } = statSync(draft, { throwIfNoEntry: false }) ?? {};
        if (mtimeMs !== undefined && this.#runtime.now() - mtimeMs > DRAFT_MS) rmSync(draft, { force: true });
      }
    } catch (error) {
      this.#runtime.logger.warn(
        { folder, error: describeError(error) },
        'earlier credential revisions could not be removed',
      );
    }
  }

  #folderOf({ provider, workspace, name }: Place): string {
    const slot = createHash('sha256')
      .update(JSON.stringify([provider, workspace, name]))
      .digest('hex');
    return join(this.#folder, slot.slice(0, 32));
  }
}

export function unreadable(file: string, what: string, cause?: unknown): EclipticError {
  const message = `${file} ${what}. Put back a copy, or move it away and set the credential again`;
  return new EclipticError('CREDENTIAL_UNREADABLE', message, { file }, cause);
}

/** Empty where there is no such folder. */
export function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new EclipticError('DATA_FOLDER', `cannot read ${folder}: ${describeError(error)}`, { path: folder }, error);
  }
}

/** Latest first. */
function revisionsIn(folder: string): number[] {
  return entriesOf(folder)
    .map(({ name }) => Number(REVISION.exec(name)?.[1] ?? Number.NaN))
    .filter((revision) => !Number.isNaN(revision))
    .sort((a, b) => b - a);
}

/** Empty where there is no such file. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw unreadable(file, `cannot be read (${describeError(error)})`, error);
  }
}

function parse(text: string): Stored | undefined {
  try {
    return StoredSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
