import { createNode, openStore } from 'ecliptic';
import DHT from 'hyperdht';
import { WebSocketServer } from 'ws';

/** The other process of a links benchmark; its only argument selects the role. */
export type Role =
  | { role: 'member'; code: string; bootstrap: string | undefined; agents: number; cards: number }
  | { role: 'keeper'; code: string; folder: string }
  | { role: 'websocket' }
  | { role: 'dht' }
  | { role: 'hyperswarm'; bootstrap: string };

/** Where a bare counterpart can be called. */
export interface Bare {
  address: string;
}

const role: Role = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
if (role.role === 'member') await member(role);
else if (role.role === 'keeper') await keeper(role);
else if (role.role === 'websocket') bareWebsocket();
else if (role.role === 'dht') await privateDht();
else await bareStream(role.bootstrap);

async function member({ code, bootstrap, agents, cards }: Extract<Role, { role: 'member' }>): Promise<void> {
  const network = bootstrap ? { bootstrap: [bootstrap] } : { dht: false };
  const node = await createNode({ network });
  for (let i = 0; i < agents; i++) {
    const agent = node.agent({ id: agents === 1 ? 'agent-0' : `agent-${i}` });
    agent.onNotification(() => {}).onRequest(() => null);
  }
  await node.network!.join(code);
  while (node.registry.size < cards) await new Promise((resolve) => setTimeout(resolve, 5));
  process.send!({ bytes: process.memoryUsage().rss });
}

/** A member with a store, whose only agent takes durable mail. */
async function keeper({ code, folder }: Extract<Role, { role: 'keeper' }>): Promise<void> {
  const node = await createNode({ store: await openStore(folder), network: { dht: false } });
  node.agent({ id: 'agent-0', tier: 0 }).onNotification(() => {});
  await node.network!.join(code);
  process.on('message', () => process.send!(process.cpuUsage()));
  process.send!({});
}

function bareWebsocket(): void {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
  server.on('connection', (socket) => {
    const take = counterpart((frame) => socket.send(frame));
    socket.on('message', (frame: Buffer) => take(frame));
  });
  server.on('listening', () => {
    process.send!({ address: `ws://127.0.0.1:${(server.address() as { port: number }).port}` } satisfies Bare);
  });
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
  const server = dht.createServer((stream) => {
    const take = counterpart((frame) => stream.write(frame));
    stream.on('data', take);
    stream.on('error', () => {});
  });
  const keyPair = DHT.keyPair();
  await server.listen(keyPair);
  process.send!({ address: Buffer.from(keyPair.publicKey).toString('hex') } satisfies Bare);
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
