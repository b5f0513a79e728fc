import { createNode, type EclipticNode } from 'ecliptic';

/** The only argument of a process with several nodes of a large mesh. */
export interface ScaleRole {
  readonly nodes: number;
  /** Nodes of the whole mesh, one agent each. */
  readonly total: number;
  readonly network: object;
}

export type ScaleQuestion = { readonly join: readonly string[] } | { readonly idleMs: number } | 'invite' | 'modules';

/** Frames and bytes that the nodes of this process have sent. */
export interface Sent {
  readonly frames: number;
  readonly bytes: number;
}

export interface Scaled extends Sent {
  /** When every registry of this process held every card, by the clock of the machine. */
  readonly completeAt: number;
  readonly links: number;
  readonly rssBytes: number;
  /** What the heap has gained, garbage aside. */
  readonly heapBytes: number;
  readonly cpuMs: number;
}

const { nodes: count, total, network }: ScaleRole = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
const sent = { frames: 0, bytes: 0 };
const nodes: EclipticNode[] = [];
for (let index = 0; index < count; index++) {
  const node = await createNode({ network });
  node.agent({ id: 'agent' }).onNotification(() => {});
  countFrames(node);
  nodes.push(node);
}
const heapBefore = heapBytes();
process.on('message', (question: ScaleQuestion) => void answer(question));
process.send!({});

async function answer(question: ScaleQuestion): Promise<void> {
  if (question === 'invite') {
    const codes: string[] = [];
    while (codes.length < total) codes.push((await nodes[0]!.network!.invite()).code);
    process.send!(codes);
  } else if (question === 'modules') {
    // Nodes load these when they join, which is part of the time that it takes, and not of the memory of a node.
    const names = 'nats' in network ? ['@nats-io/transport-node', '@nats-io/jetstream', '@nats-io/kv'] : ['hyperswarm'];
    for (const name of names) await import(name);
    process.send!(heapBytes() - heapBefore);
  } else if ('idleMs' in question) {
    const before = { ...sent };
    const tell = () => process.send!({ frames: sent.frames - before.frames, bytes: sent.bytes - before.bytes });
    setTimeout(tell, question.idleMs);
  } else process.send!(await join(question.join));
}

async function join(codes: readonly string[]): Promise<Scaled> {
  const before = process.cpuUsage();
  const complete = nodes.map(
    (node) =>
      new Promise<void>((resolve) => {
        const check = () => {
          if (node.registry.size === total) resolve();
        };
        node.registry.onCard(check);
        check();
      }),
  );
  const guests = nodes.slice(nodes.length - codes.length);
  await Promise.all(guests.map((node, index) => node.network!.join(codes[index]!)));
  await Promise.all(complete);
  const completeAt = Date.now();
  const { user, system } = process.cpuUsage(before);
  const links = nodes.reduce((sum, node) => sum + node.network!.peers.linkCount, 0);
  const rssBytes = process.memoryUsage().rss;
  const cpuMs = (user + system) / 1_000;
  return { ...sent, completeAt, links, rssBytes, heapBytes: heapBytes() - heapBefore, cpuMs };
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

function countFrames({ network: own }: EclipticNode): void {
  const admission = own!.links;
  const take = admission.take.bind(admission);
  admission.take = (link) => {
    const send = link.send.bind(link);
    link.send = (frame) => {
      sent.frames++;
      sent.bytes += frame.byteLength;
      return send(frame);
    };
    take(link);
  };
}
