import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { NODE_KEY } from '../network/membership/identity.js';
import { writePrivately } from '../system/files/private-file.js';
import { NKEY_USER } from './nkey.js';

const FILE = 'nats-users.json';
const ALLOWED_FILE = 'nats-allowed.json';
const MAX_USERS = 16_384;
/** How long a node that is to join has access before it is a member. */
const ALLOWED_MS = 86_400_000;
const nodeKey = z.string().regex(NODE_KEY);
const nkey = z.string().regex(NKEY_USER);
const FileSchema = z.record(nodeKey, nkey);
const AllowedSchema = z.record(nodeKey, z.object({ nkey, until: z.number() }));

/**
 * The login keys of the nodes that were ever seen at the broker, for the server's configuration: a node that is switched
 * off must not lose its access. Each key came in an entry that its node signed.
 */
export class KnownUsers {
  readonly #file: string | undefined;
  readonly #allowedFile: string | undefined;
  readonly #users: Map<string, string>;
  readonly #allowed: Map<string, { readonly nkey: string; readonly until: number }>;

  /** Without a folder they end with the process. */
  constructor(folder: string | undefined) {
    this.#file = folder === undefined ? undefined : join(folder, FILE);
    this.#allowedFile = folder === undefined ? undefined : join(folder, ALLOWED_FILE);
    this.#users = new Map(Object.entries(read(this.#file, FileSchema)));
    this.#allowed = new Map(Object.entries(read(this.#allowedFile, AllowedSchema)));
  }

  get all(): { node: string; nkey: string }[] {
    return [...this.#users].map(([node, nkey]) => ({ node, nkey }));
  }

  add(node: string, nkey: string): void {
    if (this.#users.get(node) === nkey || this.#users.size >= MAX_USERS) return;
    this.#users.set(node, nkey);
    write(this.#file, this.#users);
  }

  /** Nodes that may log in before they are members. */
  allowed(now: number): { node: string; nkey: string }[] {
    return [...this.#allowed].flatMap(([node, { nkey, until }]) => (until > now ? [{ node, nkey }] : []));
  }

  allow(node: string, nkey: string, now: number): void {
    for (const [old, { until }] of this.#allowed) if (until <= now) this.#allowed.delete(old);
    this.#allowed.set(node, { nkey, until: now + ALLOWED_MS });
    write(this.#allowedFile, this.#allowed);
  }
}

function write(file: string | undefined, users: ReadonlyMap<string, unknown>): void {
  if (file !== undefined) writePrivately(file, JSON.stringify(Object.fromEntries(users), null, 2));
}

function read<T>(file: string | undefined, schema: z.ZodType<Record<string, T>>): Record<string, T> {
  if (file === undefined || !existsSync(file)) return {};
  try {
    return schema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    // The nodes that are present fill it again.
    return {};
  }
}
