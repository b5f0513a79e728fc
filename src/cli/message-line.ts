import type { TailEvent } from '../node/control/api.js';
import { cutText } from '../runtime/text.js';
import { oneLine, shortAddress } from './output.js';

const PAYLOAD_CHARS = 80;

/** One message: time, ends, type, the beginning of its payload, and the router's verdict. */
export function messageLine(event: TailEvent): string {
  const { timestamp, sender = '', recipient = '', messageType = '' } = event;
  const ends = `${shortAddress(sender)} → ${shortAddress(recipient)}`;
  const words = [clockText(timestamp), ends, messageType, excerptOf(event), verdictOf(event)];
  return oneLine(words.filter((word) => word !== '').join(' '));
}

export function clockText(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}

/** A refused message, and a message to many, are recorded without their payload. */
function excerptOf(event: TailEvent): string {
  if ('payload' in event) {
    const text = JSON.stringify(event.payload);
    return text.length > PAYLOAD_CHARS ? `${cutText(text, PAYLOAD_CHARS - 1)}…` : text;
  }
  if (event.code !== undefined || event.broadcast) return '';
  const { correlationId } = event;
  return `(over 1 kB; see: ecliptic ${correlationId === undefined ? 'log' : `thread ${correlationId}`})`;
}

function verdictOf({ code, reason, broadcast, duration, routingPath }: TailEvent): string {
  if (code !== undefined) return `✕ ${code}${reason === undefined ? '' : `: ${reason}`}`;
  const took = duration === undefined ? '' : ` ${latencyText(duration)}`;
  if (broadcast) return `✓ ${broadcast.delivered} of ${broadcast.recipients} agents${took}`;
  return `✓${took}${routingPath === 'remote' ? ' (remote)' : ''}`;
}

function latencyText(ms: number): string {
  if (ms < 0.1) return `${Math.round(ms * 1_000)} µs`;
  if (ms < 1_000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${(ms / 1_000).toFixed(1)} s`;
}
