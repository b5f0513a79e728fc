import type { MessageLine } from '../../http/dashboard/facts.js';
import type { JournalRow } from '../../mesh/audit/tables.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import { cutText } from '../../runtime/text.js';
import type { TailEvent } from './api.js';

const TEXT_CHARS = 300;

/** A message of the journal, as one line. */
export function journalled(row: JournalRow): MessageLine {
  const { envelopeId: id, at, sender: from, recipient: to, type, thread, code, envelope, seq } = row;
  const { payload } = unpackEnvelope(JSON.parse(envelope));
  return { id, seq, at, from, to, type, thread, code, reason: null, text: excerpt(payload) };
}

/** A message that was routed just now. */
export function routed(event: TailEvent): MessageLine {
  const { envelopeId = '', timestamp: at, sender = '', recipient = '', messageType = '', correlationId } = event;
  const { code = null, reason = null } = event;
  const about = { id: envelopeId, at, from: sender, to: recipient, type: messageType, thread: correlationId ?? null };
  return { ...about, seq: null, code, reason, text: excerpt(event.payload) };
}

/** The journal has no payload of durable messages, and events have none of large ones. */
export function excerpt(payload: unknown): string | null {
  if (payload === undefined || payload === null) return null;
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return text.length > TEXT_CHARS ? `${cutText(text, TEXT_CHARS - 1)}…` : text;
}

/** The text of a letter, or the task of a proposal; any other payload as it is. */
export function textIn(payload: unknown): unknown {
  const { text, taskDescription = text } = (payload ?? {}) as { readonly text?: unknown; taskDescription?: unknown };
  return typeof taskDescription === 'string' ? taskDescription : payload;
}
