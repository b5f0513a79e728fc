import type { MsgHdrs } from '@nats-io/transport-node';

/** A batch that is larger than the server's `max_payload` is published in parts, each with this header: `ID AT COUNT`. */
const HEADER = 'Ecl-Part';
const PART = /^([\w-]{43}) (\d{1,6}) (\d{1,6})$/;

interface Begun {
  readonly id: string;
  readonly count: number;
  readonly parts: Uint8Array[];
  bytes: number;
}

/** The headers of a part, and the bytes of it. */
export function* partsOf(id: string, bytes: Uint8Array, size: number): Generator<readonly [text: string, Uint8Array]> {
  const count = Math.ceil(bytes.length / size);
  for (let at = 0; at < count; at++) yield [`${id} ${at} ${count}`, bytes.subarray(at * size, (at + 1) * size)];
}

export function markPart(headers: MsgHdrs, text: string): void {
  headers.set(HEADER, text);
}

/** Puts batches together that came in parts. The parts of one sender come in order. */
export class BatchParts {
  readonly #maxBytes: number;
  readonly #maxSenders: number;
  readonly #begun = new Map<string, Begun>();

  constructor(init: { maxBytes: number; maxSenders: number }) {
    this.#maxBytes = init.maxBytes;
    this.#maxSenders = init.maxSenders;
  }

  clear(): void {
    this.#begun.clear();
  }

  /** The whole batch; `begun` or `more` if other parts are still to come, `broken` if one is missing. */
  take(node: string, headers: MsgHdrs | undefined, data: Uint8Array): Uint8Array | 'begun' | 'more' | 'broken' {
    const text = headers?.get(HEADER) ?? '';
    if (text === '') {
      this.#begun.delete(node);
      return data;
    }
    const [, id = '', at = '', count = ''] = PART.exec(text) ?? [];
    if (id !== '' && Number(at) === 0) {
      const isFull = this.#begun.size >= this.#maxSenders && !this.#begun.has(node);
      if (isFull || Number(count) < 2 || data.length > this.#maxBytes) return 'broken';
      this.#begun.set(node, { id, count: Number(count), parts: [data], bytes: data.length });
      return 'begun';
    }
    const begun = this.#begun.get(node);
    if (!begun || begun.id !== id || begun.count !== Number(count)) return this.#break(node);
    // Published again, because its acknowledgement did not come.
    if (Number(at) < begun.parts.length) return 'more';
    begun.bytes += data.length;
    if (Number(at) > begun.parts.length || begun.bytes > this.#maxBytes) return this.#break(node);
    begun.parts.push(data);
    if (begun.parts.length < begun.count) return 'more';
    this.#begun.delete(node);
    return Buffer.concat(begun.parts);
  }

  #break(node: string): 'broken' {
    this.#begun.delete(node);
    return 'broken';
  }
}
