import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto';

/** Whose credential it is. No two share a key. */
export interface Place {
  readonly provider: string;
  readonly workspace: string;
  readonly name: string;
}

export const KEY_BYTES = 32;
export const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

/** Tells keys apart and tells nothing about them. */
export function keyId(master: Uint8Array): string {
  return createHash('sha256').update(derive(master, 'name of the key')).digest('hex').slice(0, 16);
}

/** Seals text for one place; it opens there only, and only with the same `about`. */
export function seal(master: Uint8Array, place: Place, about: string, text: string, nonce: Uint8Array): string {
  const cipher = createCipheriv(CIPHER, placeKey(master, place), nonce);
  cipher.setAAD(associated(place, about));
  return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
}

/** Undefined where it was changed, or sealed for another place or with another key. */
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
