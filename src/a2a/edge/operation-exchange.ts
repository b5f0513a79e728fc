import { z } from 'zod';
import type { Network } from '../../network/peers/network.js';
import type { PeerProtocol } from '../../network/peers/protocol.js';
import { type Item, malformed, parsed } from '../../network/peers/wire.js';
import { wait } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { type Amount, FairShares } from '../../runtime/fair-shares.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { EventStream } from '../server/event-stream.js';
import type { Outcome } from '../server/operations.js';
import { MAX_UNREAD, type NumberedEvent, RemoteStream, SharedWindow, StreamWindow } from './edge-stream.js';
import { ItemSender, PART_CHARS, PartReader } from './item-parts.js';

/** How long the asking node waits. */
export interface Patience {
  /** For the answer; without it, until the node is away. */
  readonly answerMs?: number | undefined;
  /** Calls back if the caller disconnects. */
  readonly onGone?: (callback: () => void) => () => void;
}

/** What every question has. */
export interface AnyQuestion {
  readonly caller: string;
  readonly params?: unknown;
}

/** A protocol that carries operations: which items, which questions, and between which nodes. */
export interface OperationProtocol<Question extends AnyQuestion> {
  /** The kind of its items. */
  readonly kind: string;
  /** The version of the wire format that has them. */
  readonly since: number;
  readonly question: z.ZodType<Question>;
  /** Questions of one node in progress, and their characters; when they are used up, each caller has an equal part. */
  readonly serving: Amount;
  /** Refuses a node with which the protocol is not spoken. */
  readonly refuse?: (node: string) => EclipticError | undefined;
  /** For the log and the audit log. */
  readonly refusal?: string;
  /** Why an item that waited for a conversation cannot be sent any more. */
  readonly whyNot?: (node: string, question: Question) => EclipticError | undefined;
  readonly errors: {
    write(error: unknown): unknown;
    read(value: unknown, node: string): EclipticError;
  };
  /** Events are measured, because the other node may send more than it was allowed to. */
  readonly measuresEvents?: boolean;
}

export interface OperationExchangeComponents<Question extends AnyQuestion> {
  runtime: Runtime;
  network: Network;
  answer: (
    question: Question,
    onGone: (callback: () => void) => () => void,
    node: string,
  ) => Outcome | Promise<Outcome>;
}

/** A question to another node. */
interface Asked {
  readonly node: string;
  readonly sent: Promise<unknown>;
  timer: Timer | undefined;
  stream: RemoteStream | undefined;
  resolve(outcome: Outcome): void;
  reject(error: EclipticError): void;
}

/** A question of another node. */
class Serving {
  readonly window: StreamWindow;
  readonly #listeners = new Set<() => void>();
  gone = false;

  constructor(shared: SharedWindow) {
    this.window = new StreamWindow(shared);
  }

  readonly onGone = (callback: () => void): (() => void) => {
    if (this.gone) callback();
    else this.#listeners.add(callback);
    return () => {
      this.#listeners.delete(callback);
    };
  };

  stop(): void {
    if (this.gone) return;
    this.gone = true;
    this.window.close();
    for (const callback of [...this.#listeners]) callback();
  }
}

/** What one other node has asked here. */
class PeerQuestions {
  readonly serving = new Map<number, Serving>();
  readonly shares: FairShares;
  readonly parts: PartReader;
  readonly events = new SharedWindow(MAX_EVENT_CHARS);

  constructor({ kind, serving }: Pick<OperationProtocol<never>, 'kind' | 'serving'>) {
    this.shares = new FairShares(serving);
    this.parts = new PartReader(kind);
  }
}

/** Characters of events under way to readers at one node: a quarter of the queue to it. */
const MAX_EVENT_CHARS = 16 * 1_048_576;
/** Between attempts to tell a node, whose queue is full, that its question failed. */
const FULL_MS = 500;
/** Until the other node has taken a question. */
export const TAKEN_MS = 5_000;
const REPORT_MS = 60_000;
const number = z.int().nonnegative();

/**
 * Carries A2A operations between nodes: a question, its answer or the events of a stream, and the end of the caller's
 * interest. A node with which the protocol is not spoken gets one refusal for every item, whatever it asks.
 */
export class OperationExchange<Question extends AnyQuestion> implements PeerProtocol {
  readonly kinds: readonly string[];
  readonly #components: OperationExchangeComponents<Question>;
  readonly #protocol: OperationProtocol<Question>;
  readonly #sender: ItemSender;
  readonly #asked = new Map<number, Asked>();
  readonly #peers = new Map<string, PeerQuestions>();
  readonly #reported = new Map<string, number>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #nextId = 0;

  constructor(components: OperationExchangeComponents<Question>, protocol: OperationProtocol<Question>) {
    this.#components = components;
    this.#protocol = protocol;
    this.kinds = [protocol.kind];
    const { peers } = components.network;
    this.#sender = new ItemSender(protocol.kind, (node, text) => peers.sendConfirmed(node, text));
    peers.onRemoved((node) => this.#reported.delete(node));
  }

  /** Has another node perform an operation. Fails with `PEER_UNREACHABLE` when that node is away or silent. */
  ask(node: string, question: Question, { answerMs, onGone }: Patience): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#requireAble(node);
      requireValid(this.#protocol.question, question);
      const id = this.#nextId++;
      const sent = this.#sender.send(node, ['ask', id, question]);
      let stay: (() => void) | undefined;
      const settle = () => {
        stay?.();
        asked.timer?.cancel();
        asked.timer = undefined;
      };
      const asked: Asked = {
        node,
        sent: sent.catch(() => {}),
        timer: this.#limit(id, answerMs ?? TAKEN_MS),
        stream: undefined,
        resolve: (outcome) => {
          settle();
          resolve(outcome);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      this.#asked.set(id, asked);
      stay = onGone?.(() => {
        this.#stop(id);
        asked.reject(new EclipticError('CANCELLED', 'the caller disconnected'));
      });
      sent.then(
        // The work may take long; the node is watched by its link.
        () => answerMs === undefined && asked.timer?.cancel(),
        (error: EclipticError) => this.#fail(id, lostOr(error, node)),
      );
    });
  }

  take(node: string, item: Item): void {
    const refusal = this.#protocol.refuse?.(node);
    if (refusal) {
      this.#report(node);
      throw refusal;
    }
    this.#take(node, item);
  }

  /** Calls back once when that node is there again. Returns a function that ends the wait. */
  onAvailable(node: string, callback: () => void): () => void {
    const waiting = this.#waiting.get(node) ?? new Set();
    this.#waiting.set(node, waiting.add(callback));
    return () => {
      waiting.delete(callback);
      if (waiting.size === 0 && this.#waiting.get(node) === waiting) this.#waiting.delete(node);
    };
  }

  connected(node: string): void {
    const waiting = this.#waiting.get(node);
    this.#waiting.delete(node);
    for (const callback of waiting ?? []) callback();
  }

  listed(node: string): void {
    this.connected(node);
  }

  busy(node: string): boolean {
    if ((this.#peers.get(node)?.serving.size ?? 0) > 0) return true;
    for (const asked of this.#asked.values()) if (asked.node === node) return true;
    return false;
  }

  whyNot(node: string, [, verb, , question]: Item): EclipticError | undefined {
    return verb === 'ask' ? this.#protocol.whyNot?.(node, question as Question) : undefined;
  }

  /** Callers learn at once that the node is away. Questions of that node go on: it stops them if it noticed, too. */
  interrupted(node: string): void {
    this.#failAll(node, 'the connection to it was interrupted');
  }

  ended(node: string): void {
    this.#failAll(node, 'it was lost');
    for (const one of this.#peers.get(node)?.serving.values() ?? []) one.stop();
    this.#peers.delete(node);
    this.#sender.forget(node);
  }

  close(): void {
    for (const id of [...this.#asked.keys()])
      this.#fail(id, new EclipticError('NODE_STOPPED', 'this node has stopped'));
    for (const { serving } of this.#peers.values()) for (const one of serving.values()) one.stop();
  }

  #take(node: string, [, verb, first, second, third]: Item): void {
    const peer = this.#peers.get(node) ?? new PeerQuestions(this.#protocol);
    this.#peers.set(node, peer);
    if (verb === 'part') peer.parts.add(parsed(z.string().max(PART_CHARS), first));
    else if (verb === 'whole') this.#take(node, peer.parts.join());
    else this.#takeShort(node, peer, verb, parsed(number, first), second, third);
  }

  #takeShort(node: string, peer: PeerQuestions, verb: unknown, id: number, value: unknown, marked: unknown): void {
    if (verb === 'ask') this.#serve(node, peer, id, parsed(this.#protocol.question, value));
    else if (verb === 'stop') peer.serving.get(id)?.stop();
    else if (verb === 'read') peer.serving.get(id)?.window.read(Math.min(parsed(number, value), MAX_UNREAD));
    else this.#takeAnswer(node, verb, id, value, marked);
  }

  // Questions to other nodes

  #takeAnswer(node: string, verb: unknown, id: number, value: unknown, marked: unknown): void {
    const asked = this.#asked.get(id);
    if (asked && asked.node !== node) throw malformed('it answers a question that another node was asked');
    if (verb === 'answer') {
      this.#asked.delete(id);
      asked?.resolve({ result: value });
    } else if (verb === 'failed') this.#fail(id, this.#protocol.errors.read(value, node));
    else if (verb === 'opened') {
      if (!asked) return;
      if (asked.stream) throw malformed('it opens a stream twice');
      asked.stream = this.#streamOf(id, node);
      asked.resolve({ stream: { ...(typeof value === 'string' && { taskId: value }), events: asked.stream } });
    } else if (verb === 'event') {
      if (!asked) return;
      if (!asked.stream || asked.stream.unread > MAX_UNREAD) throw malformed('it sends an event that is not awaited');
      const chars = this.#protocol.measuresEvents ? JSON.stringify(value ?? null).length : 0;
      if (!asked.stream.push(value as NumberedEvent, marked === true, chars)) {
        throw malformed('it sends more events than the reader has room for');
      }
    } else if (verb === 'end') {
      this.#asked.delete(id);
      asked?.stream?.end();
    } else throw malformed('it sends an unknown kind of edge item');
  }

  #streamOf(id: number, node: string): RemoteStream {
    return new RemoteStream({
      read: (count) => void this.#sender.send(node, ['read', id, count]).catch(() => {}),
      left: () => this.#stop(id),
    });
  }

  /** Items between nodes stay in order, but a long question travels in parts: its stop must not overtake it. */
  #stop(id: number): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (asked) void asked.sent.then(() => this.#sender.send(asked.node, ['stop', id])).catch(() => {});
  }

  #requireAble(node: string): void {
    const { peers } = this.#components.network;
    // A node that there is no conversation with may still answer the first item.
    if (!peers.get(node)?.conversing) return;
    if (!peers.reachable(node)) throw unreachable(node, 'it is not connected', 'not-delivered');
    if (!peers.speaks(node, this.#protocol.since)) throw unreachable(node, 'its release is too old', 'not-delivered');
  }

  #limit(id: number, ms: number): Timer {
    return this.#components.runtime.setTimer(() => {
      const asked = this.#asked.get(id);
      this.#stop(id);
      asked?.reject(unreachable(asked.node, 'it did not answer in time'));
    }, ms);
  }

  #fail(id: number, error: EclipticError): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    asked?.stream?.end(error);
    asked?.reject(error);
  }

  #failAll(node: string, reason: string): void {
    for (const [id, asked] of this.#asked) {
      if (asked.node !== node) continue;
      // If only this side noticed the interruption, the other must still learn that the reader is gone.
      this.#stop(id);
      const error = unreachable(node, reason);
      asked.stream?.end(error);
      asked.reject(error);
    }
  }

  // Questions of other nodes

  #serve(node: string, peer: PeerQuestions, id: number, question: Question): void {
    if (peer.serving.has(id)) throw malformed('it asks a question twice');
    const { caller } = question;
    if (!peer.shares.hasRoom(caller)) {
      throw new EclipticError('QUEUE_FULL', 'this caller has its share of the requests between the nodes');
    }
    const chars = JSON.stringify(question.params ?? null).length;
    const serving = new Serving(peer.events);
    peer.serving.set(id, serving);
    peer.shares.add(caller, chars);
    void this.#answer(node, id, question, serving).finally(() => {
      serving.window.close();
      peer.serving.delete(id);
      peer.shares.remove(caller, chars);
    });
  }

  async #answer(node: string, id: number, question: Question, serving: Serving): Promise<void> {
    try {
      const outcome = await this.#components.answer(question, serving.onGone, node);
      if ('stream' in outcome) await this.#sendEvents(node, id, outcome.stream, serving);
      else if (!serving.gone) await this.#sender.send(node, ['answer', id, outcome.result]);
    } catch (error) {
      await this.#sendFailure(node, ['failed', id, this.#protocol.errors.write(error)], serving);
    }
  }

  /** The other node may wait without a deadline, so it is told as soon as there is room. One that is gone asks again. */
  async #sendFailure(node: string, item: readonly unknown[], serving: Serving): Promise<void> {
    while (!serving.gone) {
      const error = await this.#sender.send(node, item).catch((thrown: EclipticError) => thrown);
      if (error?.code !== 'QUEUE_FULL') return;
      await wait(this.#components.runtime, FULL_MS);
    }
  }

  async #sendEvents(node: string, id: number, { taskId, events }: EventStream, serving: Serving): Promise<void> {
    const { window } = serving;
    const leave = serving.onGone(() => void events.return?.());
    let lost: EclipticError | undefined;
    const onLost = (error: EclipticError) => {
      lost ??= error;
      void events.return?.();
      window.close();
    };
    try {
      this.#sender.send(node, ['opened', id, taskId ?? null]).catch(onLost);
      for (;;) {
        const next = await events.next();
        if (serving.gone) return;
        if (lost) throw lost;
        if (next.done) break;
        const text = JSON.stringify(next.value);
        const sent = this.#sender.sendText(node, ['event', id], text, window.sent(text.length));
        // Events that travel whole stay in order without waiting for each other.
        if (text.length > PART_CHARS / 2) await sent;
        else sent.catch(onLost);
        await window.room();
      }
      await this.#sender.send(node, ['end', id]);
    } finally {
      leave();
      void events.return?.();
    }
  }

  /** A flood of refused items is one line a minute in the log and the audit log. */
  #report(node: string): void {
    const { runtime, network } = this.#components;
    const now = runtime.stopwatch();
    if (now - (this.#reported.get(node) ?? Number.NEGATIVE_INFINITY) < REPORT_MS) return;
    this.#reported.set(node, now);
    network.peers.report(node, 'NOT_GRANTED', `node ${node} ${this.#protocol.refusal}`);
  }
}

/** What a caller has sent must never look like the fault of this node. */
function requireValid<Question>(schema: z.ZodType<Question>, question: Question): void {
  const [issue] = schema.safeParse(question).error?.issues ?? [];
  if (!issue) return;
  const field = issue.path.join('.');
  throw new EclipticError('INVALID_PARAMS', `${field}: ${issue.message}`, { field, problem: issue.message });
}

function lostOr(error: EclipticError, node: string): EclipticError {
  const { outcome } = error.details;
  return error.code === 'DELIVERY_FAILED' ? unreachable(node, 'it is away', String(outcome ?? 'unknown')) : error;
}

export function unreachable(node: string, reason: string, outcome = 'unknown'): EclipticError {
  const message = `node ${node.slice(0, 12)}, which keeps the task, gave no answer: ${reason}`;
  return new EclipticError('PEER_UNREACHABLE', message, { node, reason, outcome });
}
