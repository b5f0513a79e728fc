import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { takeAgentCard } from '../protocol/read-card.js';
import { ExternalServiceError, ValidationError } from '../protocol/service-errors.js';
import type { AgentCard } from '../protocol/types.js';
import { type Credentials, credentialHeaders, credentialsKey } from './credentials.js';
import type { Reach } from './remote-endpoint.js';
import { remoteError } from './remote-errors.js';

/** How long a card is taken as it was. */
const FRESH_MS = 300_000;
/** Cards kept at once; the one fetched longest ago goes first. */
const MAX_CARDS = 128;
const MAX_CARD_BYTES = 1_048_576;
const CARD_MS = 10_000;
const WELL_KNOWN = '/.well-known/agent-card.json';

/** A card as it was fetched. */
export interface FetchedCard {
  /** Where from, as it was asked for. */
  readonly url: string;
  readonly card: AgentCard;
  /** The document itself. */
  readonly document: Readonly<Record<string, unknown>>;
}

export interface CardOptions extends Reach {
  readonly credentials?: Credentials | undefined;
}

interface Kept {
  readonly fetched: FetchedCard;
  readonly etag: string | undefined;
  readonly at: number;
}

/** Fetches cards, and keeps each for five minutes. However many ask at once, one request is made. */
export class CardSource {
  readonly #runtime: Runtime;
  /** The one fetched longest ago first. */
  readonly #kept = new Map<string, Kept>();
  readonly #flights = new Map<string, Promise<FetchedCard>>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** `url` is an agent's base URL, or that of its card. */
  fetch(url: string, options: CardOptions = {}): Promise<FetchedCard> {
    const place = cardUrl(url);
    // What one caller may see, or reach, is none of another's business.
    const key = JSON.stringify([place, credentialsKey(options.credentials ?? {}), options.allowPrivate ?? false]);
    const kept = this.#kept.get(key);
    if (kept && this.#isFresh(kept)) return Promise.resolve(kept.fetched);
    let flight = this.#flights.get(key);
    if (!flight) {
      this.#prune(key);
      flight = this.#load(key, place, options, kept).finally(() => this.#flights.delete(key));
      this.#flights.set(key, flight);
    }
    return flight;
  }

  #isFresh({ at }: Kept): boolean {
    return this.#runtime.now() - at < FRESH_MS;
  }

  /** A stale card is good for asking whether it has changed, and for nothing else. */
  #prune(but: string): void {
    for (const [key, kept] of this.#kept) if (key !== but && !this.#isFresh(kept)) this.#kept.delete(key);
  }

  async #load(key: string, url: string, options: CardOptions, stale: Kept | undefined): Promise<FetchedCard> {
    const { credentials = {}, allowPrivate, ca, resolve } = options;
    const answer = await guardedFetch(this.#runtime, url, {
      headers: {
        accept: 'application/json',
        ...credentialHeaders(credentials),
        ...(stale?.etag === undefined ? {} : { 'if-none-match': stale.etag }),
      },
      timeoutMs: CARD_MS,
      maxBytes: MAX_CARD_BYTES,
      ...(allowPrivate === undefined ? {} : { allowPrivate }),
      ...(ca === undefined ? {} : { ca }),
      ...(resolve === undefined ? {} : { resolve }),
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

  #keep(key: string, kept: Kept): void {
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MAX_CARDS) break;
      this.#kept.delete(oldest);
    }
  }
}

/** Where the card of an agent is: below its base URL, unless the URL is a card's already. */
export function cardUrl(url: string): string {
  if (!URL.canParse(url)) return url;
  const parsed = new URL(url);
  parsed.hash = '';
  if (/(\.json|\/agent-card)$/.test(parsed.pathname)) return parsed.href;
  parsed.search = '';
  return parsed.href.replace(/\/+$/, '') + WELL_KNOWN;
}

/** What stands before the card's own path: where the simple routes are. */
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
    // Said below, with everything else that is no card.
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new ValidationError('Agent card is not a JSON object', { fields: ['name', 'version'] }, 'INVALID_CARD');
}
