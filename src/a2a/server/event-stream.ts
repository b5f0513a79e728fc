import type { ServerResponse } from 'node:http';
import { drained } from '../../http/server/http-server.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { writeCursor } from '../protocol/headers.js';
import type { StreamResponse } from '../protocol/types.js';

/** `data` must be one line. */
export function encodeSse(data: string, id?: string): string {
  return id === undefined ? `data: ${data}\n\n` : `id: ${id}\ndata: ${data}\n\n`;
}

/** A comment line, which readers skip; writing it keeps a quiet connection open and detects a dead one. */
export const SSE_HEARTBEAT = ': \n\n';

const HEARTBEAT_MS = 15_000;

/** The numbered events of a task, which a reader can resume, or one message. */
export interface EventStream {
  readonly taskId?: string;
  readonly events: AsyncIterator<{ readonly sequence?: number; readonly event: StreamResponse }>;
}

/** Sends server-sent events with back-pressure, until the stream ends or the reader leaves. */
export async function streamEvents(
  runtime: Runtime,
  response: ServerResponse,
  { taskId, events }: EventStream,
  encode: (event: StreamResponse) => unknown,
): Promise<void> {
  const leave = () => void events.return?.();
  response.on('close', leave);
  if (response.closed) leave();
  response.writeHead(200, {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-cache, no-transform',
    'X-Accel-Buffering': 'no',
  });
  // The headers go out with the first event; without one, the reader still learns that it is subscribed.
  runtime.defer(() => response.flushHeaders());
  let heartbeat: Timer | undefined;
  const beat = () => {
    heartbeat = runtime.setTimer(() => {
      if (!response.writableNeedDrain) response.write(SSE_HEARTBEAT);
      beat();
    }, HEARTBEAT_MS);
  };
  beat();
  try {
    for (;;) {
      const next = await events.next();
      if (next.done || response.closed) break;
      const { event, sequence } = next.value;
      const id = taskId === undefined || sequence === undefined ? undefined : writeCursor(taskId, sequence);
      if (!response.write(encodeSse(JSON.stringify(encode(event)), id))) await drained(response);
    }
    response.end();
  } finally {
    heartbeat?.cancel();
    response.off('close', leave);
    leave();
  }
}
