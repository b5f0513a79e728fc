import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbMessageType, arbTier } from '../../test/generators.js';
import { introduce, type Mesh, startMesh, startPair } from '../../test/mesh-fixture.js';
import { createNode } from '../node/compose.js';
import type { Logger } from '../runtime/runtime.js';
import { silentLogger } from '../runtime/runtime.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { EventStream } from './event-stream.js';
import { type A2AMetrics, A2AObservability } from './observability.js';
import { toPrometheus } from './prometheus.js';
import {
  type A2ALogEvent,
  A2ALogEventSchema,
  type A2AMessageType,
  A2AMessageTypeSchema,
  type RoutingResult,
} from './schemas.js';

const NONE_BY_TYPE = {
  request: 0,
  response: 0,
  notification: 0,
  'task-proposal': 0,
  'task-accept': 0,
  'task-reject': 0,
  'stream-start': 0,
  'stream-data': 0,
  'stream-end': 0,
  error: 0,
};

const NOTHING: A2AMetrics = {
  totalMessagesSent: 0,
  totalMessagesReceived: 0,
  messagesByType: NONE_BY_TYPE,
  messagesSentByType: NONE_BY_TYPE,
  averageRoutingLatencyMs: 0,
  errorCount: 0,
  errorsByCode: {},
  totalToolInvocations: 0,
  toolInvocationsByTool: {},
  averageToolDurationMs: 0,
  toolErrorCount: 0,
};

/** One event of each type, with all that such an event may hold. */
const SAMPLES: readonly A2ALogEvent[] = [
  { type: 'message-sent', envelopeId: 'e', sender: 'a', recipient: 'b', messageType: 'request', timestamp: 1 },
  { type: 'message-received', envelopeId: 'e', sender: 'a', recipient: 'b', messageType: 'request', timestamp: 2 },
  {
    type: 'routing-decision',
    envelopeId: 'e',
    correlationId: 't',
    sender: 'a',
    recipient: '*',
    messageType: 'request',
    routingPath: 'broadcast',
    duration: 4,
    success: true,
    broadcast: { recipients: 2, delivered: 1, withheld: 1, failed: 0, withheldByCode: { TIER_VIOLATION: 1 } },
    timestamp: 3,
  },
  { type: 'tool-invocation', toolName: 'a.sum', sender: 'a', duration: 5, success: true, timestamp: 4 },
  { type: 'error', code: 'HANDLER_FAILED', reason: 'no', sender: 'a', recipient: 'b', timestamp: 5 },
  { type: 'security', code: 'TIER_VIOLATION', reason: 'no', sender: 'a', recipient: 'b', timestamp: 6 },
  { type: 'tier-audit', sender: 'a', recipient: 'b', sourceTier: 0, targetTier: 3, timestamp: 7 },
  { type: 'delivery-failure', code: 'DELIVERY_FAILED', reason: 'no', recipient: 'b', timestamp: 8 },
  { type: 'channel-status', channelId: 'c', channelStatus: 'open', timestamp: 9 },
  { type: 'peer-status', node: 'n', peerStatus: 'suspected', reason: 'it is silent', timestamp: 12 },
  { type: 'receipt', envelopeId: 'e', receiptState: 'arrived', timestamp: 13 },
  {
    type: 'provider',
    topic: 'provider.health.changed',
    provider: 'mars',
    providerType: 'acp',
    details: { from: 'healthy', to: 'degraded' },
    timestamp: 14,
  },
  { type: 'credential', reason: 'rotated', timestamp: 15 },
  { type: 'action', sender: 'a', reason: 'denied', success: false, timestamp: 16 },
  { type: 'proposal', proposalId: 'p', proposalStatus: 'accepted', sender: 'a', recipient: 'b', timestamp: 17 },
  { type: 'swarm', swarmId: 's', swarmStatus: 'active', timestamp: 18 },
  { type: 'radar', topic: 'radar.overlap', details: { files: ['a.ts'] }, timestamp: 19 },
];

interface Send {
  from: string;
  to: string;
  type: A2AMessageType;
  thread: string | undefined;
}

const arbSend: fc.Arbitrary<Send> = fc.record({
  from: fc.constantFrom('sun', 'earth', 'mars', 'io', 'inmate', 'nobody'),
  to: fc.constantFrom('sun', 'earth', 'mars', 'io', 'inmate', 'deaf', 'far', 'nobody', 'sum', 'paint', '*'),
  type: arbMessageType(),
  thread: fc.constantFrom(undefined, 't', 'u'),
});

/** Two nodes with every kind of agent: a message may be delivered, refused, withheld or fail. */
async function startBusy(): Promise<{ here: Mesh; there: Mesh; perform: (send: Send) => Promise<RoutingResult> }> {
  const { here, there } = await startPair();
  here.join('sun', { tier: 0 });
  here.join('earth', { tier: 1, capabilities: ['sum'] });
  here.join('mars', { tier: 2 });
  here.join('io', { tier: 3, capabilities: ['sum'] });
  here.join('inmate', { tier: 3, sandbox: 'red' });
  here.join('deaf', { tier: 2, listens: false });
  there.join('far', { tier: 2 });
  there.join('refuser', { tier: 2, listens: false });
  introduce(here, there);
  const perform = ({ from, to, type, thread }: Send) => {
    const metadata = to === 'sum' || to === 'paint' ? ({ routingHint: 'capability' } as const) : undefined;
    return here.send(from, to, { type, thread, metadata });
  };
  return { here, there, perform };
}

describe('the metrics', () => {
  it('Feature: a2a-mcp-protocols, Property 32: A2A message metrics accuracy [P32 R12.1 R12.4]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(arbSend, { maxLength: 25 }), async (sends) => {
        const { here, there, perform } = await startBusy();
        const byType: Record<string, number> = { ...NONE_BY_TYPE };
        const byCode: Record<string, number> = {};
        let sent = 0;
        let carried = 0;
        let failures = 0;
        for (const send of sends) {
          const result = await perform(send);
          if (result.delivered) {
            sent++;
            byType[send.type]!++;
            if (result.path === 'remote') carried++;
            failures += result.broadcast?.failed ?? 0;
          } else byCode[result.error!] = (byCode[result.error!] ?? 0) + 1;
        }
        const metrics = here.node.observability.getMetrics();
        expect(metrics.totalMessagesSent).toBe(sent);
        expect(metrics.messagesByType).toEqual(byType);
        expect(metrics.messagesSentByType).toEqual(byType);
        const theirs = there.node.observability.getMetrics();
        expect(Object.values(theirs.messagesByType).reduce((sum, count) => sum + count)).toBe(there.handled);
        expect(metrics.totalMessagesReceived).toBe(here.handled);
        expect(there.node.observability.getMetrics().totalMessagesReceived).toBe(there.handled);
        expect(there.handled).toBeGreaterThanOrEqual(carried);
        const refused = Object.values(byCode).reduce((sum, count) => sum + count, 0);
        expect(metrics.errorCount).toBe(refused + failures);
        expect(Object.values(metrics.errorsByCode).reduce((sum, count) => sum + count, 0)).toBe(metrics.errorCount);
        if (failures === 0) expect(metrics.errorsByCode).toEqual(byCode);
        expect(here.eventsOf('message-sent')).toHaveLength(sent);
        expect(here.eventsOf('message-received')).toHaveLength(here.handled);
      }),
      { numRuns: 150 },
    );
  });

  it('are all there, and zero, before anything happened [R12.4]', () => {
    expect(new A2AObservability().getMetrics()).toEqual(NOTHING);
  });

  it('agree with the events that were emitted [R12.4]', () => {
    const arbEvent = fc.oneof(
      fc.record({ type: fc.constant('message-sent' as const), messageType: arbMessageType(), timestamp: fc.nat() }),
      fc.record({ type: fc.constant('message-received' as const), messageType: arbMessageType(), timestamp: fc.nat() }),
      fc.record({
        type: fc.constant('routing-decision' as const),
        duration: fc.nat(100),
        success: fc.boolean(),
        code: fc.constantFrom('TIER_VIOLATION', 'DELIVERY_FAILED'),
        timestamp: fc.nat(),
      }),
      fc.record({
        type: fc.constantFrom('error' as const, 'delivery-failure' as const, 'security' as const),
        code: fc.constantFrom('HANDLER_FAILED', 'DELIVERY_FAILED'),
        timestamp: fc.nat(),
      }),
      fc.record({
        type: fc.constant('tool-invocation' as const),
        toolName: fc.constantFrom('a.sum', 'b.sum', '__proto__', 'constructor'),
        duration: fc.nat(100),
        success: fc.boolean(),
        timestamp: fc.nat(),
      }),
    );
    fc.assert(
      fc.property(fc.array(arbEvent, { maxLength: 40 }), (events: A2ALogEvent[]) => {
        const observability = new A2AObservability();
        for (const event of events) observability.emit(event);
        const metrics = observability.getMetrics();
        const of = (...types: A2ALogEvent['type'][]) => events.filter(({ type }) => types.includes(type));
        const mean = (list: readonly A2ALogEvent[]) =>
          list.length === 0 ? 0 : list.reduce((sum, { duration }) => sum + duration!, 0) / list.length;
        expect(metrics.totalMessagesSent).toBe(of('message-sent').length);
        expect(metrics.totalMessagesReceived).toBe(of('message-received').length);
        for (const type of A2AMessageTypeSchema.options) {
          const ofType = (e: A2ALogEvent) => e.messageType === type;
          expect(metrics.messagesByType[type]).toBe(of('message-sent', 'message-received').filter(ofType).length);
          expect(metrics.messagesSentByType[type]).toBe(of('message-sent').filter(ofType).length);
        }
        expect(metrics.averageRoutingLatencyMs).toBeCloseTo(mean(of('routing-decision')), 9);
        expect(metrics.averageToolDurationMs).toBeCloseTo(mean(of('tool-invocation')), 9);
        const refusals = of('routing-decision').filter((e) => !e.success && e.code !== 'DELIVERY_FAILED');
        expect(metrics.errorCount).toBe(refusals.length + of('error', 'delivery-failure').length);
        expect(metrics.toolErrorCount).toBe(of('tool-invocation').filter((e) => !e.success).length);
        for (const name of ['a.sum', 'b.sum', '__proto__', 'constructor']) {
          const calls = of('tool-invocation').filter((e) => e.toolName === name).length;
          expect(new Map(Object.entries(metrics.toolInvocationsByTool)).get(name) ?? 0).toBe(calls);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('start from zero again when they are reset, while the events stay [R12.4]', async () => {
    const mesh = await startMesh();
    mesh.join('asker');
    mesh.join('expert');
    await mesh.send('asker', 'expert');
    await mesh.send('asker', 'nobody');
    mesh.node.observability.emit(SAMPLES[3]!);
    const remembered = mesh.node.observability.getRecentEvents();
    mesh.node.observability.resetMetrics();
    expect(mesh.node.observability.getMetrics()).toEqual(NOTHING);
    expect(mesh.node.observability.getRecentEvents()).toEqual(remembered);
    await mesh.send('asker', 'expert');
    expect(mesh.node.observability.getMetrics()).toMatchObject({ totalMessagesSent: 1, totalMessagesReceived: 1 });
  });

  it('given out are the caller’s own: changing them changes nothing [R12.4]', () => {
    const observability = new A2AObservability();
    const given = observability.getMetrics();
    given.messagesByType.request = 7;
    given.errorsByCode.EXPIRED = 7;
    given.toolInvocationsByTool['a.sum'] = 7;
    expect(observability.getMetrics()).toEqual(NOTHING);
  });

  it('average the latency of the sends that were measured, and of no others [R12.4 R12.3]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    here.join('near');
    there.join('far');
    introduce(here, there);
    here.carrier.interfere = () => new Promise((resolve) => void here.runtime.setTimer(resolve, 40));
    await here.send('asker', 'near');
    const carried = here.send('asker', 'far');
    await here.runtime.advance(40);
    expect((await carried).latencyMs).toBe(40);
    expect(here.node.observability.getMetrics().averageRoutingLatencyMs).toBe(20);
    // Watched, as here, a local send is measured too.
    await here.send('asker', 'nobody');
    expect(here.node.observability.getMetrics().averageRoutingLatencyMs).toBeCloseTo(40 / 3);
  });

  it('count messages from another node by type, and a message within the node once [R12.4 T-C9]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    here.join('near');
    there.join('far');
    introduce(here, there);
    await here.send('asker', 'near', { type: 'request' });
    await here.send('asker', 'far', { type: 'notification' });
    const byType = ({ node }: Mesh) => node.observability.getMetrics().messagesByType;
    expect(byType(here)).toEqual({ ...NONE_BY_TYPE, request: 1, notification: 1 });
    expect(byType(there)).toEqual({ ...NONE_BY_TYPE, notification: 1 });
    expect(there.node.observability.getMetrics().messagesSentByType).toEqual(NONE_BY_TYPE);
  });

  it('have the time of each send that a listener is told of, and say of others that it is a sample [R12.3 P17 T-C13]', async () => {
    let now = 0;
    let step = 1;
    const runtime = Object.assign(new SimulatedRuntime(), {
      // Each send takes longer than the one before it.
      stopwatch: () => {
        now += step++;
        return now;
      },
    });
    const node = await createNode({ runtime });
    const sender = node.agent({ id: 'sender', tier: 2 });
    node.agent({ id: 'peer', tier: 2 }).onMessage(() => {});
    node.agent({ id: 'lower', tier: 3 }).onMessage(() => {});
    const send = async (to: string, times: number) => {
      for (let n = 0; n < times; n++) await sender.send(to, n);
    };
    const decisions = (list: readonly A2ALogEvent[]) => list.filter(({ type }) => type === 'routing-decision');
    await send('peer', 70);
    const unwatched = decisions(node.observability.getRecentEvents());
    expect(unwatched.filter(({ sampled }) => !sampled)).toHaveLength(3);
    const heard: A2ALogEvent[] = [];
    const stop = node.observability.subscribe((event) => heard.push(event));
    await send('peer', 70);
    stop();
    const unusual: A2ALogEvent[] = [];
    node.observability.subscribeToUnusual((event) => unusual.push(event));
    await sender.request('lower', 1).catch(() => {});
    for (const watched of [decisions(heard), decisions(unusual)]) {
      expect(watched.length).toBeGreaterThan(0);
      expect(new Set(watched.map(({ duration }) => duration)).size).toBe(watched.length);
      expect(watched.filter(({ sampled }) => sampled)).toEqual([]);
    }
    const before = now;
    await send('peer', 20);
    expect(now - before).toBeLessThan(10 * step);
    await node.stop();
  });

  it('do not put the time of another node’s answer down to a local send [R12.3]', async () => {
    const { here, there } = await startPair();
    here.join('asker');
    here.join('near');
    there.join('far');
    introduce(here, there);
    here.carrier.interfere = () => new Promise((resolve) => void here.runtime.setTimer(resolve, 40));
    expect((await here.send('asker', 'near')).latencyMs).toBe(0);
    const carried = here.send('asker', 'far');
    await here.runtime.advance(40);
    await carried;
    expect((await here.send('asker', 'near')).latencyMs).toBe(0);
  });
});

describe('the tools in the metrics', () => {
  it('are counted by name up to a limit, and together beyond it, however many names other nodes give', () => {
    const observability = new A2AObservability();
    const call = (toolName: string) =>
      observability.emit({
        type: 'tool-invocation',
        timestamp: 0,
        envelopeId: 'e',
        sender: 'a',
        toolName,
      } as A2ALogEvent);
    for (let index = 0; index < 1_500; index++) call(`a.tool-${index}`);
    call('a.tool-0');
    const { toolInvocationsByTool } = observability.getMetrics();
    expect(Object.keys(toolInvocationsByTool)).toHaveLength(1_001);
    expect(toolInvocationsByTool).toMatchObject({ 'a.tool-0': 2, other: 500 });
  });
});

describe('the events', () => {
  it('of every type are taken, counted and given back as they are [R12.1 R12.3]', () => {
    const observability = new A2AObservability();
    const heard: A2ALogEvent[] = [];
    observability.subscribe((event) => heard.push(event));
    for (const event of SAMPLES) {
      expect(A2ALogEventSchema.parse(event)).toEqual(event);
      observability.emit(event);
    }
    expect(new Set(SAMPLES.map(({ type }) => type))).toEqual(new Set(A2ALogEventSchema.shape.type.options));
    expect(heard).toEqual(SAMPLES);
    expect(observability.getRecentEvents()).toEqual(SAMPLES);
    expect(observability.getMetrics()).toEqual({
      ...NOTHING,
      totalMessagesSent: 1,
      totalMessagesReceived: 1,
      messagesByType: { ...NONE_BY_TYPE, request: 2 },
      messagesSentByType: { ...NONE_BY_TYPE, request: 1 },
      averageRoutingLatencyMs: 4,
      errorCount: 2,
      errorsByCode: { HANDLER_FAILED: 1, DELIVERY_FAILED: 1 },
      totalToolInvocations: 1,
      toolInvocationsByTool: { 'a.sum': 1 },
      averageToolDurationMs: 5,
    });
  });

  it('of real routing hold what the schema says, and nothing else [R12.1 R12.3]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(arbSend, { minLength: 1, maxLength: 15 }), async (sends) => {
        const { here, there, perform } = await startBusy();
        for (const send of sends) await perform(send);
        for (const event of [...here.events, ...there.events]) expect(A2ALogEventSchema.parse(event)).toEqual(event);
        expect(here.events.length).toBeGreaterThanOrEqual(sends.length);
      }),
      { numRuns: 100 },
    );
  });

  it('that were heard are those that are remembered, in the same order [R12.1 R12.3]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(arbSend, { maxLength: 15 }), async (sends) => {
        const { here, perform } = await startBusy();
        for (const send of sends) await perform(send);
        expect(here.node.observability.getRecentEvents()).toEqual(here.events);
      }),
      { numRuns: 100 },
    );
  });

  it('of a remote message say on each node which half of the way it saw [R12.1 R12.3]', async () => {
    const { here, there, perform } = await startBusy();
    await perform({ from: 'mars', to: 'far', type: 'request', thread: undefined });
    const kinds = (mesh: Mesh) => mesh.events.map(({ type, routingPath }) => [type, routingPath]);
    expect(kinds(here)).toEqual([
      ['message-sent', undefined],
      ['routing-decision', 'remote'],
    ]);
    expect(kinds(there)).toEqual([
      ['routing-decision', 'remote'],
      ['message-received', undefined],
    ]);
  });

  it('given back are the latest, oldest first, as many as asked for [R12.1]', () => {
    const observability = new A2AObservability();
    for (let timestamp = 0; timestamp < 10; timestamp++) observability.emit({ type: 'error', timestamp });
    const times = (limit?: number) => observability.getRecentEvents(limit).map(({ timestamp }) => timestamp);
    expect(times(3)).toEqual([7, 8, 9]);
    expect(times(0)).toEqual([]);
    expect(times(10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(times(99)).toHaveLength(10);
    expect(times()).toHaveLength(10);
  });

  it('given back may begin in the middle of one send [R12.1]', async () => {
    const mesh = await startMesh();
    mesh.join('sun', { tier: 0 });
    mesh.join('io', { tier: 3 });
    await mesh.send('sun', 'io');
    const types = (limit: number) => mesh.node.observability.getRecentEvents(limit).map(({ type }) => type);
    expect(types(1)).toEqual(['message-received']);
    expect(types(3)).toEqual(['routing-decision', 'tier-audit', 'message-received']);
    expect(types(4)).toEqual(['message-sent', 'routing-decision', 'tier-audit', 'message-received']);
  });

  it('are remembered up to the capacity of the node, and counted beyond it [R12.1 R12.4]', async () => {
    const mesh = await startMesh({ limits: { events: { capacity: 5 } } });
    mesh.join('asker');
    mesh.join('expert');
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) {
      const envelope = mesh.envelope('asker', 'expert');
      ids.push(envelope.id);
      await mesh.router.send(envelope);
    }
    const remembered = mesh.node.observability.getRecentEvents().map(({ envelopeId }) => envelopeId);
    expect([...new Set(remembered)]).toEqual(ids.slice(-5));
    expect(mesh.node.observability.getMetrics().totalMessagesSent).toBe(12);
  });

  it('never hold a payload, and do not keep a large one alive [R12.1]', async () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const { node, runtime } = await startMesh();
    node.agent({ id: 'expert', tier: 3 }).onNotification(() => {});
    node.agent({ id: 'asker', tier: 3 });
    const sendOne = (recipient: string) => {
      const payload = { secret: 'x'.repeat(2_000) };
      const { envelopes, router } = node;
      void router.send(envelopes.create({ sender: 'asker', recipient, type: 'notification', payload }));
      return new WeakRef(payload);
    };
    const payloads = [sendOne('expert'), sendOne('*'), sendOne('nobody')];
    await runtime.advance(0);
    collectGarbage();
    expect(payloads.map((payload) => payload.deref())).toEqual([undefined, undefined, undefined]);
    const events = node.observability.getRecentEvents();
    expect(events.filter(({ type }) => type === 'message-sent')).toHaveLength(2);
    expect(JSON.stringify(events)).not.toContain('xxxx');
  });
});

describe('a listener', () => {
  const emit = (observability: A2AObservability, timestamp: number) => observability.emit({ type: 'error', timestamp });

  it('hears what happens from then on, until it stops [R12.1]', () => {
    const observability = new A2AObservability();
    const heard: number[] = [];
    emit(observability, 1);
    const stop = observability.subscribe(({ timestamp }) => heard.push(timestamp));
    emit(observability, 2);
    emit(observability, 3);
    stop();
    stop();
    emit(observability, 4);
    expect(heard).toEqual([2, 3]);
  });

  it('that is given twice hears twice, and stops once for each [R12.1]', () => {
    const observability = new A2AObservability();
    const heard: number[] = [];
    const listener = ({ timestamp }: A2ALogEvent) => heard.push(timestamp);
    const stop = observability.subscribe(listener);
    observability.subscribe(listener);
    emit(observability, 1);
    stop();
    emit(observability, 2);
    expect(heard).toEqual([1, 1, 2]);
  });

  it('that throws harms neither the sender nor other listeners, and is logged [R12.1]', async () => {
    const logged: string[] = [];
    const logger: Logger = { ...silentLogger, error: (_, message) => logged.push(message) };
    const mesh = await startMesh({ limits: { events: { logger } } });
    mesh.join('asker');
    mesh.join('expert');
    mesh.node.observability.subscribe(() => {
      throw new Error('no');
    });
    const later: A2ALogEvent[] = [];
    mesh.node.observability.subscribe((event) => later.push(event));
    expect((await mesh.send('asker', 'expert')).delivered).toBe(true);
    expect(mesh.inbox('expert')).toHaveLength(1);
    expect(later).toEqual(mesh.events);
    expect(logged).toHaveLength(later.length);
    expect(mesh.node.observability.getMetrics().totalMessagesSent).toBe(1);
  });

  it('may stop itself and start others while it listens [R12.1]', () => {
    const observability = new A2AObservability();
    const heard: string[] = [];
    const stop = observability.subscribe(() => {
      heard.push('first');
      stop();
    });
    observability.subscribe(() => heard.push('second'));
    emit(observability, 1);
    emit(observability, 2);
    expect(heard).toEqual(['first', 'second', 'second']);
  });
});

describe('the Prometheus text', () => {
  interface Sample {
    name: string;
    label?: string;
    labelValue?: string;
    value: number;
  }

  const SAMPLE = /^([a-z_]+)(?:\{([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

  /** Reads the text as a scraper would; anything that is not well formed throws. */
  function scrape(text: string): { samples: Sample[]; types: Map<string, string> } {
    expect(text.endsWith('\n')).toBe(true);
    const types = new Map<string, string>();
    const helped = new Set<string>();
    const samples: Sample[] = [];
    for (const line of text.slice(0, -1).split('\n')) {
      const help = /^# HELP ([a-z_]+) \S.*$/.exec(line);
      const type = /^# TYPE ([a-z_]+) (counter|gauge)$/.exec(line);
      const sample = SAMPLE.exec(line);
      if (help) {
        expect(helped.has(help[1]!)).toBe(false);
        helped.add(help[1]!);
      } else if (type) {
        expect(helped.has(type[1]!)).toBe(true);
        types.set(type[1]!, type[2]!);
      } else if (sample) {
        expect([...types.keys()].at(-1)).toBe(sample[1]);
        const labelValue = sample[3]?.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
        samples.push({ name: sample[1]!, label: sample[2], labelValue, value: Number(sample[4]) });
      } else throw new Error(`not well formed: ${JSON.stringify(line)}`);
    }
    return { samples, types };
  }

  const labelled = (samples: readonly Sample[], name: string) =>
    samples.filter((sample) => sample.name === name).map(({ labelValue, value }) => [labelValue, value]);

  it('says the same as the metrics, whatever the labels hold [R12.4]', () => {
    const tricky = fc.oneof(fc.string({ maxLength: 12 }), fc.constantFrom('a"b', 'a\\b', 'a\nb', '\\n', '"', '\\', ''));
    const count = fc.nat(1_000);
    const arbByType = fc.record(
      Object.fromEntries(A2AMessageTypeSchema.options.map((type) => [type, count])) as Record<
        A2AMessageType,
        typeof count
      >,
    );
    const arbMetrics: fc.Arbitrary<A2AMetrics> = fc.record({
      totalMessagesSent: count,
      totalMessagesReceived: count,
      messagesByType: arbByType,
      messagesSentByType: arbByType,
      averageRoutingLatencyMs: fc.double({ min: 0, max: 1e9, noNaN: true }),
      errorCount: count,
      errorsByCode: fc.dictionary(fc.constantFrom('EXPIRED', 'TIER_VIOLATION', 'MAILBOX_FULL'), count),
      totalToolInvocations: count,
      toolInvocationsByTool: fc.dictionary(tricky, count),
      averageToolDurationMs: fc.double({ min: 0, max: 1e9, noNaN: true }),
      toolErrorCount: count,
    });
    fc.assert(
      fc.property(arbMetrics, (metrics) => {
        const { samples, types } = scrape(toPrometheus(metrics));
        expect(Object.fromEntries(types)).toEqual({
          ecliptic_messages_sent_total: 'counter',
          ecliptic_messages_received_total: 'counter',
          ecliptic_errors_total: 'counter',
          ecliptic_tool_invocations_total: 'counter',
          ecliptic_tool_errors_total: 'counter',
        });
        const alone = (value: number) => [[undefined, value]];
        const { messagesSentByType, errorsByCode, toolInvocationsByTool } = metrics;
        expect(labelled(samples, 'ecliptic_messages_sent_total')).toEqual(Object.entries(messagesSentByType));
        expect(labelled(samples, 'ecliptic_errors_total')).toEqual(Object.entries(errorsByCode));
        expect(labelled(samples, 'ecliptic_tool_invocations_total')).toEqual(Object.entries(toolInvocationsByTool));
        expect(labelled(samples, 'ecliptic_messages_received_total')).toEqual(alone(metrics.totalMessagesReceived));
        expect(labelled(samples, 'ecliptic_tool_errors_total')).toEqual(alone(metrics.toolErrorCount));
      }),
      { numRuns: 200 },
    );
  });

  it('escapes quotes, backslashes and line ends in a label [R12.4]', () => {
    const text = toPrometheus({ ...NOTHING, toolInvocationsByTool: { 'a"b\\c\nd': 2 } });
    expect(text).toContain('ecliptic_tool_invocations_total{tool="a\\"b\\\\c\\nd"} 2\n');
  });

  it('adds up to the totals of real traffic [R12.4]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(arbSend, { maxLength: 12 }), arbTier(), async (sends, tier) => {
        const { here, perform } = await startBusy();
        here.join('failing', {
          tier,
          handler: () => {
            throw new Error('no');
          },
        });
        for (const send of sends) await perform(send);
        await here.send('sun', 'failing');
        const metrics = here.node.observability.getMetrics();
        const { samples } = scrape(toPrometheus(metrics));
        const sum = (name: string) =>
          samples.filter((sample) => sample.name === name).reduce((total, { value }) => total + value, 0);
        expect(sum('ecliptic_messages_sent_total')).toBe(metrics.totalMessagesSent);
        expect(sum('ecliptic_messages_received_total')).toBe(metrics.totalMessagesReceived);
        expect(sum('ecliptic_errors_total')).toBe(metrics.errorCount);
        expect(metrics.errorCount).toBeGreaterThan(0);
      }),
      { numRuns: 100 },
    );
  });
});

describe('an event stream', () => {
  const stream = (capacity: number, logger: Logger = silentLogger) =>
    new EventStream<number[], number>({
      capacity,
      expand: (record) => record,
      onListenerFailed: (err) => logger.error({ err }, ''),
    });

  it('remembers its latest records and gives their latest events, oldest first [R12.1]', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.array(fc.array(fc.nat(), { maxLength: 4 }), { maxLength: 30 }),
        fc.option(fc.nat(40), { nil: undefined }),
        (capacity, records, limit) => {
          const events = stream(capacity);
          for (const record of records) events.append(record);
          const remembered = records.slice(-capacity).flat();
          const expected = limit === undefined ? remembered : limit === 0 ? [] : remembered.slice(-limit);
          expect(events.recent(limit)).toEqual(expected);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('of no capacity remembers nothing [R12.1]', () => {
    const events = stream(0);
    for (let n = 0; n < 5; n++) events.append([n]);
    expect(events.recent()).toEqual([]);
  });

  it('makes events only for listeners and readers [R12.1]', () => {
    let made = 0;
    const events = new EventStream<number, number>({
      capacity: 4,
      onListenerFailed: () => {},
      expand: (record) => {
        made++;
        return [record];
      },
    });
    for (let n = 0; n < 10; n++) events.append(n);
    expect(made).toBe(0);
    expect(events.recent(2)).toEqual([8, 9]);
    expect(made).toBe(2);
    const stop = events.subscribe(() => {});
    events.append(10);
    expect(made).toBe(3);
    stop();
    events.append(11);
    expect(made).toBe(3);
  });

  it('tells every listener every event of a record, in order, once [R12.1]', () => {
    const events = stream(2);
    const heard: string[] = [];
    events.subscribe((event) => heard.push(`a${event}`));
    events.subscribe((event) => heard.push(`b${event}`));
    events.append([1, 2]);
    events.append([]);
    events.append([3]);
    expect(heard).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
  });

  it('continues when a listener throws, and logs the error [R12.1]', () => {
    const logged: unknown[] = [];
    const events = stream(2, { ...silentLogger, error: ({ err }) => logged.push(err) });
    const thrown = new Error('no');
    const heard: number[] = [];
    events.subscribe(() => {
      throw thrown;
    });
    events.subscribe((event) => heard.push(event));
    events.append([1, 2]);
    expect(heard).toEqual([1, 2]);
    expect(logged).toEqual([thrown, thrown]);
    expect(events.recent()).toEqual([1, 2]);
  });
});
