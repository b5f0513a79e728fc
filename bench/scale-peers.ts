import { createNode, type EclipticNode } from 'ecliptic';
import { calibrate, compareGrowth, cpuRound, type Report, type Runner } from './compare.js';
import { Peer } from './peer-process.js';
import { sized } from './settings.js';
import type { TalkRole } from './talk-peer.js';

const [FEW, MANY] = [1, sized(30, 4)] as const;
const PAYLOAD = { text: 'x'.repeat(245) };
const IN_FLIGHT = 32;

/** The CPU time of one node that sends to many others, in turn, compared with one that sends to one other. */
export async function peers(report: Report, suite: string): Promise<void> {
  const [few, many] = [await Hub.start(FEW), await Hub.start(MANY)];
  try {
    for (const work of ['send', 'request'] as const) {
      const name = `${work}, ${MANY} / ${FEW} peers`;
      const counts = [await calibrate(many.runner(work)), await calibrate(few.runner(work))] as const;
      const measure = (hub: Hub, count: number) => () => cpuRound(hub.runner(work), count);
      report.comparison(await compareGrowth(suite, name, measure(many, counts[0]), measure(few, counts[1])));
    }
  } finally {
    await Promise.all([few.stop(), many.stop()]);
  }
}

class Hub {
  readonly #node: EclipticNode;
  readonly #peer: Peer;
  readonly #peers: number;
  readonly #sun;
  #next = 0;

  private constructor(node: EclipticNode, peer: Peer, peers: number) {
    this.#node = node;
    this.#peer = peer;
    this.#peers = peers;
    this.#sun = node.agent({ id: 'sun' });
  }

  static async start(peers: number): Promise<Hub> {
    const node = await createNode({ network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
    const codes: string[] = [];
    while (codes.length < peers) codes.push((await node.network!.invite()).code);
    const peer = await Peer.start({ codes } satisfies TalkRole, './talk-peer.js');
    while (node.registry.size < peers) await new Promise((resolve) => setTimeout(resolve, 5));
    return new Hub(node, peer, peers);
  }

  /** So many messages in flight, each to the next peer. */
  runner(work: 'send' | 'request'): Runner {
    const one = () => {
      this.#next = (this.#next + 1) % this.#peers;
      return this.#sun[work](`agent-${this.#next}`, PAYLOAD);
    };
    return async (count) => {
      let left = count;
      const lane = async () => {
        while (left-- > 0) await one();
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
    };
  }

  async stop(): Promise<void> {
    await this.#peer.stop();
    await this.#node.stop();
  }
}
