import { type Agent, createNode, type EclipticNode } from 'ecliptic';

export const PAYLOAD = { task: 'build the login page', priority: 3 };

export const MESH_WORK = ['send-pair', 'send-random', 'request-pair', 'request-random', 'send-capability'] as const;
export type MeshWork = (typeof MESH_WORK)[number] | 'request-capability';

/** Agents that offer one capability each, so that so many offer the same, or all where there are fewer. */
const CANDIDATES = 100;
/** More than any benchmark lets wait. */
const MOST_WAITING = 200_000;
const WAIT_MS = 3_600_000;
/** Drawn before the measurement, so that drawing costs the same for every size. */
const DRAWN = 1 << 16;

/** Many agents of one node, and the messages between them. */
export class MeshAgents {
  readonly #node: EclipticNode;
  readonly #agents: readonly Agent[];
  readonly #drawn: Int32Array;
  readonly #candidates: number;
  #next = 0;
  #received = 0;

  private constructor(node: EclipticNode, count: number, candidates: number) {
    this.#node = node;
    this.#candidates = candidates;
    const capabilities = (i: number) => [`capability-${Math.floor(i / candidates)}`];
    this.#agents = Array.from({ length: count }, (_, i) =>
      node
        .agent({ id: `agent-${i}`, capabilities: capabilities(i) })
        .onNotification(() => {
          this.#received++;
        })
        .onRequest(() => null),
    );
    this.#drawn = Int32Array.from({ length: DRAWN }, () => Math.floor(Math.random() * count));
  }

  static async start(count: number, candidates = CANDIDATES): Promise<MeshAgents> {
    return new MeshAgents(await createNode({ limits: { threads: { waiting: MOST_WAITING } } }), count, candidates);
  }

  /** Opens so many requests that stay without an answer, each of another agent. */
  wait(count: number): void {
    this.#node.agent({ id: 'silent' }).onRequest(() => new Promise(() => {}));
    for (let i = 0; i < count; i++) {
      const agent = this.#agents[i % this.#agents.length]!;
      // The node stops before they are answered.
      agent.request('silent', PAYLOAD, { timeoutMs: WAIT_MS }).catch(() => {});
    }
  }

  /** The number of an agent, drawn at random. */
  pick(): number {
    this.#next = (this.#next + 1) & (DRAWN - 1);
    return this.#drawn[this.#next]!;
  }

  answerLater(): void {
    for (const agent of this.#agents) agent.onRequest(async () => null);
  }

  runner(work: MeshWork): (count: number) => Promise<void> {
    const step = this.#step(work);
    return async (count) => {
      const before = this.#received;
      for (let i = 0; i < count; i++) await step();
      if (work.startsWith('send') && this.#received - before !== count) throw new Error('a message is missing');
    };
  }

  stop(): Promise<void> {
    return this.#node.stop();
  }

  #step(work: MeshWork): () => Promise<unknown> {
    const agents = this.#agents;
    const groups = Math.ceil(agents.length / this.#candidates);
    const to = Array.from({ length: groups }, (_, i) => ({ capability: `capability-${i}` }));
    const one = () => agents[this.pick()]!;
    const other = (than: Agent) => {
      const picked = one();
      return picked === than ? agents[than === agents[0] ? 1 : 0]! : picked;
    };
    switch (work) {
      case 'send-pair':
        return () => agents[0]!.send('agent-1', PAYLOAD);
      case 'request-pair':
        return () => agents[0]!.request('agent-1', PAYLOAD);
      case 'send-random':
        return () => {
          const from = one();
          return from.send(other(from).id, PAYLOAD);
        };
      case 'request-random':
        return () => {
          const from = one();
          return from.request(other(from).id, PAYLOAD);
        };
      case 'send-capability':
        return () => one().send(to[this.pick() % groups]!, PAYLOAD);
      case 'request-capability':
        return () => one().request(to[this.pick() % groups]!, PAYLOAD);
    }
  }
}
