import { createNode, type EclipticError } from 'ecliptic';

/** The only argument of a node process in a join benchmark. */
export interface JoinRole {
  readonly bootstrap: string;
  readonly agents: number;
  /** Cards in the whole mesh. */
  readonly cards: number;
}

/** Sent once this node's registry holds every card. */
export interface Joined {
  /** CPU time since the code arrived, in milliseconds. */
  readonly cpuMs: number;
  /** Joins that got no answer in time. */
  readonly retries: number;
}

const { bootstrap, agents, cards }: JoinRole = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
const node = await createNode({ network: { bootstrap: [bootstrap] } });
for (let i = 0; i < agents; i++) node.agent({ id: `agent-${i}` });
let retries = 0;
process.on('message', (code: string) => void join(code));
process.send!({});

/** Tries again, as a person would, where the other node is too busy to answer in time. */
async function joined(code: string): Promise<void> {
  for (;;) {
    try {
      await node.network!.join(code);
      return;
    } catch (error) {
      if ((error as EclipticError).code !== 'PEER_UNREACHABLE') throw error;
      retries++;
    }
  }
}

async function join(code: string): Promise<void> {
  const before = process.cpuUsage();
  const complete = new Promise<void>((resolve) => {
    node.registry.onCard(() => {
      if (node.registry.size === cards) resolve();
    });
  });
  await joined(code);
  await complete;
  const { user, system } = process.cpuUsage(before);
  process.send!({ cpuMs: (user + system) / 1000, retries } satisfies Joined);
}
