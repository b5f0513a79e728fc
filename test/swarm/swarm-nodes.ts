import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';
import type { NatsServer } from '../nats-server.js';
import { type Cluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { stablePorts } from '../ports.js';

const WORKER = new URL('./agents/worker.ts', import.meta.url);

/**
 * That many nodes of one mesh, as processes: on the first is `sun`, on each other a worker with these capabilities. They
 * connect over WebSocket, or over NATS servers.
 */
export async function swarmNodes(
  cluster: Cluster,
  capabilities: readonly string[][],
  servers?: readonly NatsServer[],
): Promise<ProcessNode[]> {
  const module = compiled(cluster);
  const ports = await stablePorts(capabilities.length + 1);
  const nodes = await Promise.all(
    ports.map((port, at) => {
      const has = capabilities[at - 1];
      const agents = has
        ? { [`w${at}`]: { tier: 2 as const, module, capabilities: has } }
        : { sun: { tier: 0 as const } };
      return cluster.start(`n${at}`, {
        args: servers ? [] : ['--no-dht', '--listen', `127.0.0.1:${port}`],
        config: { roster: false, agents, ...(servers && { nats: { servers: servers.map(({ url }) => url) } }) },
        env: { ECLIPTIC_LOG: 'warn' },
      });
    }),
  );
  const [host, ...guests] = nodes;
  for (const guest of guests) await host!.admit(guest);
  await untilConnected(nodes);
  for (const node of nodes) {
    await until(async () => (await node.agents()).length === nodes.length, `${node.name} knows everyone`);
  }
  return nodes;
}

/** The worker as JavaScript: a node that reads TypeScript itself takes twice as long to start. */
function compiled(cluster: Cluster): string {
  const filename = fileURLToPath(WORKER);
  const source = createJiti(import.meta.url).transform({ source: readFileSync(filename, 'utf8'), filename, ts: true });
  const file = join(cluster.folder, 'worker.cjs');
  writeFileSync(file, source);
  return file;
}
