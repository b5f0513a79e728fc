/**
 * A node under mixed load, which reports its own memory: `node --expose-gc load.mjs SECONDS FOLDER`.
 *
 * The load comes from inside (sends, requests, broadcasts, proposals, documents, durable mail) and from a second
 * process, which is a peer, an A2A client and an MCP client at once. It is paced: the test looks for growth, and a
 * saturated node would only show its queues.
 */
import { fork } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createNode, openStore } from '../../dist/index.js';

const SELF = fileURLToPath(import.meta.url);
const SAMPLE_MS = 10_000;
const PAUSE_MS = 20;
const ECHO = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };
const [seconds, folder, role] = process.argv.slice(2);

if (role === 'peer') {
  process.on('disconnect', () => process.exit(0));
  process.once('message', ({ code, url }) => bePeer(code, url));
} else {
  await beSubject();
}

async function beSubject() {
  const node = await createNode({
    store: await storeNamed('subject'),
    network: { dht: false, listen: { host: '127.0.0.1', port: 0 } },
  });
  const sun = node.agent({ id: 'sun', tier: 0 }).onNotification(() => {});
  const mars = node.agent({ id: 'mars', tier: 0, capabilities: ['backend.api'] });
  mars.onNotification(() => {}).onRequest(({ payload }) => payload);
  mars.tool('echo', { inputSchema: ECHO }, ({ text }) => text);
  node.agent({ id: 'echo', tier: 0 }).onTask((task) => task.text);
  const { url } = await node.serve({ port: 0, open: true, requestsPerMinute: Number.POSITIVE_INFINITY });
  const { code } = await node.network.invite();
  const peer = fork(SELF, [seconds, folder, 'peer']);
  peer.send({ code, url });
  while (!node.registry.getById('venus')) await delay(10);

  const plan = sun.state('plan');
  const until = performance.now() + Number(seconds) * 1_000;
  let sampleAt = performance.now() + SAMPLE_MS;
  for (let turn = 0; performance.now() < until; turn++) {
    for (let i = 0; i < 10; i++) {
      await sun.send('mars', { turn, i });
      await sun.request('mars', { turn, i });
      await sun.request({ capability: 'backend.api' }, { turn, i });
    }
    await sun.broadcast({ turn });
    await sun.request('venus', { turn });
    await sun.send('venus', { text: 'x'.repeat(200) }, { durable: true });
    await sun.propose({ to: 'mars', taskDescription: 'echo', requiredCapabilities: ['backend.api'] }).result;
    // A document keeps the history of its changes, so they come as seldom as agents make them.
    if (turn % 50 === 0) plan.map('plan').set(`key-${turn % 1_000}`, `value ${turn}`);
    if (performance.now() >= sampleAt) {
      sampleAt += SAMPLE_MS;
      globalThis.gc();
      const { rss, heapUsed, external } = process.memoryUsage();
      console.log(JSON.stringify({ turn, rss, heapUsed, external }));
    }
    await delay(PAUSE_MS);
  }
  peer.disconnect();
  await node.stop();
  process.exit(0);
}

async function bePeer(code, url) {
  const node = await createNode({ store: await storeNamed('peer'), network: { dht: false } });
  const venus = node.agent({ id: 'venus', tier: 0 });
  venus.onNotification(() => {}).onRequest(() => null);
  const plan = venus.state('plan');
  await node.network.join(code);
  while (!node.registry.getById('mars')) await delay(10);
  const post = poster(url);
  const key = 'io.modelcontextprotocol/';
  const _meta = {
    [`${key}protocolVersion`]: '2026-07-28',
    [`${key}clientCapabilities`]: {},
    [`${key}clientInfo`]: { name: 'load', version: '1.0.0' },
  };
  for (let turn = 0; ; turn++) {
    await venus.send('mars', { text: 'y'.repeat(200) }, { durable: true });
    await venus.request('mars', { turn });
    if (turn % 50 === 0) plan.map('plan').set(`other-${turn % 1_000}`, turn);
    const message = { messageId: `load-${turn}`, role: 'ROLE_USER', parts: [{ text: 'hello' }] };
    await post('/a2a/rpc', { method: 'SendMessage', params: { message } }, { 'A2A-Version': '1.0' });
    const params = { name: 'mars__echo', arguments: { text: 'hello' }, _meta };
    await post(
      '/mcp',
      { method: 'tools/call', params },
      {
        Accept: 'application/json, text/event-stream',
        'MCP-Protocol-Version': '2026-07-28',
        'Mcp-Method': 'tools/call',
        'Mcp-Name': params.name,
      },
    );
    await delay(PAUSE_MS);
  }
}

function storeNamed(name) {
  const own = join(folder, name);
  mkdirSync(own);
  return openStore(own);
}

function poster(url) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return (path, content, headers) =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, ...content });
      const own = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
      const call = request(`${url}${path}`, { method: 'POST', agent, headers: { ...own, ...headers } }, (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk) => {
          text += chunk;
        });
        answer.on('end', () => (text.includes('"result"') ? resolve() : reject(new Error(text))));
      });
      call.on('error', reject);
      call.end(body);
    });
}
