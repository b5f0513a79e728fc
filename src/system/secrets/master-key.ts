import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { createPrivately } from '../files/private-file.js';
import { entriesOf, KEY_BYTES, keyId } from './credential-files.js';
import type { Keychain } from './keychain.js';

const FileSchema = z.discriminatedUnion('kept', [
  z.strictObject({ version: z.literal(1), id: z.string().min(1), kept: z.literal('here'), key: z.base64() }),
  z.strictObject({ version: z.literal(1), id: z.string().min(1), kept: z.literal('keychain') }),
]);

type KeyFile = z.infer<typeof FileSchema>;

interface MasterKeyComponents {
  runtime: Runtime;
  /** Holds the key where there is a keychain. */
  keychain?: Keychain | undefined;
}

export interface NamedKey {
  readonly id: string;
  readonly key: Uint8Array;
}

/** The master key of a folder of credentials: in the keychain, or beside them in a file that only the owner can read. */
export class MasterKey {
  readonly #components: MasterKeyComponents;
  readonly #folder: string;
  readonly #file: string;
  #loaded: NamedKey | undefined;
  #loading: Promise<NamedKey> | undefined;

  constructor(components: MasterKeyComponents, folder: string) {
    this.#components = components;
    this.#folder = folder;
    this.#file = join(folder, 'key.json');
  }

  get isLoaded(): boolean {
    return this.#loaded !== undefined;
  }

  /** The key is made on first use. A failed call may be repeated: the keychain may be unlocked meanwhile. */
  async get(): Promise<NamedKey> {
    if (this.#loaded) return this.#loaded;
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    this.#loaded = await this.#loading;
    return this.#loaded;
  }

  async #load(): Promise<NamedKey> {
    const file = this.#read();
    return file ? this.#open(file) : this.#make();
  }

  #read(): KeyFile | undefined {
    if (!existsSync(this.#file)) return undefined;
    try {
      return FileSchema.parse(JSON.parse(readFileSync(this.#file, 'utf8')));
    } catch {
      throw this.#unusable('is damaged, or of a newer release');
    }
  }

  async #open(file: KeyFile): Promise<NamedKey> {
    const text = file.kept === 'here' ? file.key : await this.#components.keychain?.read(accountOf(file.id));
    if (text === undefined)
      throw this.#unusable('names a key that the keychain does not give; unlock it and try again');
    const key = Buffer.from(text, 'base64');
    if (key.length !== KEY_BYTES || keyId(key) !== file.id) throw this.#unusable('does not go with its key');
    return { id: file.id, key };
  }

  async #make(): Promise<NamedKey> {
    this.#refuseToReplace();
    const { runtime, keychain } = this.#components;
    const key = runtime.bytes(KEY_BYTES);
    const id = keyId(key);
    const text = Buffer.from(key).toString('base64');
    const inKeychain = (await keychain?.write(accountOf(id), text)) ?? false;
    const file: KeyFile = inKeychain
      ? { version: 1, id, kept: 'keychain' }
      : { version: 1, id, kept: 'here', key: text };
    if (this.#claim(file)) return { id, key };
    // Another process was first: its key is the master key.
    if (inKeychain) await keychain!.remove(accountOf(id));
    return this.#open(this.#read()!);
  }

  /** A new key could not decrypt the present credentials. */
  #refuseToReplace(): void {
    const count = entriesOf(this.#folder).filter((entry) => entry.isDirectory()).length;
    // Another process may have made both just now; it makes the key first.
    if (count > 0 && !existsSync(this.#file)) throw this.#unusable(`is gone, and ${count} credentials need it`);
  }

  #claim(file: KeyFile): boolean {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      return createPrivately(this.#file, `${JSON.stringify(file)}\n`, this.#components.runtime.id());
    } catch (error) {
      throw new EclipticError('DATA_FOLDER', `cannot write ${this.#file}: ${describeError(error)}`, {}, error);
    }
  }

  #unusable(what: string): EclipticError {
    const message = `${this.#file} ${what}. Put back a copy, or move ${this.#folder} away and set the credentials again`;
    return new EclipticError('CREDENTIAL_UNREADABLE', message, { file: this.#file });
  }
}

function accountOf(id: string): string {
  return `credentials-${id}`;
}
