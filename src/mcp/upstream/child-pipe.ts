import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import { Allowance, readLines } from '../../system/process/lines.js';

/** Lines that are no messages, such as a banner, are skipped; a program that writes nothing else speaks no MCP. */
const MAX_RUBBISH = 1_000;

/**
 * MCP over a child's standard input and output. The child belongs to whoever started it: a transport that is closed
 * leaves it running, so that a second protocol can be tried on the same one.
 */
export class ChildPipe {
  readonly #child: Child;
  readonly #allowance: Allowance;
  #transport: PipeTransport | undefined;
  #rubbish = 0;
  #failure: EclipticError | undefined;

  constructor(runtime: Runtime, child: Child) {
    this.#child = child;
    this.#allowance = new Allowance(runtime);
    void this.#read();
  }

  /** Lines that were no messages. */
  get rubbish(): number {
    return this.#rubbish;
  }

  /** How often it was slowed down. */
  get floods(): number {
    return this.#allowance.floods;
  }

  /** Why nothing more is read from it, if that is not that it ended. */
  get failure(): EclipticError | undefined {
    return this.#failure;
  }

  /** The one that messages go to from now on. */
  open(): Transport {
    this.#transport = new PipeTransport(this.#child);
    return this.#transport;
  }

  async #read(): Promise<void> {
    try {
      await readLines(this.#child.stdout, async (line) => {
        // What it says on the way is handled a moment later than an answer, which ends the call: that must not overtake.
        const asked = await this.#take(line);
        await this.#allowance.spend(line.length, asked ? 0 : 1);
      });
    } catch (error) {
      this.#failure = new EclipticError('INVALID_FRAME', describeError(error), {}, error);
    }
    // Without its output there is nothing to be had from it.
    void this.#child.stop();
    await this.#transport?.close();
  }

  /** Returns whether it was the answer to something. */
  async #take(line: string): Promise<boolean> {
    const message = parse(line);
    if (message) return this.#transport?.take(message) ?? false;
    if (line.trim() !== '' && ++this.#rubbish > MAX_RUBBISH) {
      throw new EclipticError('INVALID_FRAME', `it wrote more than ${MAX_RUBBISH} lines that are no MCP messages`);
    }
    return false;
  }
}

class PipeTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #child: Child;
  /** What waits for an answer. */
  readonly #asked = new Set<unknown>();
  #closed = false;

  constructor(child: Child) {
    this.#child = child;
  }

  async start(): Promise<void> {}

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) throw this.#child.failure();
    if ('method' in message && 'id' in message) this.#asked.add(message.id);
    // Nobody waits for it any more, and most servers do not answer then.
    else if ('method' in message && message.method === 'notifications/cancelled') {
      this.#asked.delete(message.params?.requestId);
    }
    await this.#child.write(`${JSON.stringify(message)}\n`);
  }

  /** Gives a message on; returns whether it was the answer to something. */
  take(message: JSONRPCMessage): boolean {
    this.onmessage?.(message);
    return !('method' in message) && this.#asked.delete(message.id);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}

function parse(line: string): JSONRPCMessage | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const isMessage = typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0';
    return isMessage ? (value as JSONRPCMessage) : undefined;
  } catch {
    return undefined;
  }
}
