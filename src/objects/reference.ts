import { z } from 'zod';
import { LIMITS } from '../mesh/limits.js';
import { NODE_KEY } from '../network/membership/identity.js';
import { EclipticError } from '../runtime/errors.js';
import { MAX_ATTACHMENTS, OBJECT_LIMITS } from './limits.js';

/** A file name, without a path. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are refused
const NAME = /^(?!\.{1,2}$)[^/\\\u0000-\u001f\u007f]+$/;

/**
 * A reference to an object. It is JSON, so any payload can carry it: a message, durable mail, an artifact of a task. `key`
 * lets its readers fetch and decrypt the object, so the reference is as secret as the object itself.
 */
export const ObjectRefSchema = z.object({
  /** The object's id. */
  object: z.string().regex(/^[0-9A-HJKMNP-TV-Z]{26}$/),
  /** The node that has it, and the agent there that it belongs to. */
  node: z.string().regex(NODE_KEY),
  owner: z.string().min(1).max(LIMITS.agentIdChars),
  key: z.string().regex(/^[\w-]{43}$/),
  name: z.string().max(LIMITS.nameChars).regex(NAME),
  mediaType: z.string().min(1).max(LIMITS.nameChars),
  size: z.int().nonnegative().max(OBJECT_LIMITS.objectBytes),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  expiresAt: z.number(),
});
export type ObjectRef = z.infer<typeof ObjectRefSchema>;

/** Reads a reference; throws `INVALID_PARAMS`. */
export function readRef(value: unknown): ObjectRef {
  const parsed = ObjectRefSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const message = `it is no reference to an object: ${issue?.path.join('.')}: ${issue?.message}`;
  throw new EclipticError('INVALID_PARAMS', message, { field: issue?.path.join('.') });
}

/** The references in a message's `attachments`, where commands and coding agents put them. */
export function attachmentsIn(payload: unknown): ObjectRef[] {
  const { attachments } = (payload ?? {}) as { attachments?: unknown };
  if (!Array.isArray(attachments)) return [];
  return attachments.slice(0, MAX_ATTACHMENTS).flatMap((one) => ObjectRefSchema.safeParse(one).data ?? []);
}

/** Adds references to a payload. A text becomes `{ text, attachments }`. */
export function withAttachments(payload: object, attachments: readonly ObjectRef[]): object;
export function withAttachments(payload: unknown, attachments: readonly ObjectRef[]): unknown;
export function withAttachments(payload: unknown, attachments: readonly ObjectRef[]): unknown {
  if (attachments.length === 0) return payload;
  if (typeof payload === 'string') return { text: payload, attachments };
  if (typeof payload === 'object' && payload !== null && !Array.isArray(payload) && !('attachments' in payload)) {
    return { ...payload, attachments };
  }
  const message = 'a message with attachments is a text, or a JSON object without the field "attachments"';
  throw new EclipticError('INVALID_PARAMS', message, { field: 'attachments' });
}

/** A name for the object; a path loses its folders. */
export function objectName(given: string): string {
  const last = given.split(/[/\\]/).at(-1) ?? '';
  return NAME.test(last) && last.length <= LIMITS.nameChars ? last : 'object';
}

/** `12.3 MiB` */
export function sizeText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  const step = bytes < 1_024 ? 0 : Math.min(3, Math.floor(Math.log2(bytes) / 10));
  return `${step === 0 ? bytes : (bytes / 1_024 ** step).toFixed(1)} ${units[step]}`;
}
