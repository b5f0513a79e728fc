import type { ProposalListRow } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'list the proposals that agents of this node made and got',
  usage: 'proposals [--agent AGENT] [--pending]',
  options: { agent: { type: 'string' }, pending: { type: 'boolean' } },
  optionHelp: [
    ['--agent AGENT', 'only those that it made or got'],
    ['--pending', 'only those that wait for an answer'],
  ],
  examples: ['ecliptic proposals', 'ecliptic proposals --pending --json'],
  async run({ connect, values, output }) {
    const { agent, pending } = values;
    const rows = await (await connect()).call<ProposalListRow[]>('proposals', { agent, pending });
    output.table(
      rows,
      ['ID', 'FROM', 'TO', 'STATUS', 'WORK', 'TASK'],
      rows.map(({ agent: own, side, peer, work, proposal }) => [
        proposal.proposalId,
        side === 'sent' ? own : peer,
        side === 'sent' ? peer : own,
        proposal.rejectionReason === undefined ? proposal.status : `${proposal.status}: ${proposal.rejectionReason}`,
        work === 'none' ? '-' : work,
        cutText(proposal.taskDescription, 60),
      ]),
      'no proposals',
    );
  },
};
