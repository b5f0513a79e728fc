import type { ProposalEvent } from '../node/control/rows.js';
import type { Command } from './command.js';
import { oneLine, usage } from './output.js';
import { duration, listed, readPayload } from './payload.js';

export const command: Command = {
  summary: 'propose work to an agent, and follow it to its result',
  usage: 'propose AGENT|--capability C "DESCRIPTION" [--deadline 30s] [--input JSON] [--durable]',
  options: {
    as: { type: 'string' },
    capability: { type: 'string' },
    all: { type: 'boolean' },
    deadline: { type: 'string' },
    input: { type: 'string' },
    complexity: { type: 'string' },
    justification: { type: 'string' },
    durable: { type: 'boolean' },
  },
  optionHelp: [
    ['AGENT', 'whom to ask: an id, or id@node'],
    ['--capability C', 'instead of AGENT: whoever has it; several are separated by commas'],
    ['--all', 'with --capability: ask all of them, and take the best bid'],
    ['--as AGENT', 'the proposer: an agent of this node (default: you, the operator)'],
    ['--deadline TIME', 'how long an answer may take (default: 30s)'],
    ['--input JSON', 'what the worker needs; - reads it from standard input'],
    ['--complexity C', 'simple, medium or complex (default: medium)'],
    ['--justification TEXT', 'why it goes over the recipient’s rank'],
    ['--durable', 'keep it on disk on both sides, across restarts'],
  ],
  words: [1, 2],
  examples: [
    'ecliptic propose mars "Build the login page" --deadline 1m',
    `ecliptic propose --capability code.review "Review this" --input '{"file":"auth.ts"}'`,
    'ecliptic propose --capability code.review --all "Review this" --json',
  ],
  async run({ connect, values, words, output }) {
    const capabilities = listed(values, 'capability');
    const [to, description] = capabilities && words.length === 1 ? [undefined, words[0]] : words;
    if (description === undefined) throw usage('say whom to ask (AGENT, or --capability C), then what for');
    if (values.all && !capabilities)
      throw usage('--all asks everyone who has a capability: say which with --capability');
    const deadlineMs = duration(values, 'deadline');
    const input = typeof values.input === 'string' ? { input: await readPayload(values.input) } : {};
    const { as, all, complexity, justification, durable } = values;
    const client = await connect();
    const params = { to, description, capabilities, deadlineMs, as, all, complexity, justification, durable, ...input };
    const result = await client.call('propose', params, (event) => {
      if (output.json) output.line(JSON.stringify(event));
      else process.stderr.write(`${oneLine(said(event as ProposalEvent))}\n`);
    });
    output.value(output.json ? { event: 'result', result } : result, () =>
      typeof result === 'string' ? result : JSON.stringify(result, null, 2),
    );
  },
};

function said(event: ProposalEvent): string {
  if (event.event === 'progress')
    return `… ${typeof event.value === 'string' ? event.value : JSON.stringify(event.value)}`;
  const { status, proposalId, rejectionReason, alternativeSuggestion } = event.proposal;
  if (status === 'pending') return `pending: proposal ${proposalId} to ${event.to ?? 'all who can do it'}`;
  if (status === 'accepted') return `accepted by ${event.to}`;
  const instead = alternativeSuggestion === undefined ? '' : `; it suggests ${alternativeSuggestion}`;
  return rejectionReason === undefined ? status : `${status}: ${rejectionReason}${instead}`;
}
