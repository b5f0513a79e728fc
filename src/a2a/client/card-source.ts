import type { JSONWebKeySet, JWK } from 'jose';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { type CardVerdict, signatureHeaders, verifyCard } from '../protocol/card-signature.js';
import { ExternalServiceError, ValidationError } from '../protocol/errors.js';
import type { AgentCard } from '../protocol/types.js';
import { takeAgentCard } from '../v03/card.js';
import { type Credentials, credentialHeaders, credentialsKey, isSamePlace } from './credentials.js';
import { type Reach, remoteError } from './remote-endpoint.js';

const FRESH_MS = 300_000;
/** The card that was fetched first is dropped first. */
const MAX_CARDS = 128;
const MAX_CARD_BYTES = 1_048_576;
const CARD_MS = 10_000;
const WELL_KNOWN = '/.well-known/agent-card.json';

export interface FetchedCard {
  readonly url: string;
  readonly card: AgentCard;
  /** The JSON as received. */
  readonly document: Readonly<Record<string, unknown>>;
}

export interface CardOptions extends Reach {
  readonly credentials?: Credentials;
}

interface CachedCard {
  readonly fetched: FetchedCard;
  readonly etag: string | undefined;
  readonly at: number;
}

/** Fetches cards and caches each for five minutes. Concurrent callers share one request. */
export class CardSource {
  readonly #runtime: Runtime;
  /** Oldest fetch first. */
  readonly #cache = new Map<string, CachedCard>();
  readonly #flights = new Map<string, Promise<FetchedCard>>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  get size(): number {
    return this.#cache.size;
  }

  /** `url` is the base URL of an agent, or the URL of its card. */
  fetch(url: string, options: CardOptions = {}): Promise<FetchedCard> {
    const place = cardUrl(url);
    // Callers with different credentials or network limits share no cache entry.
    const key = JSON.stringify([place, credentialsKey(options.credentials ?? {}), options.allowPrivate ?? false]);
    const kept = this.#cache.get(key);
    if (kept && this.#isFresh(kept)) return Promise.resolve(kept.fetched);
    let flight = this.#flights.get(key);
    if (!flight) {
      this.#prune(key);
      flight = this.#load(key, place, options, kept).finally(() => this.#flights.delete(key));
      this.#flights.set(key, flight);
    }
    return flight;
  }

  #isFresh({ at }: CachedCard): boolean {
    return this.#runtime.now() - at < FRESH_MS;
  }

  /** A stale card is kept only while it is revalidated. */
  #prune(but: string): void {
    for (const [key, kept] of this.#cache) if (key !== but && !this.#isFresh(kept)) this.#cache.delete(key);
  }

  async #load(key: string, url: string, options: CardOptions, stale: CachedCard | undefined): Promise<FetchedCard> {
    const { credentials = {}, allowPrivate, ca, resolve } = options;
    const answer = await guardedFetch(this.#runtime, url, {
      headers: {
        accept: 'application/json',
        ...credentialHeaders(credentials),
        ...(stale?.etag === undefined ? {} : { 'if-none-match': stale.etag }),
      },
      timeoutMs: CARD_MS,
      maxBytes: MAX_CARD_BYTES,
      allowPrivate,
      ca,
      resolve,
    });
    const { status, headers, body } = answer;
    const unchanged = status === 304 && stale !== undefined;
    if (!unchanged && (status < 200 || status > 299)) {
      const { code, details } = remoteError(undefined, {
        origin: new URL(url).origin,
        status,
        retryAfter: headers.get('retry-after'),
      });
      throw new ExternalServiceError(`Agent card fetch failed: HTTP ${status}`, { ...details }, code);
    }
    const fetched = unchanged ? stale.fetched : readDocument(url, body.toString());
    this.#keep(key, { fetched, etag: headers.get('etag') ?? stale?.etag, at: this.#runtime.now() });
    return fetched;
  }

  #keep(key: string, kept: CachedCard): void {
    this.#cache.delete(key);
    this.#cache.set(key, kept);
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= MAX_CARDS) break;
      this.#cache.delete(oldest);
    }
  }
}

/** Below the base URL, unless the URL is that of a card. */
export function cardUrl(url: string): string {
  if (!URL.canParse(url)) return url;
  const parsed = new URL(url);
  parsed.hash = '';
  if (/(\.json|\/agent-card)$/.test(parsed.pathname)) return parsed.href;
  parsed.search = '';
  return parsed.href.replace(/\/+$/, '') + WELL_KNOWN;
}

/** The part before the card's path, where the simple routes are. */
export function baseUrl(url: string): string {
  const place = cardUrl(url);
  return place.endsWith(WELL_KNOWN) ? place.slice(0, -WELL_KNOWN.length) : new URL(place).origin;
}

function readDocument(url: string, text: string): FetchedCard {
  const document = parse(text);
  const missing = ['name', 'version'].filter((field) => typeof document[field] !== 'string' || document[field] === '');
  if (missing.length > 0) {
    const message = `Agent card is missing required fields: ${missing.join(', ')}`;
    throw new ValidationError(message, { fields: missing }, 'INVALID_CARD');
  }
  try {
    return { url, card: takeAgentCard(document), document };
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    throw new ValidationError(error.message, { ...error.details }, 'INVALID_CARD');
  }
}

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Refused below.
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new ValidationError('Agent card is not a JSON object', { fields: ['name', 'version'] }, 'INVALID_CARD');
}

const KEYS_MS = 10_000;
const MAX_KEYS_BYTES = 262_144;
const MAX_KEYS = 64;

export type SignatureVerdict = CardVerdict & { readonly signed: boolean };

/**
 * Checks a card's signatures with trusted keys, or with those that the card's origin serves: that proves only that the
 * origin holds the key. Keys from elsewhere prove nothing.
 */
export async function checkSignatures(
  runtime: Runtime,
  { url, card }: FetchedCard,
  reach: Reach,
  trusted?: JSONWebKeySet,
): Promise<SignatureVerdict> {
  if (!card.signatures?.length) return { signed: false, verified: false, reasons: [] };
  const keys = trusted ?? { keys: await keysAt(runtime, placesOfKeys(url, card), reach) };
  return { signed: true, ...(await verifyCard(card, keys)) };
}

function placesOfKeys(url: string, card: FetchedCard['card']): string[] {
  const named = signatureHeaders(card).flatMap(({ jku }) => (jku !== undefined && isSamePlace(jku, url) ? [jku] : []));
  return [...new Set([...named, new URL('/.well-known/jwks.json', url).href])].slice(0, 3);
}

async function keysAt(runtime: Runtime, places: readonly string[], reach: Reach): Promise<JWK[]> {
  const found: JWK[] = [];
  const { allowPrivate, ca, resolve } = reach;
  for (const place of places) {
    try {
      const { status, body } = await guardedFetch(runtime, place, {
        timeoutMs: KEYS_MS,
        maxBytes: MAX_KEYS_BYTES,
        // Keys of another origin would be taken for this one's.
        redirects: 0,
        allowPrivate,
        ca,
        resolve,
      });
      const { keys } = (status === 200 ? JSON.parse(body.toString()) : {}) as { keys?: unknown };
      if (Array.isArray(keys)) found.push(...keys.filter(isKey).slice(0, MAX_KEYS));
    } catch {
      // The verdict then says that the keys are not known.
    }
  }
  return found;
}

function isKey(value: unknown): value is JWK {
  return typeof value === 'object' && value !== null;
}
