import type { Cluster, ProcessNode } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';
import { ScriptedModel } from '../scripted-model.js';

/** A node whose agent `mars` is a model that asks before it writes a file. */
export async function nodeWithModel(cluster: Cluster): Promise<ProcessNode> {
  const model = await ScriptedModel.start(({ messages }) => {
    const last = messages.at(-1)!;
    if (last.role === 'tool') return `done: ${last.content}`;
    return { text: 'I write it.', calls: [['write_file', { path: 'login.js', content: 'export const login = 1;\n' }]] };
  });
  cluster.onEnd(() => model.stop());
  return cluster.start('desk', {
    args: ['--no-dht', '--port', String(await stablePort())],
    config: {
      agents: { mars: { model: model.config } },
      policy: [{ action: 'fs.write', decision: 'ask' }],
    },
  });
}

/** A link that opens the page once. */
export async function linkOf(node: ProcessNode): Promise<string> {
  return (await node.json<{ url: string }>('open')).url;
}
