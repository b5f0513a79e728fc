import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { decodeInvite } from '../../src/network/membership/invite.js';
import type { MailRow } from '../../src/node/control/rows.js';
import { inCluster, type ProcessNode, until, untilConnected } from './cluster.js';

vi.setConfig({ testTimeout: 120_000 });

/** Opens files until no more can be opened, and closes them again. */
const HOARDER = `
const { closeSync, openSync } = require('node:fs');
const files = [];
exports.setup = (agent) => agent.onRequest(({ payload }) => {
  if (payload === 'fill') for (;;) {
    try { files.push(openSync('/dev/null')); } catch (error) { return error.code; }
  }
  if (payload === 'release') for (const file of files.splice(0)) closeSync(file);
  return files.length;
});
`;

const LIMIT = 256;

/** Resolves with the event; unlike `once` of node:events, an error before it rejects nothing. */
function occurs(socket: Socket, event: 'connect' | 'close'): Promise<void> {
  return new Promise((resolve) => socket.once(event, () => resolve()));
}

/** Connections that say nothing. */
async function idle(url: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url);
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname).on('error', () => {}));
  await Promise.all(sockets.map((socket) => Promise.race([occurs(socket, 'connect'), occurs(socket, 'close')])));
  return sockets;
}

/** Is a request answered on a connection of its own? */
async function answers({ ready }: ProcessNode): Promise<boolean> {
  const { hostname, port, host } = new URL(ready.http);
  const socket = connect(Number(port), hostname).on('error', () => {});
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  socket.write(`GET /health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  await occurs(socket, 'close');
  return answer.startsWith('HTTP/1.1 200');
}

const reports = async (node: ProcessNode) => JSON.stringify((await node.doctor()).findings);

describe('a node whose descriptors are used up', () => {
  it(
    'serves its agents, links and owner, reports it, and accepts again once some are free [T-G4]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const module = join(cluster.folder, 'hoarder.cjs');
      writeFileSync(module, HOARDER);
      const agents = { ann: { tier: 0 }, hoarder: { tier: 0, module } } as const;
      const [a, b] = await Promise.all([
        cluster.start('a', { args, config: { roster: false, agents }, descriptors: LIMIT }),
        cluster.start('b', { args, config: { roster: false, agents: { bob: { tier: 0 } } } }),
      ]);
      await a.admit(b);
      await untilConnected([a, b]);
      const hoarder = `hoarder@${a.key}`;
      await until(async () => (await b.agents()).some(({ node }) => node === a.key), 'b knows the hoarder');
      expect(await b.request('bob', hoarder, 'fill')).toBe('EMFILE');

      expect(await answers(a)).toBe(false);
      expect(await a.request('ann', 'hoarder', 'count')).toBeGreaterThan(100);
      expect(await b.request('bob', hoarder, 'count')).toBeGreaterThan(100);
      await a.call('send', { as: 'ann', to: `bob@${b.key}`, payload: 'kept', durable: true });
      await until(async () => (await a.call<MailRow[]>('outbox')).length === 0, 'durable mail has arrived');
      expect(await reports(a)).toMatch(/of 256 file descriptors are in use/);
      await b.request('bob', hoarder, 'release');
      expect(await answers(a)).toBe(true);
      expect(await reports(a)).not.toMatch(/file descriptors/);

      const { addresses } = decodeInvite((await a.call<{ code: string }>('invite')).code);
      const held = [...(await idle(a.ready.http, 2 * LIMIT)), ...(await idle(addresses[0]!, 2 * LIMIT))];
      // Each command is a connection to the control socket, and a start of a program needs descriptors too.
      expect(await a.run('agents')).toMatchObject({ code: 0, stderr: '' });
      expect(await reports(a)).toMatch(/HTTP connections were refused since the start: 128 may be open/);
      expect(a.log).toContain('connections refused');
      expect(await b.stateOf(a)).toBe('connected');
      expect(await b.request('bob', hoarder, 'count')).toBe(0);
      for (const socket of held) socket.destroy();
      await until(() => answers(a), 'HTTP is served again');
    }),
  );
});
