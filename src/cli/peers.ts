import type { PeerRow } from '../network/peers/network.js';
import type { Command } from './command.js';
import { confirm } from './confirm.js';
import { misuse } from './misuse.js';
import { oneLine } from './output.js';

export const command: Command = {
  summary: 'list the other nodes, or remove one from the mesh',
  usage: 'peers [remove KEY] [--yes]',
  options: { yes: { type: 'boolean' } },
  optionHelp: [
    ['remove KEY', 'take that node’s membership away; its key may be shortened, or be its name'],
    ['--yes', 'do not ask on a terminal'],
  ],
  words: [0, 2],
  examples: ['ecliptic peers', 'ecliptic peers --json', 'ecliptic peers remove 3f9a'],
  async run(invocation) {
    const { connect, words, output } = invocation;
    const [verb, node] = words;
    if (verb !== undefined && (verb !== 'remove' || node === undefined)) throw misuse(command, words);
    const client = await connect();
    if (node !== undefined) {
      const rows = await client.call<PeerRow[]>('peers');
      const meant = rows.filter((row) => row.node.startsWith(node) || row.name === node);
      const who = meant.length === 1 ? `${meant[0]!.name || 'a node'} (${meant[0]!.node.slice(0, 12)})` : node;
      await confirm(invocation, oneLine(`Remove ${who} from the mesh? Coming back takes a new invite.`));
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
