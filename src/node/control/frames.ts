import type { Socket } from 'node:net';
import { EclipticError } from '../../runtime/errors.js';
import { MAX_FRAME_CHARS } from './protocol.js';

export interface FramesInit {
  onFrame: (frame: unknown) => void;
  /** The line cannot be read: it is too long or not JSON. Nothing after it is read. */
  onFault: (fault: EclipticError) => void;
}

/** Splits what a socket receives into lines and reads each as JSON. */
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

/** Writes one frame. False when the other side reads too slowly and the buffer is filling. */
export function writeFrame(socket: Socket, frame: object): boolean {
  return socket.writable && socket.write(`${JSON.stringify(frame)}\n`);
}
