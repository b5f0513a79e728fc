import type { ServerResponse } from 'node:http';
import { encodeSse, SSE_HEARTBEAT } from '../../a2a-protocol/sse.js';
import { writeCursor } from '../../a2a-protocol/stream-cursor.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { drained } from '../drained.js';
import type { Streamed } from './operations.js';

const HEARTBEAT_MS = 15_000;

/**
 * Sends a stream as server-sent events, no faster than its reader takes them. The first event is waited for before the
 * headers go out, so that what fails at once is an ordinary answer.
 */
export async function streamEvents(
  runtime: Runtime,
  response: ServerResponse,
  stream: AsyncIterable<Streamed>,
  encode: (event: Streamed['event']) => unknown,
): Promise<void> {
  const events = stream[Symbol.asyncIterator]();
  const end = () => void events.return?.();
  response.on('close', end);
  let heartbeat: Timer | undefined;
  const beat = () => {
    heartbeat = runtime.setTimer(() => {
      response.write(SSE_HEARTBEAT);
      beat();
    }, HEARTBEAT_MS);
  };
  try {
    let next = await events.next();
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-cache, no-transform',
      'X-Accel-Buffering': 'no',
    });
    beat();
    while (!next.done && !response.closed) {
      const { event, taskId, sequence } = next.value;
      const id = taskId === undefined || sequence === undefined ? undefined : writeCursor(taskId, sequence);
      if (!response.write(encodeSse(JSON.stringify(encode(event)), id))) await drained(response);
      next = await events.next();
    }
    response.end();
  } finally {
    heartbeat?.cancel();
    response.off('close', end);
  }
}
