import { z } from 'zod';
import { fromWireError, toWireError } from '../mesh/codec.js';
import { LIMITS } from '../mesh/limits.js';
import type { Network } from '../network/peers/network.js';
import type { PeerProtocol } from '../network/peers/protocol.js';
import { ITEM, type Item, malformed, OBJECTS, parsed } from '../network/peers/wire.js';
import { within } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { CHUNK_BYTES, MAX_TRANSFERS, OBJECT_LIMITS, PATIENCE_MS, WINDOW_CHUNKS } from './limits.js';
import { ObjectRefSchema } from './reference.js';

const { object, key } = ObjectRefSchema.shape;
const QuestionSchema = z.object({
  object,
  key,
  /** An agent of the asking node. */
  reader: z.string().min(1).max(LIMITS.agentIdChars),
  offset: z.int().nonnegative().max(OBJECT_LIMITS.objectBytes),
});
export type ObjectQuestion = z.infer<typeof QuestionSchema>;

const counter = z.int().nonnegative();
/** Base64 of a chunk. */
const chunkText = z.string().max(Math.ceil(CHUNK_BYTES / 3) * 4);
const REPORT_MS = 60_000;

export interface ObjectExchangeComponents {
  runtime: Runtime;
  network: Network;
  /** The bytes that another node asks for. Throws the reason why it does not get them. */
  serve: (node: string, question: ObjectQuestion) => AsyncIterable<Uint8Array>;
}

/** An object that this node reads from another. */
class Reading {
  readonly node: string;
  readonly chunks: Uint8Array[] = [];
  ended = false;
  /** Has the other node sent all that it will? */
  finished = false;
  error: EclipticError | undefined;
  #wake: (() => void) | undefined;

  constructor(node: string) {
    this.node = node;
  }

  push(chunk: Uint8Array): void {
    if (this.chunks.length >= WINDOW_CHUNKS) throw malformed('it sends more of an object than was asked for');
    this.chunks.push(chunk);
    this.#wake?.();
  }

  end(error?: EclipticError): void {
    this.ended = true;
    this.error ??= error;
    this.#wake?.();
  }

  finish(error?: EclipticError): void {
    this.finished = true;
    this.end(error);
  }

  /** Resolves when there is a chunk, or the end. */
  async next(): Promise<void> {
    while (this.chunks.length === 0 && !this.ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** An object that another node reads here. */
class Serving {
  under = 0;
  stopped = false;
  #wake: (() => void) | undefined;

  read(count: number): void {
    this.under -= Math.min(count, this.under);
    this.#wake?.();
  }

  stop(): void {
    this.stopped = true;
    this.#wake?.();
  }

  async room(): Promise<void> {
    while (!this.stopped && this.under >= WINDOW_CHUNKS) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Carries the bytes of objects between nodes, no faster than they are read, and from any offset. */
export class ObjectExchange implements PeerProtocol {
  readonly kinds = [ITEM.objects];
  readonly #components: ObjectExchangeComponents;
  readonly #reading = new Map<number, Reading>();
  readonly #serving = new Map<string, Map<number, Serving>>();
  /** Readers that wait for their turn, by node. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #reported = new Map<string, number>();
  #nextId = 0;

  constructor(components: ObjectExchangeComponents) {
    this.#components = components;
    components.network.peers.onRemoved((node) => this.#reported.delete(node));
  }

  /** Reads an object of another node. Fails with `PEER_UNREACHABLE` when that node is away, and may be tried again then. */
  async *read(node: string, question: ObjectQuestion, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    await this.#turn(node);
    const id = this.#nextId++;
    const reading = new Reading(node);
    this.#reading.set(id, reading);
    const cancel = () => reading.end(new EclipticError('CANCELLED', 'the reading was cancelled'));
    signal?.addEventListener('abort', cancel);
    try {
      await this.#requireAble(node);
      this.#ask(node, id, question, reading);
      for (;;) {
        await within(this.#components.runtime, reading.next(), PATIENCE_MS, () => {
          throw away(node, 'it sends nothing');
        });
        const chunk = reading.chunks.shift();
        if (chunk) {
          this.#send(node, ['read', id, 1]).catch(() => {});
          yield chunk;
        } else if (reading.error) throw reading.error;
        else return;
      }
    } finally {
      signal?.removeEventListener('abort', cancel);
      this.#reading.delete(id);
      if (!reading.finished) this.#send(node, ['stop', id]).catch(() => {});
      this.#endTurn(node);
    }
  }

  take(node: string, [, verb, first, value]: Item): void {
    const id = parsed(counter, first);
    if (verb === 'get') this.#serve(node, id, parsed(QuestionSchema, value));
    else if (verb === 'read') this.#serving.get(node)?.get(id)?.read(parsed(counter, value));
    else if (verb === 'stop') this.#serving.get(node)?.get(id)?.stop();
    else this.#takeAnswer(node, verb, id, value);
  }

  /** A reader asks again, from where it is, once the node is back; it may have another source meanwhile. */
  interrupted(node: string): void {
    for (const reading of this.#reading.values()) {
      if (reading.node === node && !reading.ended) reading.end(away(node, 'the connection to it was interrupted'));
    }
  }

  ended(node: string): void {
    this.interrupted(node);
    for (const serving of this.#serving.get(node)?.values() ?? []) serving.stop();
    this.#serving.delete(node);
  }

  busy(node: string): boolean {
    return this.#serving.has(node) || [...this.#reading.values()].some((reading) => reading.node === node);
  }

  close(): void {
    const error = new EclipticError('NODE_STOPPED', 'this node has stopped');
    for (const reading of this.#reading.values()) reading.end(error);
    for (const peer of this.#serving.values()) for (const serving of peer.values()) serving.stop();
  }

  // Reading

  #ask(node: string, id: number, question: ObjectQuestion, reading: Reading): void {
    this.#send(node, ['get', id, question]).catch((error: EclipticError) => {
      reading.end(error.code === 'DELIVERY_FAILED' ? away(node, 'it is away') : error);
    });
  }

  #takeAnswer(node: string, verb: unknown, id: number, value: unknown): void {
    const reading = this.#reading.get(id);
    if (reading && reading.node !== node) throw malformed('it answers for an object that another node was asked for');
    if (verb === 'data') {
      const chunk = Buffer.from(parsed(chunkText, value), 'base64');
      // After an interruption, chunks of the earlier answer may still come.
      if (reading && !reading.ended) reading.push(chunk);
    } else if (verb === 'end') reading?.finish();
    else if (verb === 'failed') reading?.finish(fromWireError(value, node));
    else throw malformed('it sends an unknown kind of object item');
  }

  async #requireAble(node: string): Promise<void> {
    const { peers } = this.#components.network;
    await peers.begun(node).catch(() => {
      throw away(node, 'it is not connected');
    });
    if (peers.speaks(node, OBJECTS)) return;
    throw new EclipticError('METHOD_NOT_FOUND', `the release of node ${node.slice(0, 12)} has no objects`, { node });
  }

  /** Resolves when another object may be read from that node. */
  async #turn(node: string): Promise<void> {
    const waiting = this.#waiting.get(node) ?? [];
    this.#waiting.set(node, waiting);
    const position = waiting.length;
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      if (position < MAX_TRANSFERS) resolve();
    });
  }

  #endTurn(node: string): void {
    const waiting = this.#waiting.get(node)!;
    waiting.shift();
    waiting[MAX_TRANSFERS - 1]?.();
    if (waiting.length === 0) this.#waiting.delete(node);
  }

  // Serving

  #serve(node: string, id: number, question: ObjectQuestion): void {
    const peer = this.#serving.get(node) ?? new Map<number, Serving>();
    if (peer.has(id)) throw malformed('it asks for an object twice');
    if ([...peer.values()].filter(({ stopped }) => !stopped).length >= MAX_TRANSFERS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_TRANSFERS} objects are being read by that node already`);
    }
    const serving = new Serving();
    peer.set(id, serving);
    this.#serving.set(node, peer);
    void this.#answer(node, id, question, serving).finally(() => {
      peer.delete(id);
      if (peer.size === 0 && this.#serving.get(node) === peer) this.#serving.delete(node);
    });
  }

  async #answer(node: string, id: number, question: ObjectQuestion, serving: Serving): Promise<void> {
    try {
      for await (const chunk of this.#components.serve(node, question)) {
        await serving.room();
        if (serving.stopped) return;
        serving.under++;
        const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('base64');
        this.#send(node, ['data', id, text]).catch(() => serving.stop());
      }
      await this.#send(node, ['end', id]);
    } catch (error) {
      if ((error as EclipticError).code === 'OBJECT_REFUSED') this.#report(node, error as EclipticError);
      await this.#send(node, ['failed', id, toWireError(error)]).catch(() => {});
    }
  }

  async #send(node: string, item: readonly unknown[]): Promise<void> {
    return this.#components.network.peers.sendConfirmed(node, JSON.stringify([ITEM.objects, ...item]));
  }

  /** A flood of refused questions is one line a minute in the log and the audit log. */
  #report(node: string, { message }: EclipticError): void {
    const { runtime, network } = this.#components;
    const now = runtime.stopwatch();
    if (now - (this.#reported.get(node) ?? Number.NEGATIVE_INFINITY) < REPORT_MS) return;
    this.#reported.set(node, now);
    network.peers.report(node, 'OBJECT_REFUSED', message);
  }
}

export function away(node: string, reason: string): EclipticError {
  return new EclipticError('PEER_UNREACHABLE', `node ${node.slice(0, 12)}, which has the object: ${reason}`, { node });
}
