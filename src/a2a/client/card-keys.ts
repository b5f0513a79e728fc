import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { type CardVerdict, signatureHeaders, verifyCard } from '../protocol/card-signature.js';
import type { Jwk, JwkSet } from '../protocol/jws.js';
import type { FetchedCard } from './card-source.js';
import { isSamePlace } from './credentials.js';
import type { Reach } from './remote-endpoint.js';

const KEYS_MS = 10_000;
const MAX_KEYS_BYTES = 262_144;
const MAX_KEYS = 64;

/** What is to be thought of a card's signatures: it has none, one that holds, or none that does. */
export type SignatureVerdict = CardVerdict & { readonly signed: boolean };

/**
 * Checks a card's signatures with the keys that the caller trusts, or else with those that the card's own place serves:
 * that proves that whoever holds the place holds the key, and no more. Keys from elsewhere prove nothing.
 */
export async function checkSignatures(
  runtime: Runtime,
  { url, card }: FetchedCard,
  reach: Reach,
  trusted?: JwkSet,
): Promise<SignatureVerdict> {
  if (!card.signatures?.length) return { signed: false, verified: false, reasons: [] };
  const keys = trusted ?? { keys: await keysAt(runtime, placesOfKeys(url, card), reach) };
  return { signed: true, ...verifyCard(card, keys) };
}

function placesOfKeys(url: string, card: FetchedCard['card']): string[] {
  const named = signatureHeaders(card).flatMap(({ jku }) => (jku !== undefined && isSamePlace(jku, url) ? [jku] : []));
  return [...new Set([...named, new URL('/.well-known/jwks.json', url).href])].slice(0, 3);
}

async function keysAt(runtime: Runtime, places: readonly string[], reach: Reach): Promise<Jwk[]> {
  const found: Jwk[] = [];
  const { allowPrivate, ca, resolve } = reach;
  for (const place of places) {
    try {
      const { status, body } = await guardedFetch(runtime, place, {
        timeoutMs: KEYS_MS,
        maxBytes: MAX_KEYS_BYTES,
        // Another place's keys would be taken for this one's.
        redirects: 0,
        ...(allowPrivate === undefined ? {} : { allowPrivate }),
        ...(ca === undefined ? {} : { ca }),
        ...(resolve === undefined ? {} : { resolve }),
      });
      const { keys } = (status === 200 ? JSON.parse(body.toString()) : {}) as { keys?: unknown };
      if (Array.isArray(keys)) found.push(...keys.filter(isKey).slice(0, MAX_KEYS));
    } catch {
      // Without keys the verdict says that they are not known.
    }
  }
  return found;
}

function isKey(value: unknown): value is Jwk {
  return typeof value === 'object' && value !== null;
}
