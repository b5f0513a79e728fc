import { createHash, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { LIMITS } from '../../mesh/limits.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { writePrivately } from '../../system/files/private-file.js';

/** What a token may be used for: tasks of A2A clients, and everything that is offered over MCP. */
export const SCOPES = ['tasks', 'tools'] as const;

export type Scope = (typeof SCOPES)[number];

const TokenSchema = z.strictObject({
  id: z.string().min(1),
  /** The name that its bearer goes by. */
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
  /** The sandbox that its bearer is in. */
  sandbox: z.string().min(1).max(LIMITS.idChars).optional(),
  /** What it may be used for. Without them: everything that its bearer may do. */
  scopes: z.array(z.enum(SCOPES)).min(1).optional(),
  /** SHA-256 of the secret. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  createdAt: z.number(),
});

const FileSchema = z.strictObject({ version: z.literal(1), tokens: z.array(TokenSchema) });

type Token = z.infer<typeof TokenSchema>;

/** What may be shown of a token. */
export type TokenRow = Omit<Token, 'hash'>;

export interface TokensComponents {
  runtime: Runtime;
  /** Where the tokens are kept. Without one they end with the process. */
  folder: string | undefined;
}

/** Names of JWT callers begin with this, and names of tokens never do. */
export const JWT_NAME_PREFIX = 'jwt-';

const FILE = 'tokens.json';
const OWNERS_FILE = 'owner.token';
const PREFIX = 'ecl_';
/** Names that mean somebody already. */
const RESERVED: ReadonlySet<string> = new Set(['operator', 'guest']);

/**
 * Bearer tokens: each stands for a name, and perhaps a sandbox. Only hashes are kept, but for the owner's own: it is in a
 * file for the owner only, so that it stays the same across restarts and can be replaced.
 */
export class Tokens {
  #owners: string;
  #ownersId: string;
  readonly #ownersFile: string | undefined;
  readonly #runtime: Runtime;
  readonly #file: string | undefined;
  readonly #byHash: Map<string, Token>;
  /** Those that end with the process: by hash, and the secrets by whom they were lent to. */
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

  /** The owner's own token. */
  get owners(): string {
    return this.#owners;
  }

  /** What the owner's present token is called. */
  get ownersId(): string {
    return this.#ownersId;
  }

  /** Ends the owner's token and makes another one. Returns what the ended one was called. */
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

  /** Who a secret stands for. It is looked up by its hash, which tells nobody how much of a guess was right. */
  find(secret: string): TokenRow | undefined {
    const hash = hashOf(secret);
    return this.#byHash.get(hash) ?? this.#lent.get(hash);
  }

  /** The sandbox that whoever goes by that name is in. */
  sandboxOf(name: string): string | undefined {
    return this.list.find((token) => token.name === name)?.sandbox;
  }

  get list(): TokenRow[] {
    return [...this.#byHash.values()].map(({ hash: _, ...row }) => row);
  }

  /** Makes a token; its secret is told this once. */
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
   * The token for child processes that act in the name of an agent of this node. It stays in the sandbox in which it was
   * lent, also when the agent leaves; it is kept nowhere, and ends with the node.
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

  /** Ends a token, by its id or, if it is the only one, its name. */
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
