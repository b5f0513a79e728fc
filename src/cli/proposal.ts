import type { ProposalEvent } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import { branchIn, describeBranch } from '../work/branch-report.js';
import type { TaskProposal } from '../work/proposals/proposal.js';
import { describeUsage, usageIn } from '../work/usage.js';
import { choice, duration, flag, list as listed, text, verb } from './command.js';
import { readPayload } from './input.js';
import { oneLine, usage } from './output.js';

const send = verb({
  summary: 'propose work to an agent, and follow it to its result',
  args: ['AGENT', 'DESCRIPTION?'],
  argHelp: [['AGENT', 'an id, or id@node; left out with --capability']],
  options: {
    capability: listed('C', 'instead of AGENT: an agent that has these, separated by commas'),
    all: flag('with --capability: ask all such agents, and take the best bid'),
    as: text('AGENT', 'the proposer: an agent of this node (default: you, the operator)'),
    deadline: duration('how long an answer may take (default: 30s)'),
    input: text('JSON', 'the input of the work; - reads it from standard input'),
    complexity: choice(['simple', 'medium', 'complex'], 'default: medium'),
    justification: text('TEXT', 'why it goes to an agent of a higher rank'),
    durable: flag('keep it on disk on both sides, across restarts'),
  },
  examples: [
    'mars "Build the login page" --deadline 1m',
    `--capability code.review "Review this" --input '{"file":"auth.ts"}'`,
    '--capability code.review --all "Review this" --json',
  ],
  async run({ call, values, words, output }) {
    const { capability: capabilities, deadline: deadlineMs, as, all, complexity, justification, durable } = values;
    const [to, description] = capabilities && words.length === 1 ? [undefined, words[0]] : words;
    if (description === undefined)
      throw usage('DESCRIPTION is missing: name an AGENT or a --capability, then the work');
    if (all && !capabilities) throw usage('--all needs --capability: it asks every agent that has it');
    const input = values.input === undefined ? {} : { input: await readPayload(values.input) };
    const terms = { deadlineMs, as, all, complexity, justification, durable };
    const result = await call('propose', { to, description, capabilities, ...terms, ...input }, (event) => {
      if (output.json) output.line(JSON.stringify(event));
      else process.stderr.write(`${oneLine(eventText(event))}\n`);
    });
    output.value({ event: 'result', result }, () =>
      typeof result === 'string' ? result : JSON.stringify(result, null, 2),
    );
  },
});

function eventText(event: ProposalEvent): string {
  if (event.event === 'progress') {
    const used = usageIn(event.value);
    if (used) return `… used ${describeUsage(used)}`;
    const branch = branchIn(event.value);
    if (branch) return `${describeBranch(branch)} (ecliptic workspace show ${branch.id})`;
    return `… ${typeof event.value === 'string' ? event.value : JSON.stringify(event.value)}`;
  }
  const { status, proposalId, rejectionReason, alternativeSuggestion } = event.proposal;
  if (status === 'pending')
    return `pending: proposal ${proposalId} to ${event.to ?? 'every agent that has the capability'}`;
  if (status === 'accepted') return `accepted by ${event.to}`;
  const instead = alternativeSuggestion === undefined ? '' : `; it suggests ${alternativeSuggestion}`;
  return rejectionReason === undefined ? status : `${status}: ${rejectionReason}${instead}`;
}

const list = verb({
  summary: 'list the proposals that agents of this node made and received',
  options: {
    agent: text('AGENT', 'only proposals that it made or received'),
    pending: flag('only proposals without an answer'),
  },
  examples: ['', '--pending --json'],
  async run({ call, values: { agent, pending }, output }) {
    const rows = await call('proposals', { agent, pending });
    output.rows(rows, 'no proposals', ({ agent: own, side, peer, work, proposal }) => ({
      ID: proposal.proposalId,
      FROM: side === 'sent' ? own : peer,
      TO: side === 'sent' ? peer : own,
      STATUS: statusOf(proposal, work === 'canceled'),
      WORK: work === 'none' ? '-' : work,
      TASK: cutText(proposal.taskDescription, 60),
    }));
  },
});

/** Of one that was taken back after it was accepted, the column of the work says so. */
function statusOf({ status, rejectionReason }: TaskProposal, isCanceled: boolean): string {
  const word = isCanceled && status === 'rejected' ? 'canceled' : status;
  return rejectionReason === undefined ? word : `${word}: ${rejectionReason}`;
}

export const verbs = { list, send };
