import { LEAST_NODES, PrivateDht } from '../network/discovery/private-dht.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command } from './command.js';
import { usage } from './output.js';
import { numeric } from './payload.js';

export const command: Command = {
  summary: 'run a private DHT, through which nodes find each other',
  usage: 'dht [--nodes N] [--host ADDRESS] [--port N]',
  options: { nodes: { type: 'string' }, host: { type: 'string' }, port: { type: 'string' } },
  optionHelp: [
    ['--nodes N', `DHT nodes in this process, at least ${LEAST_NODES} (default: ${LEAST_NODES})`],
    ['--host ADDRESS', 'the address to run on (default: 127.0.0.1)'],
    ['--port N', 'UDP port of the first node (default: a free one)'],
  ],
  examples: ['ecliptic dht --port 49737', 'ecliptic up --bootstrap 127.0.0.1:49737'],
  async run({ values, output }) {
    const count = numeric(values, 'nodes') ?? LEAST_NODES;
    const port = numeric(values, 'port') ?? 0;
    if (!Number.isInteger(count) || count < LEAST_NODES || count > 64) {
      throw usage(`--nodes must be from ${LEAST_NODES} to 64: with fewer, peers meet only sometimes`);
    }
    if (!Number.isInteger(port) || port < 0 || port > 65_535) throw usage('--port must be from 0 to 65535');
    const host = typeof values.host === 'string' ? values.host : '127.0.0.1';
    const dht = await PrivateDht.start(count, host, port);
    const [bootstrap] = dht.bootstrap;
    output.value({ bootstrap, nodes: dht.bootstrap, pid: process.pid }, () =>
      [
        `A private DHT of ${count} nodes runs on ${dht.bootstrap.join(', ')}`,
        `  ecliptic up --bootstrap ${bootstrap}`,
        '',
        'Ctrl-C stops it.',
      ].join('\n'),
    );
    const hold = systemRuntime().hold();
    await new Promise<void>((resolve) => {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
    });
    hold.cancel();
    await dht.stop();
  },
};
