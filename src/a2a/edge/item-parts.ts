import { type Item, malformed } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';

/** Longer items travel in parts, so that they do not block those behind them. */
export const PART_CHARS = 262_144;
/** The longest item: a task with its artifacts. */
const MAX_PARTS = 64;

/** Sends items of any length up to the limit. To one node, one long item is sent at a time. */
export class ItemSender {
  readonly #kind: string;
  readonly #send: (node: string, text: string) => Promise<void>;
  readonly #long = new Map<string, Promise<void>>();

  constructor(kind: string, send: (node: string, text: string) => Promise<void>) {
    this.#kind = kind;
    this.#send = send;
  }

  async send(node: string, item: readonly unknown[]): Promise<void> {
    return this.#sendWhole(node, JSON.stringify([this.#kind, ...item]));
  }

  /** An item whose value is JSON text already. */
  async sendText(node: string, item: readonly unknown[], value: string, marked: boolean): Promise<void> {
    const head = JSON.stringify([this.#kind, ...item]).slice(0, -1);
    return this.#sendWhole(node, `${head},${value},${marked}]`);
  }

  /** The conversation has ended, and with it the item that was being sent. */
  forget(node: string): void {
    this.#long.delete(node);
  }

  async #sendWhole(node: string, text: string): Promise<void> {
    if (text.length <= PART_CHARS) return this.#send(node, text);
    if (text.length > MAX_PARTS * PART_CHARS) {
      const limit = MAX_PARTS * PART_CHARS;
      const message = `it takes ${text.length} characters, and ${limit} can travel between nodes`;
      throw new EclipticError('PAYLOAD_TOO_LARGE', message, { limit });
    }
    const before = this.#long.get(node) ?? Promise.resolve();
    const sent = before.then(() => this.#sendParts(node, text));
    const settled = sent.catch(() => {});
    this.#long.set(node, settled);
    return sent.finally(() => this.#long.get(node) === settled && this.#long.delete(node));
  }

  /** Each part waits for the one before it, which leaves room for the items of others. */
  async #sendParts(node: string, text: string): Promise<void> {
    for (let at = 0; at < text.length; at += PART_CHARS) {
      await this.#send(node, JSON.stringify([this.#kind, 'part', text.slice(at, at + PART_CHARS)]));
    }
    await this.#send(node, JSON.stringify([this.#kind, 'whole']));
  }
}

/** Puts a long item of one node together. */
export class PartReader {
  readonly #kind: string;
  #parts: string[] = [];

  constructor(kind: string) {
    this.#kind = kind;
  }

  add(part: string): void {
    if (this.#parts.length >= MAX_PARTS) throw malformed('an item has too many parts');
    this.#parts.push(part);
  }

  join(): Item {
    const text = this.#parts.join('');
    this.#parts = [];
    let item: unknown;
    try {
      item = JSON.parse(text);
    } catch {
      throw malformed('an item in parts is not JSON');
    }
    const isWhole = Array.isArray(item) && item[0] === this.#kind && item[1] !== 'part' && item[1] !== 'whole';
    if (!isWhole) throw malformed('an item in parts is wrong');
    return item as unknown as Item;
  }
}
