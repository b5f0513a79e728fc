import { createNode } from 'ecliptic';

/** The only argument of a process with the nodes that are talked to, one for each invitation. */
export interface TalkRole {
  readonly codes: readonly string[];
}

const { codes }: TalkRole = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
for (const [index, code] of codes.entries()) {
  const node = await createNode({ network: { dht: false } });
  node
    .agent({ id: `agent-${index}` })
    .onNotification(() => {})
    .onRequest(() => null);
  await node.network!.join(code);
}
process.send!({});
