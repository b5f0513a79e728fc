import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import {
  type AgentCard,
  AgentRegistry,
  createNode,
  deserializeEnvelope,
  EnvelopeFactory,
  openStore,
  serializeEnvelope,
  systemRuntime,
} from 'ecliptic';
import moleculer from 'moleculer';
import { compareRunners, isWanted, type Report, type Runner } from './compare.js';
import { MeshAgents, type MeshWork, PAYLOAD } from './mesh-agents.js';
import { isRepeat, sized } from './settings.js';

type Schema = Parameters<moleculer.ServiceBroker['createService']>[0];

const SUITE = 'mesh';
const CALL = 'mars.build';
const ASYNC_CALL = 'mars.later';
const RANDOM_AGENTS = 1_000;
const AUDIENCE = 999;
const CARDS = [100, sized(10_000, 1_000), sized(100_000, 10_000)];

export async function run(report: Report): Promise<void> {
  await sends(report);
  await requests(report);
  await randomPairs(report);
  if (isRepeat()) return;
  await capabilities(report);
  await journal(report);
  await streams(report);
  await codec(report);
  await lookups(report);
  await broadcasts(report);
  await memory(report);
}

async function compared(report: Report, name: string, ours: Runner, theirs: Runner): Promise<void> {
  if (isWanted(SUITE, name)) report.comparison(await compareRunners(SUITE, name, ours, theirs));
}

async function pair(init: Parameters<typeof createNode>[0] = {}) {
  const node = await createNode(init);
  const sun = node.agent({ id: 'sun' });
  const mars = node.agent({ id: 'mars' });
  let received = 0;
  mars.onNotification(() => {
    received++;
  });
  mars.onRequest(() => null);
  return { node, sun, mars, received: () => received };
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
    actions: {
      build: { ...(params && { params }), tiers: [0, 1, 2], handler: () => null },
      later: async () => null,
    },
    events: { 'mars.told'() {} },
  } as Schema);
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
  const emit = async (count: number) => {
    for (let i = 0; i < count; i++) await bare.emit('mars.told', PAYLOAD);
  };
  await compared(report, 'send/moleculer-call', ours, calls(bare));
  await compared(report, 'send/moleculer-emit', ours, emit);
  await compared(report, 'send/moleculer-full', ours, calls(full));
  await Promise.all([node.stop(), bare.stop(), full.stop()]);
}

async function requests(report: Report): Promise<void> {
  const { node, sun, mars } = await pair();
  const bare = await broker(false);
  const full = await broker(true);
  const ours = async (count: number) => {
    for (let i = 0; i < count; i++) await sun.request('mars', PAYLOAD);
  };
  await compared(report, 'request/moleculer-call', ours, calls(bare));
  await compared(report, 'request/moleculer-full', ours, calls(full));
  mars.onRequest(async () => null);
  await compared(report, 'request-async/moleculer-call', ours, calls(bare, ASYNC_CALL));
  await Promise.all([node.stop(), bare.stop(), full.stop()]);
}

function calls(broker: moleculer.ServiceBroker, action = CALL) {
  return async (count: number) => {
    for (let i = 0; i < count; i++) await broker.call(action, PAYLOAD);
  };
}

/** Among many agents, each message goes from one agent to another, both chosen at random. */
async function randomPairs(report: Report): Promise<void> {
  const agents = await MeshAgents.start(RANDOM_AGENTS);
  const bare = new moleculer.ServiceBroker({ logger: false, metrics: false, validator: false } as object);
  for (let i = 0; i < RANDOM_AGENTS; i++) {
    const actions = { build: () => null, later: async () => null };
    bare.createService({ name: `agent-${i}`, actions, events: { [`agent-${i}.told`]() {} } } as Schema);
  }
  await bare.start();
  const theirs = (action: string) => {
    const names = Array.from({ length: RANDOM_AGENTS }, (_, i) => `agent-${i}.${action}`);
    return async (count: number) => {
      for (let i = 0; i < count; i++) await bare.call(names[agents.pick()]!, PAYLOAD);
    };
  };
  const random = (name: string, kind: MeshWork, action: string) =>
    compared(report, name, agents.runner(kind), theirs(action));
  await random('send-random/moleculer-call', 'send-random', 'build');
  await random('request-random/moleculer-call', 'request-random', 'build');
  agents.answerLater();
  await random('request-random-async/moleculer-call', 'request-random', 'later');
  await Promise.all([agents.stop(), bare.stop()]);
}

/** A message to a capability that many agents offer, against one to a named agent. */
async function capabilities(report: Report): Promise<void> {
  const agents = await MeshAgents.start(RANDOM_AGENTS);
  const [ours, direct] = [agents.runner('send-capability'), agents.runner('send-random')];
  await compared(report, 'capability-100/send-random', ours, direct);
  const asked = agents.runner('request-capability');
  await compared(report, 'capability-100/request-random', asked, agents.runner('request-random'));
  await agents.stop();
}

/** A node with a store, which records each decision in its journal, against one without. */
async function journal(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const kept = await pair({ store: await openStore(folder) });
  const bare = await pair();
  const requests = (sun: typeof kept.sun) => async (count: number) => {
    for (let i = 0; i < count; i++) await sun.request('mars', PAYLOAD);
  };
  await compared(report, 'request-journal/request', requests(kept.sun), requests(bare.sun));
  await Promise.all([kept.node.stop(), bare.node.stop()]);
  await rm(folder, { recursive: true, force: true });
}

/** Items of one answer, beside those of a stream of Node. */
async function streams(report: Report): Promise<void> {
  const { node, sun, mars } = await pair();
  async function* items(count: number) {
    for (let i = 0; i < count; i++) yield PAYLOAD;
  }
  mars.onRequest(({ payload }) => items((payload as { count: number }).count));
  const read = async (stream: AsyncIterable<unknown>, count: number) => {
    let read = 0;
    for await (const _ of stream) read++;
    if (read !== count) throw new Error(`${read} of ${count} items arrived`);
  };
  const ours = (count: number) => read(sun.stream('mars', { count }), count);
  const theirs = (count: number) => read(Readable.from(items(count)), count);
  await compared(report, 'stream-item/node-stream', ours, theirs);
  await node.stop();
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
  await compared(report, 'codec/json', ours, theirs);
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
  for (const size of CARDS) {
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
    const cards = `${size.toLocaleString('en')} cards`;
    await compared(report, `lookup-id/map, ${cards}`, byId, byMap);
    await compared(report, `lookup-capability/map, ${cards}`, byCapability, byMap);
    if (found === 0) throw new Error('nothing was found');
  }
}

async function broadcasts(report: Report): Promise<void> {
  const { node, sun } = await pair();
  let received = 0;
  for (let i = 0; i < AUDIENCE; i++) {
    node.agent({ id: `agent-${i}`, tier: 0 }).onNotification(() => {
      received++;
    });
  }
  const ours = async (count: number) => {
    for (let i = 0; i < count; i++) await sun.broadcast(PAYLOAD);
  };
  const theirs = async (count: number) => {
    for (let i = 0; i < count * AUDIENCE; i++) await sun.send('agent-7', PAYLOAD);
  };
  await compared(report, `broadcast to ${AUDIENCE}/send`, ours, theirs);
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
  const count = sized(100_000, 5_000);
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
