import { hash } from 'node:crypto';
import { z } from 'zod';
import { fromWireError, toWireError } from '../../mesh/codec.js';
import type { Network } from '../../network/peers/network.js';
import type { PeerProtocol } from '../../network/peers/protocol.js';
import { ITEM, type Item, malformed, OWNER_DEVICES, parsed } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';

interface DeviceExchangeComponents {
  runtime: Runtime;
  network: Network;
  answer: (node: string, method: string, params: unknown) => Promise<unknown>;
}

/** An answer, and the tag by which the other device can say that it has not changed. */
export interface Told {
  readonly tag: string;
  readonly result: unknown;
}

interface Asked {
  readonly node: string;
  readonly timer: Timer;
  readonly known: Told | undefined;
  resolve(told: Told): void;
  reject(error: EclipticError): void;
}

/** How much one device asks of this one. */
interface Share {
  answering: number;
  /** Requests that it may make at once, refilled with time. */
  allowance: number;
  at: number;
}

const ANSWER_MS = 5_000;
const MAX_ANSWERING = 16;
const MAX_BURST = 30;
const PER_SECOND = 10;
/** A request; the longest is a reply to mail. */
const MAX_REQUEST_CHARS = 65_536;
/** Every changed file of a folder is in one report. */
const MAX_REPORT_CHARS = 786_432;
export const MAX_ANSWER_BYTES = 1_048_576;
/** How often refusals of one node are reported. */
const REPORT_MS = 60_000;

const number = z.int().nonnegative();
const method = z.string().max(40);
const tag = z.string().max(64);

/**
 * Questions and answers between the owner's devices. Only nodes whose certificate has the `owner` grant are asked or
 * answered; all others get the same refusal, whatever they ask.
 */
export class DeviceExchange implements PeerProtocol {
  readonly kinds = [ITEM.devices];
  readonly #components: DeviceExchangeComponents;
  readonly #asked = new Map<number, Asked>();
  readonly #shares = new Map<string, Share>();
  /** When a refusal of each node was last reported. */
  readonly #reported = new Map<string, number>();
  readonly #lastHeard = new Map<string, number>();
  readonly #listeners = new Set<(node: string) => void>();
  #nextId = 0;

  constructor(components: DeviceExchangeComponents) {
    this.#components = components;
  }

  /** Calls back when a device of the owner's connects. */
  onConnected(listener: (node: string) => void): void {
    this.#listeners.add(listener);
  }

  connected(node: string): void {
    if (!this.#components.network.isOwnerDevice(node)) return;
    for (const listener of this.#listeners) listener(node);
  }

  interrupted(node: string): void {
    const { network, runtime } = this.#components;
    this.#lastHeard.set(node, network.peers.seenAt(node) ?? runtime.now());
    this.#failAll(node, 'the connection to it was interrupted');
  }

  ended(node: string): void {
    this.#failAll(node, 'it was lost');
  }

  /** When that node was last heard of in this run. */
  lastHeard(node: string): number | undefined {
    return this.#components.network.peers.seenAt(node) ?? this.#lastHeard.get(node);
  }

  /** The node is no longer a member. Until then its share outlives its conversations. */
  forget(node: string): void {
    this.#shares.delete(node);
    this.#reported.delete(node);
    this.#lastHeard.delete(node);
  }

  /** Asks another device. With `known`, an unchanged answer is not sent again. */
  ask(node: string, asked: string, params: unknown, known?: Told): Promise<Told> {
    const { runtime, network } = this.#components;
    const text = JSON.stringify([ITEM.devices, 'ask', this.#nextId, asked, params, known?.tag ?? null]);
    return new Promise((resolve, reject) => {
      if (!network.isOwnerDevice(node)) throw notGranted(node);
      if (!network.peers.reachable(node)) throw unreachable(node, 'it is not connected');
      if (!network.peers.speaks(node, OWNER_DEVICES)) throw unreachable(node, 'its release is too old');
      if (text.length > longest(asked)) throw new EclipticError('PAYLOAD_TOO_LARGE', 'the request is too long');
      const id = this.#nextId++;
      const timer = runtime.setTimer(() => this.#fail(id, 'it did not answer in time'), ANSWER_MS);
      this.#asked.set(id, { node, timer, known, resolve, reject });
      network.peers.sendConfirmed(node, text).catch((error: EclipticError) => this.#settle(id)?.reject(error));
    });
  }

  take(node: string, [, verb, id, first, second, third]: Item): void {
    if (verb === 'ask') this.#takeQuestion(node, id, first, second, third);
    else this.#takeAnswer(node, verb, parsed(number, id), first, second);
  }

  close(): void {
    for (const id of [...this.#asked.keys()]) this.#fail(id, 'this node has stopped');
    this.#listeners.clear();
  }

  #takeAnswer(node: string, verb: unknown, at: number, first: unknown, second: unknown): void {
    const asked = this.#asked.get(at);
    if (asked && asked.node !== node) throw malformed('it answers a question that another node was asked');
    if (verb === 'answer') this.#settle(at)?.resolve({ result: first, tag: parsed(tag, second) });
    else if (verb === 'failed') this.#settle(at)?.reject(fromWireError(first, node));
    else if (verb === 'same') this.#takeSame(at);
    else throw malformed('it sends an unknown kind of devices item');
  }

  #takeSame(id: number): void {
    const known = this.#asked.get(id)?.known;
    const asked = this.#settle(id);
    if (asked && !known) asked.reject(new EclipticError('INVALID_FRAME', 'the device repeats an answer never given'));
    else asked?.resolve(known!);
  }

  #takeQuestion(node: string, id: unknown, asked: unknown, params: unknown, known: unknown): void {
    const { network } = this.#components;
    if (!network.isOwnerDevice(node)) {
      this.#report(node);
      throw notGranted(node);
    }
    const share = this.#shareOf(node);
    if (share.answering >= MAX_ANSWERING || share.allowance < 1) {
      throw new EclipticError('RATE_LIMITED', 'this device asks too often', { retryAfterMs: 1_000 });
    }
    if (JSON.stringify(params ?? null).length > longest(asked)) throw malformed('its request is too long');
    const [callId, name] = [parsed(number, id), parsed(method, asked)];
    const has = parsed(tag.nullable(), known ?? null);
    share.allowance--;
    share.answering++;
    void this.#answer(node, callId, name, params, has).finally(() => share.answering--);
  }

  async #answer(node: string, id: number, asked: string, params: unknown, known: string | null): Promise<void> {
    let item: string;
    try {
      const result = JSON.stringify((await this.#components.answer(node, asked, params)) ?? null);
      const made = hash('sha256', result, 'hex').slice(0, 32);
      item =
        made === known
          ? JSON.stringify([ITEM.devices, 'same', id])
          : `["${ITEM.devices}","answer",${id},${result},"${made}"]`;
      if (Buffer.byteLength(item) > MAX_ANSWER_BYTES) {
        throw new EclipticError('PAYLOAD_TOO_LARGE', 'the answer is too long to be sent', { limit: MAX_ANSWER_BYTES });
      }
    } catch (error) {
      item = JSON.stringify([ITEM.devices, 'failed', id, toWireError(error)]);
    }
    // A device that is gone asks again.
    this.#components.network.peers.sendConfirmed(node, item).catch(() => {});
  }

  #shareOf(node: string): Share {
    const now = this.#components.runtime.stopwatch();
    const share = this.#shares.get(node) ?? { answering: 0, allowance: MAX_BURST, at: now };
    share.allowance = Math.min(MAX_BURST, share.allowance + ((now - share.at) / 1_000) * PER_SECOND);
    share.at = now;
    this.#shares.set(node, share);
    return share;
  }

  /** A flood of refused requests is one line a minute in the log and the audit log. */
  #report(node: string): void {
    const { runtime, network } = this.#components;
    const now = runtime.stopwatch();
    if (now - (this.#reported.get(node) ?? Number.NEGATIVE_INFINITY) < REPORT_MS) return;
    this.#reported.set(node, now);
    network.peers.report(node, 'NOT_GRANTED', `node ${node} asked as a device of the owner’s, which it is not`);
  }

  #failAll(node: string, reason: string): void {
    for (const [id, asked] of this.#asked) if (asked.node === node) this.#fail(id, reason);
  }

  #fail(id: number, reason: string): void {
    const asked = this.#settle(id);
    asked?.reject(unreachable(asked.node, reason, 'unknown'));
  }

  #settle(id: number): Asked | undefined {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    asked?.timer.cancel();
    return asked;
  }
}

function longest(asked: unknown): number {
  return asked === 'radar.report' ? MAX_REPORT_CHARS : MAX_REQUEST_CHARS;
}

function notGranted(node: string): EclipticError {
  const message = 'only devices that joined with an owner’s invite (ecliptic invite --owner) ask and answer here';
  return new EclipticError('NOT_GRANTED', message, { node });
}

function unreachable(node: string, reason: string, outcome = 'not-delivered'): EclipticError {
  return new EclipticError('PEER_UNREACHABLE', `node ${node.slice(0, 12)} gave no answer: ${reason}`, {
    ...{ node, reason, outcome },
  });
}
