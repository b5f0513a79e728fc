import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { A2ALogEvent } from '../mesh/schemas.js';
import { createNode } from '../node/compose.js';
import type { EclipticNode } from '../node/node.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Agent } from './agent.js';
import type { Message } from './message.js';

/** What the handlers of a message do, in turn; the last one says how a request ends. */
const DEEDS = [
  'nothing',
  'answer',
  'large',
  'throw',
  'async',
  'async-throw',
  'timer',
  'never',
  'not-json',
  'unreadable',
  'thenable',
  'twice',
  'iterable',
  'proposal-like',
  'send',
  'request',
  'request-and-wait',
  'reply-itself',
  'look-at-thread',
  'signal',
  'subscribe',
  'unsubscribe',
  'listen-too',
  'leave',
  'caller-leaves',
  'first-leaves',
  'rules',
] as const;
type Deed = (typeof DEEDS)[number];

interface Payload {
  readonly deeds: readonly Deed[];
  /** Those of the messages that its handler sends. */
  readonly nested: readonly Deed[];
  readonly text?: string;
}

type Said =
  | {
      readonly kind: 'send' | 'request' | 'capability';
      readonly from: number;
      readonly to: number;
      readonly payload: Payload;
    }
  | { readonly kind: 'broadcast'; readonly from: number; readonly payload: Payload };
type Step =
  | Said
  | { readonly kind: 'settle' }
  | { readonly kind: 'return' }
  | { readonly kind: 'wait'; readonly ms: number };

const IDS = ['a', 'b', 'c', 'd', 'e', 'f'] as const;
const TIERS = { a: 3, b: 3, c: 2, d: 3, e: 3, f: 3 } as const;
const SANDBOXES: Readonly<Record<string, string>> = { d: 'box', e: 'box' };

const payload = fc.record<Payload>({
  deeds: fc.array(fc.constantFrom(...DEEDS), { maxLength: 3 }),
  nested: fc.array(fc.constantFrom(...DEEDS), { maxLength: 2 }),
  text: fc.constantFrom(undefined, 'text', 'x'.repeat(1_500)),
});
/** Most messages are between agents that may talk. */
const agent = fc.oneof(
  { weight: 2, arbitrary: fc.nat({ max: 1 }) },
  { weight: 1, arbitrary: fc.nat({ max: IDS.length - 1 }) },
);
const message = fc.record({
  kind: fc.constantFrom('send' as const, 'request' as const, 'request' as const, 'capability' as const),
  from: agent,
  to: agent,
  payload,
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: message },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('broadcast' as const), from: agent, payload }) },
  { weight: 2, arbitrary: fc.constantFrom<Step>({ kind: 'settle' }, { kind: 'return' }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1, 45, 700) }) },
);

/** A node with a few agents whose handlers do what each message says. */
class World {
  readonly outcomes: unknown[] = [];
  readonly calls: string[] = [];
  direct = 0;
  readonly #runtime = new SimulatedRuntime({ seed: 7 });
  readonly #threads = new Set<string>();
  readonly #agents = new Map<string, Agent>();
  #node!: EclipticNode;
  #depth = 0;
  #timers = 0;
  #stops: (() => void)[] = [];

  static async start(isDirect: boolean): Promise<World> {
    const world = new World();
    const limits = {
      events: { capacity: 64 },
      threads: { threads: 16, waiting: 6 },
      concurrency: 3,
      mailboxCapacity: 4,
    };
    world.#node = await createNode({ runtime: world.#runtime, nodeKey: 'node', limits });
    const { direct } = world.#node.router;
    const { send, request } = direct;
    direct.send = (...args) => world.#counted(isDirect ? send.apply(direct, args) : undefined);
    direct.request = (...args) => world.#counted(isDirect ? request.apply(direct, args) : undefined);
    for (const id of IDS) world.#join(id);
    await world.#runtime.runUntilIdle();
    return world;
  }

  async perform(steps: readonly Step[]): Promise<void> {
    for (const [index, step] of steps.entries()) {
      if (step.kind === 'settle') await this.#runtime.advance(0);
      else if (step.kind === 'wait') await this.#runtime.advance(step.ms);
      else if (step.kind === 'return') for (const id of IDS) this.#join(id);
      else this.#note(index, this.#say(step));
    }
    await this.#runtime.advance(100_000);
  }

  /** All that can be seen from outside, with ids replaced by the order of their appearance. */
  seen(): unknown {
    const { observability, threads, registry } = this.#node;
    const { routingLatency, deliveryLatency } = observability.getHistograms();
    const seen = {
      outcomes: this.outcomes,
      calls: this.calls,
      events: byConversation(observability.getRecentEvents()),
      metrics: observability.getMetrics(),
      decisions: observability.decisions,
      latencies: [routingLatency, deliveryLatency],
      failures: observability.getOutcomes(),
      waiting: threads.waiting,
      threads: [...this.#threads].map((id) => threads.get(id)),
      loads: IDS.map((id) => registry.entry(id)?.mailbox?.load),
    };
    const ids = new Map<string, string>();
    const text = JSON.stringify(seen).replace(/[0-9A-HJKMNP-TV-Z]{26}/g, (id) => {
      if (!ids.has(id)) ids.set(id, `id-${ids.size}`);
      return ids.get(id)!;
    });
    return JSON.parse(text);
  }

  stop(): Promise<void> {
    return this.#node.stop();
  }

  #counted<T>(result: T): T {
    if (result !== undefined) this.direct++;
    return result;
  }

  #say(step: Said): Promise<unknown> {
    const from = this.#agents.get(IDS[step.from]!);
    if (!from) return Promise.resolve('gone');
    if (step.kind === 'broadcast') return from.broadcast(step.payload);
    const to = step.kind === 'capability' ? { capability: 'work' } : IDS[step.to]!;
    const asks = step.kind === 'request' || (step.kind === 'capability' && step.to > 1);
    return asks ? from.request(to, step.payload, { timeoutMs: 500 }) : from.send(to, step.payload);
  }

  #note(index: number, promise: Promise<unknown>): void {
    promise.then(
      (value) => {
        this.outcomes[index] = { value };
      },
      (error: EclipticError) => {
        this.outcomes[index] = { code: error.code, message: error.message };
      },
    );
  }

  #join(id: string): void {
    if (this.#agents.has(id)) return;
    const tier = TIERS[id as keyof typeof TIERS];
    const agent = this.#node.agent({
      id,
      tier,
      capabilities: ['work'],
      ...(SANDBOXES[id] && { sandboxId: SANDBOXES[id] }),
    });
    agent.onRequest((message) => this.#handle(agent, message));
    agent.onNotification((message) => this.#handle(agent, message) as void | Promise<void>);
    this.#agents.set(id, agent);
  }

  #handle(agent: Agent, message: Message): unknown {
    const { deeds } = message.payload as Payload;
    this.calls.push(`${agent.id} ← ${message.from} ${message.type} ${deeds.join()} ${message.thread === undefined}`);
    if (message.thread !== undefined) this.#threads.add(message.thread);
    let result: unknown = { text: (message.payload as Payload).text ?? null };
    for (const deed of deeds) result = this.#do(deed, agent, message, result);
    return result;
  }

  #do(deed: Deed, agent: Agent, message: Message, result: unknown): unknown {
    const { observability, router, threads } = this.#node;
    const note = (promise: Promise<unknown>) => this.#note(1_000 + this.#depth, promise);
    const other = agent.id === 'b' ? 'a' : 'b';
    // A message of the second generation makes no further ones: no history runs forever.
    const nested: Payload = { deeds: (message.payload as Payload).nested, nested: ['answer'] };
    switch (deed) {
      case 'nothing':
        return undefined;
      case 'answer':
        return { answer: 1 };
      case 'large':
        return 'y'.repeat(2_000);
      case 'throw':
        throw new EclipticError('NOT_HANDLED', 'thrown');
      case 'async':
        return quiet(Promise.resolve(result));
      case 'async-throw':
        return quiet(Promise.reject(new Error('rejected')));
      case 'timer': {
        // Never at the same instant as another timer: the order of those is drawn at random.
        const ms = 1.37 + 7.13 * this.#timers++;
        return quiet(new Promise((resolve) => this.#runtime.setTimer(() => resolve(result), ms)));
      }
      case 'never':
        return new Promise(() => {});
      case 'not-json':
        return () => {};
      case 'unreadable':
        return new Proxy({}, { has: () => fail(), get: () => fail(), ownKeys: () => fail() });
      case 'thenable':
        // biome-ignore lint/suspicious/noThenProperty: as a careless author would write it.
        return { then: () => {} };
      case 'twice':
        return quiet(new Twice((resolve) => resolve(result)));
      case 'iterable':
        return (async function* () {
          yield 1;
        })();
      case 'proposal-like':
        return { 'ecliptic/proposal': 'p', 'ecliptic/task': {} };
      case 'send':
        note(agent.send('f', nested));
        return result;
      case 'request':
        this.#depth++;
        note(agent.request(other, nested, { timeoutMs: 300 }));
        return result;
      case 'request-and-wait':
        return quiet(agent.request(other, nested, { timeoutMs: 300 }));
      case 'reply-itself':
        if (message.thread !== undefined) {
          note(agent.send(message.from, 'early', { type: 'response', thread: message.thread }));
        }
        return result;
      case 'look-at-thread':
        this.calls.push(`waiting ${threads.waiting}, ${threads.get(message.thread ?? '').length} in the thread`);
        this.calls.push(`sent ${observability.getMetrics().totalMessagesSent}, ${message.envelope.recipient}`);
        return result;
      case 'signal':
        message.signal.addEventListener('abort', () => this.calls.push(`${agent.id} aborted`));
        return result;
      case 'subscribe':
        this.#stops.push(observability.subscribe((event) => this.calls.push(`event ${event.type}`)));
        return result;
      case 'unsubscribe':
        for (const stop of this.#stops.splice(0)) stop();
        return result;
      case 'listen-too':
        this.#stops.push(router.onReceive(agent.id, ({ type }) => void this.calls.push(`too ${agent.id} ${type}`)));
        return result;
      case 'leave':
        this.#leave(agent.id);
        return result;
      case 'caller-leaves':
        this.#leave(message.from);
        return result;
      case 'first-leaves':
        this.#leave(IDS[0]);
        return result;
      case 'rules':
        router.setSandboxConfig({
          enforced: true,
          crossSandboxAllowList: this.#depth++ % 2 === 0 ? [] : [message.from],
        });
        return result;
    }
  }

  #leave(id: string): void {
    this.#agents.get(id)?.leave();
    this.#agents.delete(id);
  }
}

/**
 * The order of events is that within each conversation: the last steps of two handlers that end in the same instant may
 * come in either order.
 */
function byConversation(events: readonly A2ALogEvent[]): A2ALogEvent[] {
  const of = ({ correlationId = '' }: A2ALogEvent) => correlationId;
  return [...events].sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
}

/** A careless author's promise, which calls back twice. */
class Twice extends Promise<unknown> {
  // biome-ignore lint/suspicious/noThenProperty: that is the point.
  override then<A, B>(
    done?: ((value: unknown) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    if (!done) return super.then(null, failed) as Promise<B>;
    return super.then((value) => {
      const first: unknown = done(value);
      if (first instanceof Promise) quiet(first);
      return done(value);
    }, failed);
  }
}

/** The next deed may drop it. */
function quiet(promise: Promise<unknown>): Promise<unknown> {
  promise.catch(() => {});
  return promise;
}

function fail(): never {
  throw new Error('cannot be read');
}

/** A message of the handler makes the caller leave before the answer, which was sent later, reaches it. */
const OVERTAKEN: Step[] = [{ kind: 'request', from: 0, to: 1, payload: { deeds: ['send'], nested: ['first-leaves'] } }];
/** Two handlers end in the same instant: one after a stream to itself was refused, one that waited for an answer. */
const TOGETHER: Step[] = [
  { kind: 'request', from: 0, to: 0, payload: { deeds: ['iterable'], nested: [] } },
  { kind: 'request', from: 0, to: 0, payload: { deeds: ['request-and-wait'], nested: [] } },
  { kind: 'request', from: 3, to: 0, payload: { deeds: ['async'], nested: [] } },
  { kind: 'send', from: 0, to: 0, payload: { deeds: ['request'], nested: [] } },
];
const RUNS = process.env.ECLIPTIC_SOAK ? 2_000 : 200;

describe('A message on the direct path', () => {
  it('has the outcome, events, counters and thread of the general path, whatever else happens [MX.1]', {
    timeout: 60_000 + RUNS * 100,
  }, async () => {
    let direct = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 24 }), async (steps) => {
        const worlds = await Promise.all([World.start(true), World.start(false)]);
        for (const world of worlds) await world.perform(steps);
        const [quick, general] = worlds.map((world) => world.seen());
        direct += worlds[0]!.direct;
        await Promise.all(worlds.map((world) => world.stop()));
        expect(worlds[1]!.direct).toBe(0);
        expect(quick).toEqual(general);
      }),
      { numRuns: RUNS, examples: [[OVERTAKEN], [TOGETHER]] },
    );
    expect(direct).toBeGreaterThan(RUNS);
  });
});
