/**
 * Runs one path of one build and prints its CPU time per operation, in microseconds.
 *
 *   node --expose-gc bench/build-path.mjs BUILD PATH
 *
 * Both sides of a path run in this process, so that its CPU time covers sender, recipient and store threads.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [build, path] = process.argv.slice(2);
const ecliptic = await import(pathToFileURL(resolve(build, 'dist/index.js')).href);
const { createNode, MemoryStore, EnvelopeFactory, serializeEnvelope, deserializeEnvelope, systemRuntime } = ecliptic;
// Older builds, which are measured as well, have another store.
const openStore = ecliptic.openStore ?? ((folder) => ecliptic.SqliteStore.open(folder));

const PAYLOAD = { text: 'x'.repeat(245) };
const LISTEN = { dht: false, listen: { host: '127.0.0.1', port: 0 } };
const IN_FLIGHT = 32;
/** Divides the number of operations of every path. */
const STRETCHES = 20;
const cleanups = [];

/** Each path returns how many operations to measure and the function that runs that many. */
const PATHS = {
  async start() {
    const node = await createNode();
    for (let i = 0; i < 21; i++) node.agent({ id: `agent-${i}` });
    cleanups.push(() => node.stop());
    return { sinceLaunch: true };
  },
  async send() {
    const { sun } = await pair();
    return repeat(1_500_000, () => sun.send('mars', PAYLOAD));
  },
  async request() {
    const { sun } = await pair();
    return repeat(500_000, () => sun.request('mars', PAYLOAD));
  },
  async 'request-async'() {
    const { sun, mars } = await pair();
    mars.onRequest(async () => {
      await null;
      return null;
    });
    return repeat(400_000, () => sun.request('mars', PAYLOAD));
  },
  async capability() {
    const { sun } = await pair();
    return repeat(500_000, () => sun.request({ capability: 'backend.api' }, PAYLOAD));
  },
  async broadcast() {
    const { node, sun } = await pair();
    for (let i = 0; i < 20; i++) node.agent({ id: `agent-${i}` }).onNotification(() => {});
    return repeat(80_000, () => sun.broadcast(PAYLOAD));
  },
  async codec() {
    const factory = new EnvelopeFactory(systemRuntime());
    const envelope = factory.create({
      sender: 'sun',
      recipient: 'mars',
      type: 'request',
      payload: PAYLOAD,
      metadata: { sourceTier: 0 },
    });
    return repeat(300_000, () => deserializeEnvelope(serializeEnvelope(envelope)));
  },
  async 'link-send'() {
    const { sun } = await linked();
    return lanes(120_000, 2_048, () => sun.send('venus', PAYLOAD));
  },
  async 'link-request'() {
    const { sun } = await linked();
    return repeat(10_000, () => sun.request('venus', PAYLOAD));
  },
  async durable() {
    const { node, sun } = await linked(true);
    let done = 0;
    node.observability.subscribe((event) => {
      if (event.type === 'receipt' && event.receiptState === 'done') done++;
    });
    let expected = 0;
    const send = lanes(10_000, 200, () => sun.send('venus', PAYLOAD, { durable: true }));
    return {
      count: send.count,
      run: async (count) => {
        expected += count;
        await send.run(count);
        while (done < expected) await new Promise((next) => setTimeout(next, 1));
      },
    };
  },
  async 'mcp-call'() {
    const { mars, sun } = await pair();
    mars.tool('echo', { inputSchema: ECHO_SCHEMA }, ({ text }) => text);
    return lanes(60_000, IN_FLIGHT, () => sun.mcp.call('mars.echo', { text: 'hello' }));
  },
  async 'mcp-http'() {
    const { node, mars } = await pair();
    mars.tool('echo', { inputSchema: ECHO_SCHEMA }, ({ text }) => text);
    const post = await poster(node, '/mcp', {
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': 'tools/call',
      'Mcp-Name': 'mars__echo',
    });
    const key = 'io.modelcontextprotocol/';
    const _meta = {
      [`${key}protocolVersion`]: '2026-07-28',
      [`${key}clientCapabilities`]: {},
      [`${key}clientInfo`]: { name: 'bench', version: '1.0.0' },
    };
    const params = { name: 'mars__echo', arguments: { text: 'hello' }, _meta };
    return lanes(10_000, IN_FLIGHT, (id) => post({ jsonrpc: '2.0', id, method: 'tools/call', params }, '"hello"'));
  },
  'a2a-task': () => a2a((task) => task.text),
  'a2a-message': () => a2a((task) => task.reply(task.text)),
  async propose() {
    const node = await createNode({ store: new MemoryStore() });
    cleanups.push(() => node.stop());
    const asker = node.agent({ id: 'asker', tier: 3 });
    node.agent({ id: 'worker', tier: 3, capabilities: ['work'] }).onRequest(({ payload }) => payload);
    const terms = { to: 'worker', taskDescription: 'echo', requiredCapabilities: ['work'] };
    return repeat(20_000, () => asker.propose(terms).result);
  },
  async document() {
    const { sun, mars } = await pair();
    const [one, other] = [sun.state('bench'), mars.state('bench')];
    await one.synced();
    return {
      count: 100_000,
      run: async (count) => {
        for (let i = 0; i < count; i++) one.map('plan').set(`key-${i % 1_000}`, `value ${i}`);
        await one.synced();
        if (other.map('plan').size < 1_000) throw new Error('the other replica is behind');
      },
    };
  },
};

const ECHO_SCHEMA = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
};

if (path === undefined) {
  console.log(JSON.stringify(Object.keys(PATHS)));
} else {
  const { count, run, sinceLaunch } = await PATHS[path]();
  let perOperation;
  if (sinceLaunch) {
    perOperation = micros(process.cpuUsage());
  } else {
    await run(Math.ceil(count / 4));
    globalThis.gc?.();
    // The median stretch: a burst of load from elsewhere on the machine slows only a few of them.
    const stretches = [];
    for (let i = 0; i < STRETCHES; i++) {
      const before = process.cpuUsage();
      await run(count / STRETCHES);
      stretches.push(micros(process.cpuUsage(before)));
    }
    stretches.sort((a, b) => a - b);
    perOperation = stretches[STRETCHES >> 1] / (count / STRETCHES);
  }
  console.log(perOperation);
  for (const clean of cleanups.reverse()) await clean();
  process.exit(0);
}

function micros({ user, system }) {
  return user + system;
}

async function pair() {
  const node = await createNode();
  cleanups.push(() => node.stop());
  const sun = node.agent({ id: 'sun', tier: 0 });
  const mars = node.agent({ id: 'mars', tier: 2, capabilities: ['backend.api'] });
  mars.onNotification(() => {});
  mars.onRequest(() => null);
  return { node, sun, mars };
}

/** Two nodes of one mesh over a WebSocket, each with an agent on the same tier. */
async function linked(stored = false) {
  const options = async () => (stored ? { store: await openStore(await folder()) } : {});
  const node = await createNode({ ...(await options()), network: LISTEN });
  const other = await createNode({ ...(await options()), network: { dht: false } });
  cleanups.push(
    () => node.stop(),
    () => other.stop(),
  );
  const sun = node.agent({ id: 'sun', tier: 0 });
  other
    .agent({ id: 'venus', tier: 0 })
    .onNotification(() => {})
    .onRequest(() => null);
  await other.network.join((await node.network.invite()).code);
  while (!node.registry.getById('venus')) await new Promise((next) => setTimeout(next, 5));
  return { node, sun };
}

async function a2a(onTask) {
  const node = await createNode();
  cleanups.push(() => node.stop());
  node.agent({ id: 'echo' }).onTask(onTask);
  const post = await poster(node, '/a2a/rpc', { 'A2A-Version': '1.0' });
  return lanes(10_000, IN_FLIGHT, (id) => {
    const message = { messageId: `bench-${id}`, role: 'ROLE_USER', parts: [{ text: 'hello' }] };
    return post({ jsonrpc: '2.0', id, method: 'SendMessage', params: { message } }, '"result"');
  });
}

/** Posts JSON to the node over kept-alive connections; an answer without `expected` fails the run. */
async function poster(node, route, headers) {
  const { url } = await node.serve({ port: 0, open: true, requestsPerMinute: Number.POSITIVE_INFINITY });
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  cleanups.push(() => agent.destroy());
  return (content, expected) =>
    new Promise((done, fail) => {
      const body = JSON.stringify(content);
      const length = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
      const call = request(
        `${url}${route}`,
        { method: 'POST', agent, headers: { ...headers, ...length } },
        (answer) => {
          let text = '';
          answer.setEncoding('utf8');
          answer.on('data', (chunk) => {
            text += chunk;
          });
          answer.on('end', () => (text.includes(expected) ? done() : fail(new Error(text))));
        },
      );
      call.on('error', fail);
      call.end(body);
    });
}

async function folder() {
  const made = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  cleanups.push(() => rm(made, { recursive: true, force: true }));
  return made;
}

function repeat(count, one) {
  return {
    count,
    run: async (times) => {
      for (let i = 0; i < times; i++) await one();
    },
  };
}

/** A fixed number of operations in progress at once. */
function lanes(count, width, one) {
  let last = 0;
  const run = async (times) => {
    let left = times;
    const lane = async () => {
      while (left-- > 0) await one(++last);
    };
    await Promise.all(Array.from({ length: width }, lane));
  };
  return { count, run };
}
