import type { ServerResponse } from 'node:http';
import { encodeSse, SSE_HEARTBEAT } from '../../a2a/server/event-stream.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { drained } from '../server/http-server.js';

const HEARTBEAT_MS = 15_000;

/** Server-sent events of a chat protocol, with back-pressure and a heartbeat. */
export class EventWriter {
  readonly #response: ServerResponse;
  readonly #runtime: Runtime;
  #heartbeat: Timer | undefined;

  constructor(runtime: Runtime, response: ServerResponse) {
    this.#runtime = runtime;
    this.#response = response;
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-cache, no-transform',
      'X-Accel-Buffering': 'no',
    });
    response.flushHeaders();
    response.on('close', () => this.#heartbeat?.cancel());
    this.#beat();
  }

  get isClosed(): boolean {
    return this.#response.closed;
  }

  /** A `name` is the type of the event, for protocols that name them. */
  async write(event: unknown, name?: string): Promise<void> {
    if (this.isClosed) return;
    const text = encodeSse(typeof event === 'string' ? event : JSON.stringify(event));
    if (!this.#response.write(name === undefined ? text : `event: ${name}\n${text}`)) await drained(this.#response);
  }

  end(): void {
    this.#heartbeat?.cancel();
    this.#response.end();
  }

  #beat(): void {
    this.#heartbeat = this.#runtime.setTimer(() => {
      if (!this.#response.writableNeedDrain) this.#response.write(SSE_HEARTBEAT);
      this.#beat();
    }, HEARTBEAT_MS);
  }
}
