import { join } from 'node:path';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import {
  CredentialFiles,
  NONCE_BYTES,
  type Place,
  type Revision,
  type Stored,
  seal,
  unreadable,
  unseal,
} from './credential-files.js';
import { CredentialNameSchema, type CredentialSource, DEFAULT_WORKSPACE } from './credential-source.js';
import type { Keychain } from './keychain.js';
import { MasterKey, type NamedKey } from './master-key.js';
import { Secret } from './secret.js';

/** An operation on a credential, or its refusal. Never the value. */
export interface CredentialEvent extends Place {
  readonly kind: 'set' | 'rotated' | 'revoked' | 'accessed' | 'refused';
  /** Did a value end at once, also for its users? */
  readonly ended?: boolean;
  readonly error?: EclipticError;
}

interface CredentialsComponents {
  runtime: Runtime;
  keychain?: Keychain | undefined;
  report: (event: CredentialEvent) => void;
}

interface CredentialsInit {
  folder: string;
  /** How long a rotated value may still be used by those that hold it. Default 30 s. */
  graceMs?: number;
}

export interface CredentialRow {
  readonly provider: string | null;
  readonly workspace: string | null;
  readonly name: string | null;
  readonly state: 'set' | 'revoked' | 'unreadable';
  readonly revision: number | null;
  readonly changedAt: number | null;
  readonly fault: string | null;
}

const GRACE_MS = 30_000;
const MAX_VALUE_BYTES = 64 * 1_024;

/**
 * The credentials of a node: encrypted on disk, each for one provider in one workspace. `resolve` gives the latest value,
 * whichever process set it.
 */
export class Credentials implements CredentialSource {
  readonly #components: CredentialsComponents;
  readonly #files: CredentialFiles;
  readonly #key: MasterKey;
  readonly #grace: Grace;
  readonly #graceMs: number;
  readonly #listeners = new Set<(event: CredentialEvent) => void>();

  constructor(components: CredentialsComponents, { folder, graceMs = GRACE_MS }: CredentialsInit) {
    const { runtime } = components;
    const own = join(folder, 'credentials');
    this.#components = components;
    this.#files = new CredentialFiles(runtime, own);
    this.#key = new MasterKey(components, own);
    this.#grace = new Grace(runtime);
    this.#graceMs = graceMs;
  }

  /** Stores a value. An earlier value ends at once. */
  async set(place: Place, value: string): Promise<CredentialRow> {
    check(place, value);
    const key = await this.#key.get();
    const id = this.#components.runtime.id();
    let ended = false;
    const made = this.#files.write(place, (now) => {
      if (now) this.#open(key, now);
      ended = now?.stored.state === 'set';
      return this.#sealed(key, place, { id, lineage: id, graceMs: 0, state: 'set' }, value);
    });
    return this.#changed('set', made, ended);
  }

  /** Replaces a value. Holders of the earlier value may use it until the grace period is over. */
  async rotate(place: Place, value: string, graceMs = this.#graceMs): Promise<CredentialRow> {
    check(place, value);
    const id = this.#components.runtime.id();
    const key = await this.#keyTo(place);
    let before: Stored | undefined;
    const made = this.#files.write(place, (now) => {
      before = this.#usable(key, place, now).stored;
      return this.#sealed(key, place, { id, lineage: before.lineage, graceMs, state: 'set' }, value);
    });
    this.#grace.ends(before!.id, made.stored.at + graceMs);
    return this.#changed('rotated', made);
  }

  /** Ends a credential at once, also for its holders, and deletes its value. */
  async revoke(place: Place): Promise<CredentialRow> {
    const key = await this.#keyTo(place);
    const id = this.#components.runtime.id();
    const made = this.#files.write(place, (now) => {
      this.#usable(key, place, now);
      return this.#sealed(key, place, { id, lineage: id, graceMs: 0, state: 'revoked' }, '');
    });
    return this.#changed('revoked', made, true);
  }

  async list(provider?: string, workspace?: string): Promise<CredentialRow[]> {
    const found = this.#files.all();
    if (found.length === 0) return [];
    const key = await this.#key.get().catch((error: unknown) => toEclipticError(error, 'CREDENTIAL_UNREADABLE'));
    return found
      .map((one) => (one instanceof EclipticError ? faulty(one) : this.#row(key, one)))
      .filter((row) => provider === undefined || row.provider === provider)
      .filter((row) => workspace === undefined || row.workspace === workspace)
      .sort((a, b) => compare(a.provider, b.provider) || compare(a.workspace, b.workspace) || compare(a.name, b.name));
  }

  async resolve(provider: string, workspace: string, name: string): Promise<Secret> {
    const place = { provider, workspace, name };
    try {
      const key = await this.#keyTo(place);
      const { text, stored } = this.#usable(key, place, this.#files.read(place));
      this.#tell({ kind: 'accessed', ...place });
      return new Secret(text, () => this.#mayUse(place, stored));
    } catch (thrown) {
      const error = toEclipticError(thrown, 'CREDENTIAL_UNREADABLE');
      this.#tell({ kind: 'refused', ...place, error });
      throw error;
    }
  }

  /** Calls back with every change, once it is on disk. */
  onChange(listener: (event: CredentialEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Makes no key for a credential that does not exist. */
  async #keyTo(place: Place): Promise<NamedKey> {
    if (!this.#key.isLoaded && !this.#files.read(place)) throw missing(place);
    return this.#key.get();
  }

  #usable(key: NamedKey, place: Place, now: Revision | undefined): { text: string; stored: Stored } {
    if (!now) throw missing(place);
    const text = this.#open(key, now);
    if (now.stored.state === 'revoked') throw denied(place, 'was revoked');
    return { text, stored: now.stored };
  }

  #open(key: NamedKey, { file, stored }: Revision): string {
    if (stored.key !== key.id) throw unreadable(file, `was sealed with another key (${stored.key}, not ${key.id})`);
    const text = unseal(key.key, stored, about(stored), stored.sealed);
    if (text === undefined) throw unreadable(file, 'was tampered with, or is damaged');
    return text;
  }

  #sealed(
    key: NamedKey,
    { provider, workspace, name }: Place,
    more: Pick<Stored, 'id' | 'lineage' | 'graceMs' | 'state'>,
    value: string,
  ): Stored {
    const { runtime } = this.#components;
    const bare = { version: 1, key: key.id, provider, workspace, name, ...more, at: runtime.now() } as const;
    return { ...bare, sealed: seal(key.key, bare, about(bare), value, runtime.bytes(NONCE_BYTES)) };
  }

  /** Throws where a resolved value may no longer be used. */
  #mayUse(place: Place, given: Stored): void {
    const now = this.#files.read(place)?.stored;
    if (!now) throw missing(place);
    if (now.id === given.id) return;
    if (now.state === 'revoked') throw denied(place, 'was revoked');
    if (now.lineage !== given.lineage) throw denied(place, 'was replaced by another');
    if (!this.#grace.lasts(given.id, now.at + now.graceMs)) throw denied(place, 'was rotated, and its grace is over');
  }

  #row(key: NamedKey | EclipticError, found: Revision): CredentialRow {
    const { provider, workspace, name, state, at: changedAt } = found.stored;
    const row = { provider, workspace, name, state, revision: found.revision, changedAt, fault: null };
    try {
      if (key instanceof EclipticError) throw key;
      this.#open(key, found);
      return row;
    } catch (error) {
      return { ...row, state: 'unreadable', fault: (error as EclipticError).message };
    }
  }

  #changed(kind: CredentialEvent['kind'], { revision, stored }: Revision, ended = false): CredentialRow {
    const { provider, workspace, name, state, at: changedAt } = stored;
    const event = { kind, provider, workspace, name, ended };
    this.#tell(event);
    for (const listener of [...this.#listeners]) listener(event);
    return { provider, workspace, name, state, revision, changedAt, fault: null };
  }

  #tell(event: CredentialEvent): void {
    this.#components.report(event);
  }
}

/** The data that is authenticated together with the value. */
function about({ key, id, lineage, at, graceMs, state }: Omit<Stored, 'sealed'>): string {
  return JSON.stringify([key, id, lineage, at, graceMs, state]);
}

function check(place: Place, value: string): void {
  for (const part of ['provider', 'workspace', 'name'] as const) {
    if (CredentialNameSchema.safeParse(place[part]).success) continue;
    throw new EclipticError(
      'USAGE',
      `the ${part} of a credential must be up to 256 characters, none of them a control`,
    );
  }
  if (value === '') throw new EclipticError('USAGE', 'a credential must not be empty');
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES) {
    throw new EclipticError('PAYLOAD_TOO_LARGE', `a credential may be up to ${MAX_VALUE_BYTES} bytes long`);
  }
}

function missing(place: Place): EclipticError {
  const { provider, workspace, name } = place;
  const message = `there is no credential ${described(place)}; set it with: ${command(place)}`;
  return new EclipticError('CREDENTIAL_MISSING', message, { provider, workspace, name });
}

function denied(place: Place, why: string): EclipticError {
  const { provider, workspace, name } = place;
  const message = `the credential ${described(place)} ${why}; set another with: ${command(place)}`;
  return new EclipticError('CREDENTIAL_DENIED', message, { provider, workspace, name });
}

function described({ provider, workspace, name }: Place): string {
  return `"${name}" of "${provider}" in the workspace "${workspace}"`;
}

function command({ provider, workspace, name }: Place): string {
  const words = [provider, name].map((word) => (/^[\w@./-]+$/.test(word) ? word : JSON.stringify(word)));
  return `ecliptic credentials set ${words.join(' ')}${workspace === DEFAULT_WORKSPACE ? '' : ` --workspace ${JSON.stringify(workspace)}`}`;
}

function faulty(error: EclipticError): CredentialRow {
  const unknown = { provider: null, workspace: null, name: null, revision: null, changedAt: null };
  return { ...unknown, state: 'unreadable', fault: error.message };
}

function compare(a: string | null, b: string | null): number {
  return (a ?? '') < (b ?? '') ? -1 : (a ?? '') > (b ?? '') ? 1 : 0;
}

const MAX_REMEMBERED = 10_000;

/** The ends of replaced values. */
class Grace {
  readonly #runtime: Runtime;
  /** By value id, the earliest replaced first. */
  readonly #ends = new Map<string, number>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Records the end of a replaced value. The first call counts: replacing its successor does not extend it. */
  ends(id: string, at: number): void {
    if (this.#ends.has(id)) return;
    this.#ends.set(id, at);
    if (this.#ends.size <= MAX_REMEMBERED) return;
    for (const first of this.#ends.keys()) {
      this.#ends.delete(first);
      break;
    }
  }

  /** May the value still be used? `otherwise` is its end where another process replaced it. */
  lasts(id: string, otherwise: number): boolean {
    this.ends(id, otherwise);
    return this.#runtime.now() < this.#ends.get(id)!;
  }
}
