import { join } from 'node:path';
import type { Config } from '../../src/node/config/schema.js';
import { type Cluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';

/** A node that is asked over HTTP, and the one where the agents live. */
export interface Endpoint {
  readonly front: ProcessNode;
  readonly home: ProcessNode;
}

type Agents = NonNullable<Config['agents']>;

/** Offers the tools, resources and prompts that the suite expects. */
const FIXTURE: Agents = { fixture: { module: join(ROOT, 'test', 'conformance', 'agents', 'fixture.ts') } };

/** One node with the agents on it; callers need no token, and tools go by their bare names. */
export async function startAlone(cluster: Cluster, agents = FIXTURE): Promise<Endpoint> {
  const config: Config = { roster: false, agents, http: { names: 'bare' } };
  const node = await cluster.start('alone', { args: ['--no-dht', '--port', '0', '--open'], config });
  return { front: node, home: node };
}

/** Two such nodes: one is asked, and the agents live on the other, so that every call crosses a link. */
export async function startAcross(cluster: Cluster, agents = FIXTURE, limits?: Config['limits']): Promise<Endpoint> {
  const args = [...(await cluster.argsFor('websocket')), '--port', '0'];
  const asked: Config = { roster: false, http: { names: 'bare' }, ...(limits && { limits }) };
  const [front, home] = await Promise.all([
    cluster.start('front', { args: [...args, '--open'], config: asked }),
    cluster.start('home', { args, config: { roster: false, agents } }),
  ]);
  await front.admit(home);
  await untilConnected([front, home]);
  await until(async () => (await countTools(front)) === (await countTools(home)), 'the front has every tool');
  return { front, home };
}

async function countTools(node: ProcessNode): Promise<number> {
  return (await node.call<unknown[]>('tools')).length;
}
