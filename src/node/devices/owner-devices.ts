import { z } from 'zod';
import type { RadarReport } from '../../coding-agents/radar/device-radar.js';
import {
  type Answered,
  type GivenAnswer,
  type Story,
  WAITING_ACTIONS,
  type Waiting,
  type WaitingAction,
} from '../../http/dashboard/facts.js';
import { type Identity, isSignedBy } from '../../network/membership/identity.js';
import type { Network } from '../../network/peers/network.js';
import { Deferred } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AskingDevice } from './answer-record.js';
import { DeviceExchange, MAX_ANSWER_BYTES, type Told } from './device-exchange.js';

export interface OwnerDevicesComponents {
  runtime: Runtime;
  network: Network;
  identity: Identity;
}

/** Operations that the owner's devices run for each other. */
const DEVICE_METHODS = ['waiting', 'waiting.answer', 'waiting.answered', 'story', 'radar', 'radar.report'] as const;
type DeviceMethod = (typeof DEVICE_METHODS)[number];

interface CallParts {
  readonly emit: () => void;
  readonly drained: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** An operation of this node, run for another device. */
type Operation = (params: Record<string, unknown>, context: CallParts & { device?: AskingDevice }) => unknown;
type Operations = Readonly<Record<string, Operation>>;

export interface OwnerDevice {
  readonly node: string;
  readonly name: string;
  readonly connected: boolean;
  /** When it was last heard of; null if never. */
  readonly lastHeardAt: number | null;
}

/** The content of an answer, which its sender signs. */
interface AnswerParams {
  /** The item's id on the device that decides. */
  readonly id: string;
  readonly action: WaitingAction;
  readonly text?: string | undefined;
  /** Identifies the answer, however often it is sent. */
  readonly answer: string;
  readonly at: number;
}

interface ParamsByMethod {
  readonly waiting: Readonly<Record<never, never>>;
  readonly 'waiting.answer': AnswerParams;
  readonly 'waiting.answered': { readonly id: string };
  readonly story: { readonly id: string };
  readonly radar: Readonly<Record<never, never>>;
  readonly 'radar.report': RadarReport;
}

interface ResultByMethod {
  readonly waiting: Waiting;
  readonly 'waiting.answer': Answered;
  readonly 'waiting.answered': GivenAnswer | null;
  readonly story: Story;
  /** The asker checks it. */
  readonly radar: unknown;
  readonly 'radar.report': null;
}

const PURPOSE = 'owner answer';
/** Room that the rest of an answer takes. */
const FRAME_BYTES = 1_024;

const id = z.string().min(1).max(1_024);
const IdSchema = z.object({ id });
const SignedAnswerSchema = z.object({
  id,
  action: z.enum(WAITING_ACTIONS),
  text: z.string().max(32_768).optional(),
  answer: z.string().min(1).max(64),
  at: z.number(),
  signature: z.string().max(128),
});

const ALONE: CallParts = { emit: () => {}, drained: () => Promise.resolve(), signal: new AbortController().signal };

/**
 * The owner's other devices: members whose certificate has the `owner` grant. They run a few of each other's operations;
 * an asked device runs its own handler with `local`, so it asks no further.
 */
export class OwnerDevices {
  readonly #components: OwnerDevicesComponents;
  readonly #exchange: DeviceExchange;
  readonly #methods = new Deferred<Operations>();
  readonly #removed = new Set<(node: string) => void>();
  /** Questions at the same time share one evaluation. */
  #reading: Promise<Waiting> | undefined;

  constructor(components: OwnerDevicesComponents) {
    this.#components = components;
    const { runtime, network } = components;
    const answer = (node: string, method: string, params: unknown) => this.#answer(node, method, params);
    this.#exchange = new DeviceExchange({ runtime, network, answer });
    network.handle(this.#exchange);
    network.peers.onRemoved((node) => {
      this.#exchange.forget(node);
      for (const listener of this.#removed) listener(node);
    });
  }

  /** Begins to answer, with these operations. Questions before that wait. */
  begin(methods: Operations): void {
    this.#methods.resolve(methods);
  }

  /** What people call this device. */
  get ownName(): string {
    return this.#components.network.name;
  }

  /** The owner's other devices; none while this node has no `owner` grant itself. */
  list(): readonly OwnerDevice[] {
    const { network } = this.#components;
    return network.peers.all
      .filter(({ node }) => network.isOwnerDevice(node))
      .map(({ node, name }) => ({
        node,
        name: name || node.slice(0, 12),
        connected: network.peers.reachable(node),
        lastHeardAt: this.#exchange.lastHeard(node) ?? network.lastMet(node),
      }));
  }

  /** Calls back when one of the devices connects. */
  onConnected(listener: (node: string) => void): void {
    this.#exchange.onConnected(listener);
  }

  /** Calls back when a node is no longer a member. */
  onRemoved(listener: (node: string) => void): void {
    this.#removed.add(listener);
  }

  /**
   * Has another device run an operation. Fails with `NOT_GRANTED` for a node that is no device of the owner's, with
   * `PEER_UNREACHABLE` when it is away or does not answer within 5 s, and with the error of that device when it refuses.
   */
  async ask<M extends DeviceMethod>(node: string, method: M, params: ParamsByMethod[M]): Promise<ResultByMethod[M]> {
    const sent = method === 'waiting.answer' ? this.#signed(node, params as AnswerParams) : params;
    return (await this.#exchange.ask(node, method, sent)).result as ResultByMethod[M];
  }

  /** As `ask`, but an answer that has not changed since is not sent again. The result is not checked. */
  askAgain(node: string, method: 'waiting' | 'radar', known?: Told): Promise<Told> {
    return this.#exchange.ask(node, method, {}, known);
  }

  close(): void {
    this.#exchange.close();
  }

  #signed(node: string, answer: AnswerParams): object {
    return { ...answer, signature: this.#components.identity.sign(PURPOSE, { ...answer, to: node }) };
  }

  async #answer(node: string, method: string, params: unknown): Promise<unknown> {
    const methods = await this.#methods.promise;
    const run = (DEVICE_METHODS as readonly string[]).includes(method) ? methods[method] : undefined;
    if (!run) throw new EclipticError('METHOD_NOT_FOUND', `this device does not answer "${method.slice(0, 40)}"`);
    const name = this.#components.network.peers.get(node)?.name || node.slice(0, 12);
    if (method === 'waiting.answer') return this.#carryOut(run, { node, name }, params);
    const device = { node, name };
    if (method === 'radar') return run({ local: true }, ALONE);
    if (method === 'radar.report') return run(params as Record<string, unknown>, { ...ALONE, device });
    if (method !== 'waiting') return run({ ...checked(IdSchema, params), local: true }, { ...ALONE, device });
    this.#reading ??= (async () => (await run({ local: true }, ALONE)) as Waiting)().finally(() => {
      this.#reading = undefined;
    });
    return this.#fitting(await this.#reading);
  }

  #carryOut(run: Operation, { node, name }: AskingDevice, params: unknown): unknown {
    const { signature, ...said } = checked(SignedAnswerSchema, params);
    // A third node can pass on the answer of a device, but not as its own.
    if (!isSignedBy(node, PURPOSE, { ...said, to: this.#components.identity.key }, signature)) {
      throw new EclipticError('NOT_GRANTED', 'the answer is not signed by the device that sent it, for this one');
    }
    const device = { node, name, answer: { id: said.answer, signature } };
    return run({ id: said.id, action: said.action, text: said.text, local: true }, { ...ALONE, device });
  }

  /** As many items as one answer holds, oldest first; the rest is named as missing. */
  #fitting({ items }: Waiting): Waiting {
    let room = MAX_ANSWER_BYTES - FRAME_BYTES;
    const fitting = items.filter((item) => {
      room -= Buffer.byteLength(JSON.stringify(item)) + 1;
      return room >= 0;
    });
    const left = items.length - fitting.length;
    const about = { node: this.#components.identity.key, name: this.ownName, since: null };
    return {
      items: fitting,
      missing: left === 0 ? [] : [{ ...about, reason: `${left} of its items do not fit here` }],
    };
  }
}

function checked<T>(schema: z.ZodType<T>, params: unknown): T {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new EclipticError('INVALID_ARGUMENTS', `${path.join('.') || 'the request'}: ${message}`);
}
