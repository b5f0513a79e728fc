import type { Socket } from 'node:net';
import { EclipticError, type ErrorCode, isErrorCode } from '../../runtime/errors.js';

/**
 * The owner's protocol: one JSON object a line, over a local socket. Both sides begin with a hello; then the client
 * sends requests and the server answers each with a result or an error, and a subscription with events until its end.
 */
export const PROTOCOL = { min: 1, max: 1 } as const;

/** The longest line, in characters. The largest payload fits, even with every character escaped. */
export const MAX_FRAME_CHARS = 8 * 1_048_576;

interface Hello {
  readonly hello: { readonly min: number; readonly max: number };
}

export interface ServerHello extends Hello {
  readonly node: string;
  readonly pid: number;
  readonly version: string;
}

export interface RequestFrame {
  readonly id: number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

export type ReplyFrame =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly event: unknown }
  | { readonly id: number; readonly error: WireError };

interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The version both sides speak, or a typed error that names both. */
export function negotiate(other: unknown): number {
  const { min, max } = ((other as Hello | null)?.hello ?? {}) as { min?: unknown; max?: unknown };
  if (!Number.isInteger(min) || !Number.isInteger(max)) {
    throw new EclipticError('INVALID_FRAME', 'the hello names no protocol versions');
  }
  const version = Math.min(max as number, PROTOCOL.max);
  if (version < Math.max(min as number, PROTOCOL.min)) {
    const details = { ours: PROTOCOL, theirs: { min, max } };
    throw new EclipticError(
      'PROTOCOL_MISMATCH',
      `the other side speaks control protocol ${min} to ${max}, this one ${PROTOCOL.min} to ${PROTOCOL.max}`,
      details,
    );
  }
  return version;
}

export function checkRequest(frame: unknown): RequestFrame {
  const { id, method, params } = (frame ?? {}) as Partial<Record<keyof RequestFrame, unknown>>;
  const paramsFine = params === undefined || (typeof params === 'object' && params !== null && !Array.isArray(params));
  if (!Number.isSafeInteger(id) || typeof method !== 'string' || !paramsFine) {
    throw new EclipticError('INVALID_FRAME', 'a request has an integer id, a method and an object of params');
  }
  return { id: id as number, method, params: (params ?? {}) as RequestFrame['params'] };
}

export function errorFrom(wire: unknown): EclipticError {
  const { code, message, details } = (wire ?? {}) as Partial<WireError>;
  return new EclipticError(isErrorCode(code) ? code : 'INVALID_FRAME', message ?? 'the node answered with an error', {
    ...details,
  });
}

export interface FramesInit {
  onFrame: (frame: unknown) => void;
  /** The line cannot be read: it is too long or not JSON. Nothing after it is read. */
  onFault: (fault: EclipticError) => void;
}

/** Reads each line of a socket as JSON. */
export function readFrames(socket: Socket, init: FramesInit): void {
  let parts: string[] = [];
  let length = 0;
  let broken = false;
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    let from = 0;
    while (!broken) {
      const end = chunk.indexOf('\n', from);
      const part = chunk.slice(from, end < 0 ? undefined : end);
      length += part.length;
      if (length > MAX_FRAME_CHARS) {
        fail(`a line is longer than ${MAX_FRAME_CHARS} characters`);
        return;
      }
      parts.push(part);
      if (end < 0) return;
      const line = parts.join('');
      parts = [];
      length = 0;
      from = end + 1;
      if (line !== '') take(line);
    }
  });

  function take(line: string): void {
    let frame: unknown;
    try {
      frame = JSON.parse(line);
    } catch {
      fail('a line is not JSON');
      return;
    }
    init.onFrame(frame);
  }

  function fail(message: string): void {
    broken = true;
    parts = [];
    init.onFault(new EclipticError('INVALID_FRAME', message));
  }
}

/** Writes one frame; false while the other side reads too slowly. */
export function writeFrame(socket: Socket, frame: object): boolean {
  return socket.writable && socket.write(`${JSON.stringify(frame)}\n`);
}

/** A quarter of a frame: a text within a text may take twice its size, and the rest of the frame needs room too. */
const PAGE_CHARS = MAX_FRAME_CHARS / 4;

/** The first rows that fit into one reply; at least one. */
export function fitting<T>(rows: readonly T[], sizeOf: (row: T) => number = (row) => JSON.stringify(row).length): T[] {
  let chars = 0;
  const end = rows.findIndex((row, index) => {
    chars += sizeOf(row);
    return index > 0 && chars > PAGE_CHARS;
  });
  return end < 0 ? [...rows] : rows.slice(0, end);
}
