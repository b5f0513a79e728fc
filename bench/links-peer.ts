import { connect } from '@nats-io/transport-node';
import { createNode, openStore } from 'ecliptic';
import DHT from 'hyperdht';
import { WebSocketServer } from 'ws';
import { natsStream, secured, takePromised, webSocketStream } from './links-by-hand.js';

/** The other process of a links benchmark; its only argument selects the role. */
export type Role =
  | { role: 'member'; code: string; bootstrap?: string | undefined; nats?: string | undefined }
  | { role: 'keeper'; code: string; folder: string }
  | { role: 'websocket' }
  | { role: 'nats'; url: string }
  | { role: 'dht' }
  | { role: 'hyperswarm'; bootstrap: string };

/** Where a bare counterpart can be called. */
export interface Bare {
  address: string;
}

/** The agents of a program that was written by hand. */
const AGENTS = new Map([['agent-0', () => {}]]);

const role: Role = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
process.on('message', () => process.send!(process.cpuUsage()));
if (role.role === 'member') await member(role);
else if (role.role === 'keeper') await keeper(role);
else if (role.role === 'websocket') bareWebsocket();
else if (role.role === 'nats') await bareNats(role.url);
else if (role.role === 'dht') await privateDht();
else await bareStream(role.bootstrap);

async function member({ code, bootstrap, nats }: Extract<Role, { role: 'member' }>): Promise<void> {
  const found = bootstrap ? { bootstrap: [bootstrap] } : { dht: false };
  const network = nats ? { nats: { servers: [nats] } } : found;
  const node = await createNode({ network });
  node
    .agent({ id: 'agent-0' })
    .onNotification(() => {})
    .onRequest(() => null)
    .onStream(async (stream) => {
      for await (const _ of stream);
    });
  await node.network!.join(code);
  process.send!({});
}

/** A member with a store, whose only agent takes durable mail. */
async function keeper({ code, folder }: Extract<Role, { role: 'keeper' }>): Promise<void> {
  const node = await createNode({ store: await openStore(folder), network: { dht: false } });
  node.agent({ id: 'agent-0', tier: 0 }).onNotification(() => {});
  await node.network!.join(code);
  process.send!({});
}

function bareWebsocket(): void {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
  server.on('connection', (socket, { url }) => {
    if (url === '/promised') {
      void secured(false, webSocketStream(socket)).then((frames) => takePromised(frames, AGENTS));
      return;
    }
    const take = counterpart((frame) => socket.send(frame));
    socket.on('message', (frame: Buffer) => take(frame));
  });
  server.on('listening', () => {
    process.send!({ address: `ws://127.0.0.1:${(server.address() as { port: number }).port}` } satisfies Bare);
  });
}

async function bareNats(url: string): Promise<void> {
  const connection = await connect({ servers: url });
  const take = counterpart((frame) => connection.publish('bare.back', frame));
  connection.subscribe('bare.there', { callback: (_, { data }) => take(data) });
  connection.subscribe('bare.read', { callback: (_, message) => void message.respond() });
  void secured(false, natsStream(connection, 'promised.back', 'promised.there')).then((frames) =>
    takePromised(frames, AGENTS),
  );
  await connection.flush();
  process.send!({ address: url } satisfies Bare);
}

async function privateDht(): Promise<void> {
  const host = '127.0.0.1';
  const bootstrap: string[] = [];
  for (let i = 0; i < 4; i++) {
    const node = new DHT({ host, bootstrap, ephemeral: false, firewalled: false });
    await node.fullyBootstrapped();
    bootstrap.push(`${host}:${node.address().port}`);
  }
  process.send!({ address: bootstrap[0]! } satisfies Bare);
}

async function bareStream(bootstrap: string): Promise<void> {
  const dht = new DHT({ bootstrap: [bootstrap], host: '127.0.0.1' });
  const bare = dht.createServer((stream) => {
    const take = counterpart((frame) => stream.write(frame));
    stream.on('data', take);
    stream.on('error', () => {});
  });
  const promised = dht.createServer((stream) => {
    takePromised(stream, AGENTS);
    stream.on('error', () => {});
  });
  const keys: string[] = [];
  for (const server of [bare, promised]) {
    const keyPair = DHT.keyPair();
    await server.listen(keyPair);
    keys.push(Buffer.from(keyPair.publicKey).toString('hex'));
  }
  process.send!({ address: keys.join(' ') } satisfies Bare);
}

/** Counts a known number of messages and reports the end; echoes otherwise. */
function counterpart(send: (frame: Uint8Array) => void): (frame: Buffer | Uint8Array) => void {
  let left = 0;
  return (frame) => {
    if (left > 0) {
      if (--left === 0) send(frame);
      return;
    }
    const text = frame.length < 32 ? Buffer.from(frame).toString() : '';
    if (text.startsWith('count ')) left = Number(text.slice(6));
    else send(frame);
  };
}
