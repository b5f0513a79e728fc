import type { AddressInfo } from 'node:net';
import { createNode } from 'ecliptic';
import { WebSocketServer } from 'ws';
import * as Y from 'yjs';
import { SyncedDoc } from './yjs-over-ws.js';

/** The role of the other process: a node of the mesh, or a server of Yjs documents. */
export type StateRole = { readonly role: 'state-ours'; readonly code: string } | { readonly role: 'state-yjs' };

/** To open a document, which only a node of the mesh is asked to, or to say its CPU time. */
export type StateQuestion = { readonly open: string } | 'cpu';

export interface StateReady {
  readonly port: number;
}

/** Both answer in the document itself, once they have the last change. */
const role = JSON.parse(process.argv[2]!) as StateRole;
const ready = role.role === 'state-ours' ? await ours(role.code) : await theirs();
process.on('disconnect', () => process.exit(0));
process.on('message', (question: StateQuestion) => {
  if (question === 'cpu') process.send!(process.cpuUsage());
});
process.send!(ready);

async function ours(code: string): Promise<StateReady> {
  const node = await createNode({ network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
  const venus = node.agent({ id: 'venus' });
  await node.network!.join(code);
  process.on('message', (question: StateQuestion) => {
    if (question === 'cpu') return;
    const document = venus.state(question.open);
    const stop = document.onChange(() => {
      if (document.map('plan').get('last') !== true) return;
      stop();
      document.map('answer').set('done', true);
    });
    process.send!('open');
  });
  return { port: 0 };
}

async function theirs(): Promise<StateReady> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
  server.on('connection', (socket) => {
    const doc = new Y.Doc();
    new SyncedDoc(doc, socket);
    const plan = doc.getMap('plan');
    plan.observe(() => {
      if (plan.get('last') === true) doc.getMap('answer').set('done', true);
    });
  });
  await new Promise<void>((resolve) => server.once('listening', resolve));
  return { port: (server.address() as AddressInfo).port };
}
