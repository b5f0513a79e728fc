import { createNode, type EclipticNode, openStore } from 'ecliptic';
import { WebSocket } from 'ws';

/** The other processes of the benchmark with a hostile member; the only argument selects the role. */
export type Role =
  | { role: 'victim'; folder: string; port: number }
  | { role: 'honest'; code: string; victim: string }
  | { role: 'hostile'; code: string; victim: string; port: number; folder: string };

/** What the victim says when it is up. */
export interface Invites {
  readonly key: string;
  readonly codes: readonly [honest: string, hostile: string];
}

export type Attack = 'messages' | 'mail' | 'tools' | 'document' | 'handshakes';
export type Order = { do: 'request'; ms: number } | { do: 'attack'; attack: Attack } | { do: 'stop' };

/** Requests of the honest member under way at once, and items of the hostile one. */
const LANES = 16;
const FLOOD = 512;
const TEXT = 'x'.repeat(256);

const role: Role = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
if (role.role === 'victim') await victim(role);
else if (role.role === 'honest') await honest(role);
else await hostile(role);

async function victim({ folder, port }: Extract<Role, { role: 'victim' }>): Promise<void> {
  const network = { dht: false, listen: { host: '127.0.0.1', port } };
  const node = await createNode({ store: await openStore(folder), network });
  const agent = node.agent({ id: 'victim', tier: 2 });
  agent.onNotification(() => {}).onRequest(({ payload }) => payload);
  agent.tool('echo', { description: 'Returns its input' }, (input) => input);
  agent.state('board');
  const codes = [(await node.network!.invite()).code, (await node.network!.invite()).code] as const;
  process.send!({ key: node.key, codes } satisfies Invites);
}

/** Asks the victim in sixteen lanes, as fast as it answers, for as long as it is told. */
async function honest({ code, victim: key }: Extract<Role, { role: 'honest' }>): Promise<void> {
  const node = await createNode({ network: { dht: false } });
  const agent = node.agent({ id: 'honest', tier: 2 });
  await node.network!.join(code);
  const address = `victim@${key}`;
  await known(node, key);
  const until = async (ms: number) => {
    const end = performance.now() + ms;
    let count = 0;
    const lane = async () => {
      while (performance.now() < end) {
        await agent.request(address, { text: TEXT }, { timeoutMs: 60_000 });
        count++;
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    return count;
  };
  await until(500);
  process.on('message', (order: Order) => {
    if (order.do === 'request') void until(order.ms).then((count) => process.send!({ count }));
  });
  process.send!({});
}

/** Does as much of one thing as the victim lets it, through the ordinary interface of its own node. */
async function hostile({ code, victim: key, port, folder }: Extract<Role, { role: 'hostile' }>): Promise<void> {
  const node = await createNode({ store: await openStore(folder), network: { dht: false } });
  const agent = node.agent({ id: 'hostile', tier: 2 });
  await node.network!.join(code);
  const address = `victim@${key}`;
  await known(node, key);
  const board = agent.state('board');
  let attack: Attack | undefined;
  let done = 0;
  const once: Readonly<Record<Attack, () => Promise<unknown>>> = {
    messages: () => agent.send(address, { text: TEXT }),
    mail: () => agent.send(address, { text: TEXT }, { durable: true }),
    tools: () => agent.mcp.call('victim.echo', { text: TEXT }),
    document: async () => {
      board.map('m').set(`key ${done % 64}`, TEXT);
      await new Promise((resolve) => setImmediate(resolve));
    },
    handshakes: () => greet(port),
  };
  const lane = async (mine: Attack) => {
    while (attack === mine) {
      // A refusal may come at once, and the order to stop has to be read.
      await once[mine]().catch(() => new Promise((go) => setImmediate(go)));
      done++;
    }
  };
  process.on('message', (order: Order) => {
    attack = order.do === 'attack' ? order.attack : undefined;
    if (attack) for (let index = 0; index < FLOOD; index++) void lane(attack);
    else process.send!({ done });
    if (!attack) done = 0;
  });
  process.send!({});
}

/** Opens a connection, sends what is no handshake, and waits for its end. */
function greet(port: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: false });
    socket.on('open', () => socket.send(Buffer.alloc(64, 7)));
    socket.on('error', () => {});
    socket.on('close', () => resolve());
  });
}

/** Resolves when the victim's agent is known here. */
async function known(node: EclipticNode, key: string): Promise<void> {
  while (!node.registry.listAll().some((card) => card.node === key)) await new Promise((go) => setTimeout(go, 10));
}
