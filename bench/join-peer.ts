import { createNode } from 'ecliptic';

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
}

const { bootstrap, agents, cards }: JoinRole = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
const node = await createNode({ network: { bootstrap: [bootstrap] } });
for (let i = 0; i < agents; i++) node.agent({ id: `agent-${i}` });
process.on('message', (code: string) => void join(code));
process.send!({});

async function join(code: string): Promise<void> {
  const before = process.cpuUsage();
  const complete = new Promise<void>((resolve) => {
    node.registry.onCard(() => {
      if (node.registry.size === cards) resolve();
    });
  });
  await node.network!.join(code);
  await complete;
  const { user, system } = process.cpuUsage(before);
  process.send!({ cpuMs: (user + system) / 1000 } satisfies Joined);
}
