import type { Decision } from '../mesh/policy.js';
import { EclipticError } from '../runtime/errors.js';
import type { Command } from './command.js';
import { required } from './payload.js';

export const command: Command = {
  summary: 'ask whether one agent may reach another, and why not',
  usage: 'policy --from AGENT --to AGENT [--type T]',
  options: {
    from: { type: 'string' },
    to: { type: 'string' },
    type: { type: 'string' },
    justification: { type: 'string' },
  },
  optionHelp: [
    ['--from AGENT', 'who would send'],
    ['--to AGENT', 'who would receive'],
    ['--type T', 'the message type (default: request)'],
    ['--justification TEXT', 'the escalation justification it would carry'],
  ],
  examples: ['ecliptic policy --from mercury --to mars', 'ecliptic policy --from mars --to sun --type task-proposal'],
  async run({ connect, values, output }) {
    const from = required(values, 'from');
    const to = required(values, 'to');
    const { type, justification } = values;
    const client = await connect();
    const decision = await client.call<Decision>('policy', { from, to, type, justification });
    if (output.json) output.line(JSON.stringify(decision));
    if (!decision.allowed) throw new EclipticError(decision.code, decision.reason, { from, to });
    if (!output.json) output.line(`${from} may send ${to} a ${type ?? 'request'}`);
  },
};
