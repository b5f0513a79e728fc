import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { Runtime } from '../runtime/runtime.js';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts a text for those who have the 32-byte key. It opens under the same node's key only. */
export function sealText(runtime: Runtime, key: Uint8Array, node: string, text: string): Buffer {
  const nonce = runtime.bytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(node));
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

/** Undefined if it was sealed with another key, for another node, or changed since. */
export function openText(key: Uint8Array, node: string, sealed: Uint8Array): string | undefined {
  if (sealed.byteLength < NONCE_BYTES + TAG_BYTES) return undefined;
  try {
    const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES)).setAAD(Buffer.from(node));
    decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    const body = sealed.subarray(NONCE_BYTES + TAG_BYTES);
    return Buffer.concat([decipher.update(body), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}
