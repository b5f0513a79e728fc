import type { ServerResponse } from 'node:http';
import { drained } from '../../http/server/http-server.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { writeCursor } from '../protocol/headers.js';
import type { StreamResponse } from '../protocol/types.js';

/** One server-sent event; `data` is one line of JSON. */
export function encodeSse(data: string, id?: string): string {
  return id === undefined ? `data: ${data}\n\n` : `id: ${id}\ndata: ${data}\n\n`;
}

/** A line that readers skip, to keep a quiet connection open and to notice one that is gone. */
export const SSE_HEARTBEAT = ': \n\n';

const HEARTBEAT_MS = 15_000;

/** What a stream tells: of a task, whose events have numbers so that a reader can go on from them, or one message. */
export interface EventStream {
  readonly taskId?: string;
  readonly events: AsyncIterator<{ readonly sequence?: number; readonly event: StreamResponse }>;
}

/** Sends a stream as server-sent events, no faster than its reader takes them, until it ends or the reader leaves. */
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
  // With the first event, if there is one; a reader of a task at rest is told all the same that it is heard.
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
