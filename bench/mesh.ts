import {
  type AgentCard,
  AgentRegistry,
  createNode,
  deserializeEnvelope,
  EnvelopeFactory,
  serializeEnvelope,
  systemRuntime,
} from 'ecliptic';
import moleculer from 'moleculer';
import { compare, type Report } from './compare.js';

const SUITE = 'mesh';
const PAYLOAD = { task: 'build the login page', priority: 3 };
const CALL = 'mars.build';

export async function run(report: Report): Promise<void> {
  await sends(report);
  await requests(report);
  await codec(report);
  await lookups(report);
  await broadcasts(report);
  await memory(report);
}

async function pair() {
  const node = await createNode();
  const sun = node.agent({ id: 'sun' });
  const mars = node.agent({ id: 'mars' });
  let received = 0;
  mars.onNotification(() => {
    received++;
  });
  mars.onRequest(() => null);
  return { node, sun, received: () => received };
}

/** A broker with one service that does nothing, bare, or with the features that our router always has. */
async function broker(full: boolean) {
  const options = full
    ? {
        logger: false,
        metrics: true,
        validator: true,
        requestTimeout: 30_000,
        middlewares: [{ localAction: checkAccess }],
      }
    : { logger: false, metrics: false, validator: false };
  const broker = new moleculer.ServiceBroker(options as ConstructorParameters<typeof moleculer.ServiceBroker>[0]);
  const params = full ? { task: 'string', priority: 'number' } : undefined;
  broker.createService({
    name: 'mars',
    actions: { build: { ...(params && { params }), tiers: [0, 1, 2], handler: () => null } },
    events: { 'mars.told'() {} },
  } as Parameters<typeof broker.createService>[0]);
  await broker.start();
  return broker;
}

interface LocalAction {
  tiers?: number[];
}

/** The access check that our policy makes, as a Moleculer middleware. */
function checkAccess(next: (ctx: { meta: { tier?: number } }) => unknown, action: LocalAction) {
  return (ctx: { meta: { tier?: number } }) => {
    if (action.tiers && !action.tiers.includes(ctx.meta.tier ?? 0)) throw new Error('refused');
    return next(ctx);
  };
}

async function sends(report: Report): Promise<void> {
  const { node, sun, received } = await pair();
  const bare = await broker(false);
  const full = await broker(true);
  let expected = 0;
  const ours = async (count: number) => {
    for (let i = 0; i < count; i++) await sun.send('mars', PAYLOAD);
    expected += count;
    if (received() !== expected) throw new Error(`${received()} of ${expected} arrived`);
  };
  const call = (target: typeof bare) => async (count: number) => {
    for (let i = 0; i < count; i++) await target.call(CALL, PAYLOAD);
  };
  const emit = async (count: number) => {
    for (let i = 0; i < count; i++) await bare.emit('mars.told', PAYLOAD);
  };
  report.comparison(await compare(SUITE, 'send/moleculer-call', ours, call(bare)));
  report.comparison(await compare(SUITE, 'send/moleculer-emit', ours, emit));
  report.comparison(await compare(SUITE, 'send/moleculer-full', ours, call(full)));
  await Promise.all([node.stop(), bare.stop(), full.stop()]);
}

async function requests(report: Report): Promise<void> {
  const { node, sun } = await pair();
  const bare = await broker(false);
  const full = await broker(true);
  const ours = async (count: number) => {
    for (let i = 0; i < count; i++) await sun.request('mars', PAYLOAD);
  };
  const call = (target: typeof bare) => async (count: number) => {
    for (let i = 0; i < count; i++) await target.call(CALL, PAYLOAD);
  };
  report.comparison(await compare(SUITE, 'request/moleculer-call', ours, call(bare)));
  report.comparison(await compare(SUITE, 'request/moleculer-full', ours, call(full)));
  await Promise.all([node.stop(), bare.stop(), full.stop()]);
}

async function codec(report: Report): Promise<void> {
  const runtime = systemRuntime();
  const factory = new EnvelopeFactory(runtime);
  const sender = { sender: 'sun', recipient: 'mars', type: 'request' as const, correlationId: runtime.id() };
  const envelope = factory.create({ ...sender, payload: { ...PAYLOAD, notes: 'x'.repeat(80) } });
  const plain = JSON.parse(serializeEnvelope(envelope));
  let sink = 0;
  const ours = (count: number) => {
    for (let i = 0; i < count; i++) sink += deserializeEnvelope(serializeEnvelope(envelope)).timestamp & 1;
  };
  const theirs = (count: number) => {
    for (let i = 0; i < count; i++) sink += JSON.parse(JSON.stringify(plain)).timestamp & 1;
  };
  report.comparison(await compare(SUITE, 'codec/json', ours, theirs));
  if (Number.isNaN(sink)) throw new Error('unreachable');
}

function card(index: number): AgentCard {
  const capability = { name: 'c', description: '', inputSchema: {}, outputSchema: {} };
  return {
    id: `agent-${index}`,
    name: `Agent ${index}`,
    version: '1.0.0',
    description: '',
    tier: 3,
    protocols: ['a2a/1.0'],
    endpoints: [{ transport: 'local' }],
    capabilities: [{ id: `capability-${index % 1000}`, ...capability }],
    revision: 0,
    origin: 'local',
    lastSeenAt: 0,
  };
}

async function lookups(report: Report): Promise<void> {
  for (const size of [100, 10_000, 100_000]) {
    const registry = new AgentRegistry();
    const map = new Map<string, AgentCard>();
    for (let i = 0; i < size; i++) map.set(`agent-${i}`, registry.register(card(i)));
    const ids = Array.from({ length: 4096 }, (_, i) => `agent-${(i * 7919) % size}`);
    const capabilities = Array.from({ length: 4096 }, (_, i) => `capability-${(i * 7919) % Math.min(size, 1000)}`);
    let found = 0;
    const byMap = (count: number) => {
      for (let i = 0; i < count; i++) if (map.get(ids[i & 4095]!)) found++;
    };
    const byId = (count: number) => {
      for (let i = 0; i < count; i++) if (registry.getById(ids[i & 4095]!)) found++;
    };
    const byCapability = (count: number) => {
      for (let i = 0; i < count; i++) if (registry.findFirstByCapability(capabilities[i & 4095]!)) found++;
    };
    report.comparison(await compare(SUITE, 'lookup-id/map', byId, byMap, `ops/s at ${size} cards`));
    report.comparison(await compare(SUITE, 'lookup-capability/map', byCapability, byMap, `ops/s at ${size} cards`));
    if (found === 0) throw new Error('nothing was found');
  }
}

async function broadcasts(report: Report): Promise<void> {
  const { node, sun } = await pair();
  let received = 0;
  for (let i = 0; i < 999; i++) {
    node.agent({ id: `agent-${i}`, tier: 0 }).onNotification(() => {
      received++;
    });
  }
  const ours = async (count: number) => {
    for (let i = 0; i < count; i += 1000) await sun.broadcast(PAYLOAD);
  };
  const theirs = async (count: number) => {
    for (let i = 0; i < count; i++) await sun.send('agent-7', PAYLOAD);
  };
  report.comparison(await compare(SUITE, 'broadcast/send', ours, theirs));
  if (received === 0) throw new Error('nothing arrived');
  await node.stop();
}

async function memory(report: Report): Promise<void> {
  if (!globalThis.gc) return;
  const heap = () => {
    globalThis.gc!();
    globalThis.gc!();
    return process.memoryUsage().heapUsed;
  };
  const count = 100_000;
  const before = heap();
  const cards = Array.from({ length: count }, (_, i) => JSON.parse(JSON.stringify(card(i))));
  const withCards = heap();
  const node = await createNode();
  const init = (i: number) => ({ id: `agent-${i}`, tier: 3 as const, capabilities: [`capability-${i % 1000}`] });
  const agents = Array.from({ length: count }, (_, i) => node.agent(init(i)));
  const withAgents = heap();
  const cardBytes = (withCards - before) / count;
  report.figure(SUITE, 'heap/card', Math.round(cardBytes), 'bytes');
  report.figure(
    SUITE,
    'heap/idle-agent over its card',
    Math.round((withAgents - withCards) / count - cardBytes),
    'bytes',
  );
  if (cards.length + agents.length !== 2 * count) throw new Error('unreachable');
  await node.stop();
}
