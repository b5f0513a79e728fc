import type { LeaseLine } from '../node/control/rows.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

export const command: Command = {
  summary: 'which files agents have reserved; take a lease back',
  usage: 'leases [release ID] [--json]',
  words: [0, 2],
  examples: ['ecliptic leases', 'ecliptic leases release 4KQ2ZT   # its holder is told; the end of the id is enough'],
  async run({ connect, words, output }) {
    const [verb, id] = words;
    if (verb !== undefined && (verb !== 'release' || id === undefined)) throw misuse(command, words);
    const client = await connect();
    if (id === undefined) {
      const rows = await client.call<LeaseLine[]>('leases');
      output.value(rows, () => (rows.length === 0 ? 'No leases.' : rows.map(describe).join('\n')));
      return;
    }
    const released = await client.call<LeaseLine>('leases.release', { id });
    output.value(released, () => `${released.name} no longer holds ${released.glob}, and is told.`);
  },
};

function describe({ id, name, glob, repositoryName, expiresAt, label, alive, why }: LeaseLine): string {
  const gone = alive ? '' : ', holder gone';
  const reason = why === '' ? '' : `: ${why.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')}`;
  const until = new Date(expiresAt).toISOString().slice(0, 19);
  return `${id}  ${name} holds ${glob} in ${repositoryName} until ${until}Z (${label}${gone})${reason}`;
}
