import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Invocation } from './command.js';

/** Carries MCP between this process's input and output and the node, with everything that agents offer. */
export async function pipeEverything({ connect, values }: Invocation): Promise<void> {
  const { as } = values;
  const client = await connect();
  const runtime = systemRuntime();
  const session = runtime.id();
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const unanswered = new Unanswered();
  const ended = client.call('mcp.open', { session, as }, (message) => {
    if (message === null) return open();
    process.stdout.write(`${JSON.stringify(message)}\n`);
    unanswered.heard(message);
  });
  await Promise.race([opened, ended]);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const message = parse(line);
    if (message === undefined) process.stdout.write(`${JSON.stringify(PARSE_ERROR)}\n`);
    else {
      unanswered.said(message);
      client.call('mcp.send', { session, message }).catch(() => lines.close());
    }
  });
  // Whoever started this closes its input when it is done with it; what it asked before is answered.
  await Promise.race([once(lines, 'close').then(() => unanswered.none(runtime)), ended]);
}

/** How long answers are waited for once the input has ended. */
const ANSWERS_MS = 2_000;

/** What was asked and not answered yet. */
class Unanswered {
  readonly #ids = new Set<unknown>();
  #onNone: (() => void) | undefined;

  said(message: unknown): void {
    const { id, method } = (message ?? {}) as { id?: unknown; method?: unknown };
    if (id !== undefined && method !== undefined) this.#ids.add(id);
  }

  heard(message: unknown): void {
    const { id, method } = message as { id?: unknown; method?: unknown };
    if (method === undefined) this.#ids.delete(id);
    if (this.#ids.size === 0) this.#onNone?.();
  }

  none(runtime: Runtime): Promise<void> {
    return new Promise((resolve) => {
      const timer = runtime.setTimer(resolve, ANSWERS_MS);
      this.#onNone = () => {
        timer.cancel();
        resolve();
      };
      if (this.#ids.size === 0) this.#onNone();
    });
  }
}

const PARSE_ERROR = { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Parse error' } };

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
