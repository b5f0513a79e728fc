import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { z } from 'zod';
import { type Identity, isSignedBy } from '../network/membership/identity.js';
import type { Runtime } from '../runtime/runtime.js';

/** Where a value belongs. It is signed with the value, so the value counts nowhere else. */
export interface ValuePlace {
  /** The bucket or stream, with its mesh. */
  readonly store: string;
  readonly key: string;
}

export interface OpenedValue {
  /** The node that signed it. */
  readonly writer: string;
  /** The revision or sequence that the writer knew. */
  readonly replaces: number;
  /** Undefined if it is encrypted with a key that this node does not have. */
  readonly value: unknown;
}

export interface SignedValuesComponents {
  runtime: Runtime;
  identity: Identity;
  /** A secret that all readers share. With one, the broker cannot read the values. */
  secret?: (() => Uint8Array | undefined) | undefined;
}

const DEFLATE_FROM_BYTES = 2_048;
const MAX_BYTES = 8_388_608;
const IV_BYTES = 12;
const TAG_BYTES = 16;

const SignedSchema = z.object({
  by: z.string().max(64),
  replaces: z.int().nonnegative(),
  /** `z`: deflated, `e`: encrypted after that. */
  form: z.enum(['', 'z', 'e', 'ze']),
  body: z.string(),
  signature: z.string().max(128),
});

/** Values as they lie on the broker: signed by the node that wrote them, and encrypted if the mesh has a secret. */
export class SignedValues {
  readonly #components: SignedValuesComponents;
  readonly #purpose: string;

  constructor(components: SignedValuesComponents, purpose: string) {
    this.#components = components;
    this.#purpose = purpose;
  }

  make(place: ValuePlace, replaces: number, value: unknown): Uint8Array {
    const { identity, runtime } = this.#components;
    let bytes: Uint8Array = Buffer.from(JSON.stringify(value));
    let form = '';
    if (bytes.length >= DEFLATE_FROM_BYTES) {
      bytes = deflateRawSync(bytes);
      form = 'z';
    }
    const key = this.#key();
    if (key) {
      const iv = runtime.bytes(IV_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, iv);
      bytes = Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
      form += 'e';
    }
    const content = { by: identity.key, replaces, form, body: Buffer.from(bytes).toString('base64') };
    const signature = identity.sign(this.#purpose, { ...content, ...place });
    return Buffer.from(JSON.stringify({ ...content, signature }));
  }

  /** Undefined if no node has signed exactly this for exactly this place. */
  open(place: ValuePlace, bytes: Uint8Array): OpenedValue | undefined {
    try {
      const { signature, ...content } = SignedSchema.parse(JSON.parse(Buffer.from(bytes).toString()));
      if (!isSignedBy(content.by, this.#purpose, { ...content, ...place }, signature)) return undefined;
      const { by: writer, replaces, form, body } = content;
      return { writer, replaces, value: this.#value(form, Buffer.from(body, 'base64')) };
    } catch {
      return undefined;
    }
  }

  #value(form: string, body: Buffer): unknown {
    let bytes = body;
    if (form.endsWith('e')) {
      const key = this.#key();
      if (!key) return undefined;
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES));
      decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
      const inner = bytes.subarray(IV_BYTES, bytes.length - TAG_BYTES);
      bytes = Buffer.concat([decipher.update(inner), decipher.final()]);
    }
    if (form.startsWith('z')) bytes = inflateRawSync(bytes, { maxOutputLength: MAX_BYTES });
    return JSON.parse(bytes.toString()) as unknown;
  }

  #key(): Buffer | undefined {
    const secret = this.#components.secret?.();
    return secret && Buffer.from(hkdfSync('sha256', secret, 'ecliptic nats', this.#purpose, 32));
  }
}
