import { createHash, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { LIMITS } from '../../mesh/limits.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { writePrivately } from '../../system/files/private-file.js';

/** A2A tasks, and everything over MCP. */
export const SCOPES = ['tasks', 'tools'] as const;

export type Scope = (typeof SCOPES)[number];

const TokenSchema = z.strictObject({
  id: z.string().min(1),
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
  sandbox: z.string().min(1).max(LIMITS.idChars).optional(),
  /** Undefined for all. */
  scopes: z.array(z.enum(SCOPES)).min(1).optional(),
  /** SHA-256 of the secret. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  createdAt: z.number(),
});

const FileSchema = z.strictObject({ version: z.literal(1), tokens: z.array(TokenSchema) });

type Token = z.infer<typeof TokenSchema>;

/** The part of a token that may be shown. */
export type TokenRow = Omit<Token, 'hash'>;

export interface TokensComponents {
  runtime: Runtime;
  /** Without a folder, tokens end with the process. */
  folder: string | undefined;
}

/** Names of JWT callers begin with this, and names of tokens never do. */
export const JWT_NAME_PREFIX = 'jwt-';

const FILE = 'tokens.json';
const OWNERS_FILE = 'owner.token';
const PREFIX = 'ecl_';
/** Names with a fixed meaning. */
const RESERVED: ReadonlySet<string> = new Set(['operator', 'guest']);

/**
 * Bearer tokens, each for a name and optionally a sandbox. Only hashes are stored, except for the owner's token: it is
 * in a private file, so that it survives restarts and can be rotated.
 */
export class Tokens {
  #owners: string;
  #ownersId: string;
  readonly #ownersFile: string | undefined;
  readonly #runtime: Runtime;
  readonly #file: string | undefined;
  readonly #byHash: Map<string, Token>;
  /** Tokens that end with the process: rows by hash, and secrets by agent and sandbox. */
  readonly #lent = new Map<string, TokenRow>();
  readonly #lentTo = new Map<string, string>();

  constructor({ runtime, folder }: TokensComponents) {
    this.#runtime = runtime;
    this.#file = folder && join(folder, FILE);
    this.#ownersFile = folder && join(folder, OWNERS_FILE);
    this.#ownersId = runtime.id();
    const kept = this.#ownersFile && readOwners(this.#ownersFile);
    this.#owners = kept ?? this.#secret();
    if (kept === undefined) this.#keepOwners();
    this.#byHash = new Map((this.#file ? read(this.#file) : []).map((token) => [token.hash, token]));
  }

  get owners(): string {
    return this.#owners;
  }

  get ownersId(): string {
    return this.#ownersId;
  }

  /** Replaces the owner's token. Returns the id of the old one. */
  rotateOwners(): string {
    const [token, id] = [this.#owners, this.#ownersId];
    this.#owners = this.#secret();
    try {
      this.#keepOwners();
    } catch (error) {
      this.#owners = token;
      throw error;
    }
    this.#ownersId = this.#runtime.id();
    return id;
  }

  isOwners(secret: string): boolean {
    return timingSafeEqual(Buffer.from(hashOf(secret)), Buffer.from(hashOf(this.#owners)));
  }

  /** The lookup is by hash, so its timing reveals nothing about the secret. */
  find(secret: string): TokenRow | undefined {
    const hash = hashOf(secret);
    return this.#byHash.get(hash) ?? this.#lent.get(hash);
  }

  sandboxOf(name: string): string | undefined {
    return this.list.find((token) => token.name === name)?.sandbox;
  }

  get list(): TokenRow[] {
    return [...this.#byHash.values()].map(({ hash: _, ...row }) => row);
  }

  /** Creates a token. Its secret is shown only here. */
  create(name: string, sandbox?: string, scopes?: readonly string[]): TokenRow & { token: string } {
    const secret = this.#secret();
    const row = { id: this.#runtime.id(), name, ...(sandbox !== undefined && { sandbox }), ...(scopes && { scopes }) };
    const parsed = TokenSchema.safeParse({ ...row, hash: hashOf(secret), createdAt: this.#runtime.now() });
    if (!parsed.success || RESERVED.has(name) || name.startsWith(JWT_NAME_PREFIX)) {
      const reason = parsed.success ? `"${name}" is taken` : parsed.error.issues[0]!.message;
      throw new EclipticError('USAGE', `a token’s name or sandbox cannot be used: ${reason}`, { name });
    }
    const namesake = this.list.find((token) => token.name === name);
    if (namesake && namesake.sandbox !== parsed.data.sandbox) {
      const place = namesake.sandbox === undefined ? 'in no sandbox' : `in sandbox "${namesake.sandbox}"`;
      throw new EclipticError('USAGE', `"${name}" is ${place} by another token; one name is one principal`, { name });
    }
    this.#write([...this.#byHash.values(), parsed.data]);
    this.#byHash.set(parsed.data.hash, parsed.data);
    const { hash: _, ...shown } = parsed.data;
    return { ...shown, token: secret };
  }

  /**
   * A token for child processes that act for an agent of this node. It stays in the sandbox in which it was lent, even
   * if the agent leaves, and ends with the node.
   */
  lend(agent: string, sandbox: string | undefined): string {
    const key = JSON.stringify([agent, sandbox]);
    const known = this.#lentTo.get(key);
    if (known !== undefined) return known;
    const secret = this.#secret();
    const row = { id: this.#runtime.id(), name: agent, ...(sandbox !== undefined && { sandbox }) };
    this.#lent.set(hashOf(secret), { ...row, createdAt: this.#runtime.now() });
    this.#lentTo.set(key, secret);
    return secret;
  }

  /** By id, or by a name that only one token has. */
  revoke(idOrName: string): TokenRow {
    const all = [...this.#byHash.values()];
    const named = all.filter(({ name }) => name === idOrName);
    const found = all.find(({ id }) => id === idOrName) ?? (named.length === 1 ? named[0] : undefined);
    if (!found) {
      const reason =
        named.length > 1 ? `${named.length} tokens have the name "${idOrName}"; give an id` : 'there is none';
      throw new EclipticError('TOKEN_NOT_FOUND', `no token "${idOrName}" can be revoked: ${reason}`);
    }
    this.#write(all.filter((token) => token !== found));
    this.#byHash.delete(found.hash);
    const { hash: _, ...row } = found;
    return row;
  }

  #secret(): string {
    return PREFIX + Buffer.from(this.#runtime.bytes(32)).toString('base64url');
  }

  #keepOwners(): void {
    if (this.#ownersFile) write(this.#ownersFile, `${this.#owners}\n`);
  }

  #write(tokens: readonly Token[]): void {
    if (this.#file) write(this.#file, `${JSON.stringify({ version: 1, tokens }, null, 2)}\n`);
  }
}

function write(file: string, text: string): void {
  try {
    writePrivately(file, text);
  } catch (error) {
    throw new EclipticError('DATA_FOLDER', `cannot write ${file}: ${describeError(error)}`, {}, error);
  }
}

function readOwners(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const text = readFileSync(file, 'utf8').trim();
  if (/^ecl_[\w-]{43}$/.test(text)) return text;
  throw new EclipticError('DATA_FOLDER', `${file} does not hold a token; remove it to have another one made`, { file });
}

function read(file: string): Token[] {
  if (!existsSync(file)) return [];
  try {
    return FileSchema.parse(JSON.parse(readFileSync(file, 'utf8'))).tokens;
  } catch (error) {
    const message = `${file} does not hold tokens; restore it, or remove it to start without any`;
    throw new EclipticError('DATA_FOLDER', message, { file }, error);
  }
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
