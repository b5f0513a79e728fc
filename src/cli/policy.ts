import { EclipticError } from '../runtime/errors.js';
import { required, text, verb } from './command.js';

const check = verb({
  summary: 'ask whether one agent may reach another, and why not',
  options: {
    from: required(text('AGENT', 'the sender')),
    to: required(text('AGENT', 'the recipient')),
    type: text('T', 'the message type (default: request)'),
    justification: text('TEXT', 'the escalation justification of the message'),
  },
  examples: ['--from mercury --to mars', '--from mars --to sun --type task-proposal'],
  async run({ call, values: { from, to, type, justification }, output }) {
    // The node checks the type, and names those that exist.
    const decision = await call('policy', { from, to, type: type as 'request' | undefined, justification });
    if (output.json) output.line(JSON.stringify(decision));
    if (!decision.allowed) throw new EclipticError(decision.code, decision.reason, { from, to });
    if (!output.json) output.line(`${from} may send ${to} a ${type ?? 'request'}`);
  },
});

export const verbs = { check };
