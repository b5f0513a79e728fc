import type { PeerRow } from '../peers/network.js';
import type { Command } from './command.js';
import { usage } from './output.js';

export const command: Command = {
  summary: 'list the other nodes, or remove one from the mesh',
  usage: 'peers [remove KEY]',
  words: [0, 2],
  examples: ['ecliptic peers', 'ecliptic peers --json', 'ecliptic peers remove 3f9a'],
  async run({ connect, words, output }) {
    const [verb, node] = words;
    if (verb !== undefined && (verb !== 'remove' || node === undefined))
      throw usage(`usage: ecliptic ${command.usage}`);
    const client = await connect();
    if (node !== undefined) {
      await client.call('peers.remove', { node });
      output.value({ removed: node }, () => 'That node is no longer a member; the others are being told.');
      return;
    }
    const rows = await client.call<PeerRow[]>('peers');
    output.table(
      rows,
      ['NODE', 'NAME', 'STATE', 'LINK', 'AGENTS', 'TIERS'],
      rows.map((row) => [
        row.node.slice(0, 12),
        row.name || '-',
        row.reason === null ? row.state : `${row.state}: ${row.reason}`,
        row.link ?? '-',
        String(row.agents),
        row.tiers.map((tier) => `L${tier}`).join(' ') || '-',
      ]),
      'no other nodes; let one in with: ecliptic invite',
    );
  },
};
