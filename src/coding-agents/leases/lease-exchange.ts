import { z } from 'zod';
import { fromWireError, toWireError } from '../../mesh/codec.js';
import type { Network } from '../../network/peers/network.js';
import type { PeerProtocol } from '../../network/peers/protocol.js';
import { ITEM, type Item, malformed, parsed } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';

interface LeaseExchangeComponents {
  runtime: Runtime;
  network: Network;
  answer: (node: string, question: string, body: unknown) => Promise<unknown>;
  /** Another device of this owner connected. */
  onBegin: (node: string) => void;
  onEnd: (node: string) => void;
  /** Do members work here or, as far as is known, on that device? Then the devices stay in touch. */
  isEngaged: (node: string) => boolean;
}

interface Waiting {
  readonly node: string;
  readonly timer: Timer;
  resolve(result: unknown): void;
  reject(error: EclipticError): void;
}

const ANSWER_MS = 5_000;
/** Questions of one node that may be open at once. */
const MAX_ANSWERING = 1_000;
const id = z.int().nonnegative();
const word = z.string().max(20);

/** Questions and answers about leases between the devices of one owner; other nodes are refused. */
export class LeaseExchange implements PeerProtocol {
  readonly kinds = [ITEM.leases];
  readonly #components: LeaseExchangeComponents;
  readonly #waiting = new Map<number, Waiting>();
  readonly #answering = new Map<string, number>();
  #nextId = 0;

  constructor(components: LeaseExchangeComponents) {
    this.#components = components;
  }

  began(node: string): void {
    if (this.#components.network.isOwnDevice(node)) this.#components.onBegin(node);
  }

  ended(node: string): void {
    this.#components.onEnd(node);
    for (const [callId, waiting] of this.#waiting)
      if (waiting.node === node) this.#fail(callId, `node ${node} was lost`);
  }

  listed(node: string): void {
    const { network, isEngaged } = this.#components;
    if (isEngaged(node) && network.isOwnDevice(node)) network.peers.open(node);
  }

  busy(node: string): boolean {
    return this.#components.isEngaged(node);
  }

  /** Begins a conversation with each device that is there: decisions must take all of them into account. */
  async meetAll(): Promise<void> {
    const { network } = this.#components;
    const idle = network.peers.all.filter(({ node, status }) => status === 'idle' && network.isOwnDevice(node));
    await Promise.allSettled(idle.map(({ node }) => network.peers.begun(node)));
  }

  /** Asks another device; rejects when it does not answer in time. */
  ask(node: string, question: string, body: unknown): Promise<unknown> {
    const { runtime, network } = this.#components;
    return new Promise((resolve, reject) => {
      const callId = this.#nextId++;
      const timer = runtime.setTimer(() => this.#fail(callId, `node ${node} did not answer`), ANSWER_MS);
      this.#waiting.set(callId, { node, timer, resolve, reject });
      network.peers
        .sendConfirmed(node, JSON.stringify([ITEM.leases, 'ask', callId, question, body]))
        .catch((error: EclipticError) => this.#settle(callId)?.reject(error));
    });
  }

  take(node: string, [, verb, callId, first, body]: Item): void {
    const number = parsed(id, callId);
    const waiting = verb === 'ask' ? undefined : this.#waiting.get(number);
    if (waiting && waiting.node !== node) throw malformed('it answers a question that another node was asked');
    if (verb === 'ask') void this.#answer(node, number, parsed(word, first), body);
    else if (verb === 'answer') this.#settle(number)?.resolve(first);
    else if (verb === 'failed') this.#settle(number)?.reject(fromWireError(first, node));
    else throw malformed('it sends an unknown kind of lease item');
  }

  close(): void {
    for (const callId of [...this.#waiting.keys()]) this.#fail(callId, 'the node has stopped');
  }

  async #answer(node: string, callId: number, question: string, body: unknown): Promise<void> {
    const { network } = this.#components;
    const busy = this.#answering.get(node) ?? 0;
    let item: unknown[];
    this.#answering.set(node, busy + 1);
    try {
      if (!network.isOwnDevice(node))
        throw new EclipticError('NOT_GRANTED', 'leases are shared among one owner’s devices');
      if (busy >= MAX_ANSWERING) throw new EclipticError('QUEUE_FULL', 'too many questions about leases at once');
      item = ['answer', callId, await this.#components.answer(node, question, body)];
    } catch (error) {
      item = ['failed', callId, toWireError(error)];
    }
    this.#answering.set(node, (this.#answering.get(node) ?? 1) - 1);
    // A device that is gone asks again.
    network.peers.sendConfirmed(node, JSON.stringify([ITEM.leases, ...item])).catch(() => {});
  }

  #fail(callId: number, reason: string): void {
    this.#settle(callId)?.reject(new EclipticError('DELIVERY_FAILED', reason, { outcome: 'unknown' }));
  }

  #settle(callId: number): Waiting | undefined {
    const waiting = this.#waiting.get(callId);
    this.#waiting.delete(callId);
    waiting?.timer.cancel();
    return waiting;
  }
}
