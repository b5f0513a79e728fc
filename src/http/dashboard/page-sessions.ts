import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { JsonFile } from '../../system/files/private-file.js';

const SessionSchema = z.strictObject({
  id: z.string().min(1),
  /** SHA-256 of the cookie and of the page's key. */
  cookie: z.string(),
  key: z.string(),
  createdAt: z.number(),
  expiresAt: z.number(),
});
type Session = z.infer<typeof SessionSchema>;

const FileSchema = z.strictObject({ version: z.literal(1), sessions: z.array(SessionSchema) });

export interface PageSessionsComponents {
  runtime: Runtime;
  /** Without a folder, sessions end with the process. */
  folder?: string;
}

/** A session that has just begun. The secrets are shown only here. */
export interface OpenedSession {
  readonly id: string;
  readonly cookie: string;
  readonly key: string;
}

const LINK_MS = 600_000;
export const SESSION_MS = 7 * 86_400_000;
/** The oldest gives way. */
const MAX_LINKS = 100;
const MAX_SESSIONS = 50;

/** The header in which the page sends its key. */
export const KEY_HEADER = 'x-ecliptic-page';

/**
 * One-time links and the owner's page sessions. A session has two secrets, and every request needs both. The cookie cannot
 * be read by scripts, but browsers send it to every port of this host. The page's key is in the storage of its origin, which
 * includes the port, and a foreign page can neither read it nor send its header.
 */
export class PageSessions {
  readonly #runtime: Runtime;
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  /** Expiry by hash. */
  readonly #links = new Map<string, number>();
  #sessions: readonly Session[];

  constructor({ runtime, folder }: PageSessionsComponents) {
    this.#runtime = runtime;
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'page-sessions.json'), FileSchema);
    this.#sessions = this.#file?.load()?.sessions ?? [];
  }

  /** A token that opens one session. */
  link(): { readonly token: string; readonly expiresAt: number } {
    const token = this.#secret();
    const expiresAt = this.#runtime.now() + LINK_MS;
    this.#links.set(hashOf(token), expiresAt);
    if (this.#links.size > MAX_LINKS) this.#links.delete(this.#links.keys().next().value!);
    return { token, expiresAt };
  }

  /** Exchanges the token of a link for a session; the token is used up. */
  open(token: string): OpenedSession {
    const hash = hashOf(token);
    const expiresAt = this.#links.get(hash);
    this.#links.delete(hash);
    const now = this.#runtime.now();
    if (expiresAt === undefined || expiresAt <= now) {
      throw new EclipticError('TOKEN_REQUIRED', 'the link was used or has expired; get another one: ecliptic open');
    }
    const opened = { id: this.#runtime.id(), cookie: this.#secret(), key: this.#secret() };
    const hashes = { cookie: hashOf(opened.cookie), key: hashOf(opened.key) };
    const session = { id: opened.id, ...hashes, createdAt: now, expiresAt: now + SESSION_MS };
    this.#keep([...this.#live, session].slice(-MAX_SESSIONS));
    return opened;
  }

  /** The id of the session that both secrets belong to. */
  find(cookie: string, key: string): string | undefined {
    const hash = hashOf(cookie);
    const found = this.#live.find((session) => session.cookie === hash);
    return found?.key === hashOf(key) ? found.id : undefined;
  }

  /** Ends all sessions and links. Returns the ids of the sessions. */
  revokeAll(): string[] {
    const ended = this.#live.map(({ id }) => id);
    this.#keep([]);
    this.#links.clear();
    return ended;
  }

  get #live(): readonly Session[] {
    const now = this.#runtime.now();
    return this.#sessions.filter(({ expiresAt }) => expiresAt > now);
  }

  #keep(sessions: readonly Session[]): void {
    this.#sessions = sessions;
    try {
      this.#file?.save({ version: 1, sessions: [...sessions] });
    } catch (err) {
      // On a full disk the owner needs the page most; the session lasts until the node stops.
      this.#runtime.logger.warn({ err }, 'page sessions not stored');
    }
  }

  #secret(): string {
    return Buffer.from(this.#runtime.bytes(32)).toString('base64url');
  }
}

/** The values of a cookie. Other servers of this host can set cookies of the same name for other paths. */
export function cookiesOf({ cookie }: IncomingHttpHeaders, name: string): readonly string[] {
  return (cookie?.split(';') ?? []).flatMap((part) => {
    const at = part.indexOf('=');
    return at > 0 && part.slice(0, at).trim() === name ? [part.slice(at + 1).trim()] : [];
  });
}

/**
 * Throws `HOST_REFUSED` for requests from another origin. Other ports of this host are other origins, although their
 * requests carry this node's cookie.
 */
export function requireOwnOrigin(headers: IncomingHttpHeaders): void {
  const { host, origin, 'sec-fetch-site': site } = headers;
  const isOwn = origin === undefined || origin === `http://${host}` || origin === `https://${host}`;
  if (isOwn && (site === undefined || site === 'same-origin' || site === 'none')) return;
  throw new EclipticError('HOST_REFUSED', 'the request comes from another origin');
}

/** Lookups are by hash, so their timing reveals nothing about the secret. */
function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
