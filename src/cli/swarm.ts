import type { ControlClient } from '../node/control/client.js';
import type { SwarmDetail } from '../node/control/rows.js';
import { EclipticError } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import { flag, hidden, many, required, text, verb } from './command.js';
import { readTextFile } from './input.js';
import { type Output, usage } from './output.js';
import { headline, SwarmBoardView, subTaskText, textOf } from './swarm-board.js';

const start = verb({
  summary: 'form a swarm of agents that do a task together, and follow it',
  args: ['TASK'],
  options: {
    capability: many('C', 'agents that have it are asked to take part; may be repeated'),
    plan: text('FILE', 'JSON: { "subTasks": [{ "id", "description", "requiredCapabilities", "dependsOn", "input" }] }'),
    planner: text('AGENT', 'the agent that makes the plan'),
    aggregator: text('AGENT', 'the agent that combines the results'),
    as: text('AGENT', 'the agent of this node that forms the swarm (default: sun)'),
  },
  examples: [
    '"Ship the release" --capability testing --capability documentation',
    '"Ship the release" --plan plan.json --json',
  ],
  async run({ connect, values, words: [task], output }) {
    const { capability: capabilities, plan: file, planner, aggregator, as } = values;
    if (!capabilities && file === undefined && planner === undefined)
      throw usage('--capability is missing; or give a --plan or a --planner');
    const plan = file === undefined ? undefined : readTextFile(file, 'INVALID_PLAN');
    const client = await connect();
    const { id } = await client.call('swarm.start', { task, plan, planner, aggregator, as, capabilities });
    await follow(client, id, output);
  },
});

const show = verb({
  summary: 'show a swarm and its sub-tasks',
  args: ['ID'],
  options: { follow: flag('continue with each event, until the swarm ends'), capability: hidden(many('C', '')) },
  examples: ['01JD…', '01JD… --follow'],
  async run({ connect, values, words: [id], output }) {
    const client = await connect();
    if (values.follow) return follow(client, id, output);
    const detail = await client.call('swarm', { id });
    output.value(detail, () => detailText(detail));
  },
});

const list = verb({
  summary: 'list the swarms that agents of this node take part in, the latest first',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('swarms');
    output.rows(rows, 'no swarms', ({ id, status, confirmed, counts, participants, arbiter, epoch, task }) => ({
      ID: id,
      STATUS: confirmed ? status : `${status} (unconfirmed)`,
      DONE: `${counts.completed}/${counts.pending + counts.running + counts.completed + counts.failed}`,
      'AT WORK': participants.length,
      ARBITER: `${arbiter.split('@')[0]} (epoch ${epoch})`,
      TASK: cutText(task, 60),
    }));
  },
});

const join = verb({
  summary: 'let an agent of this node take part in a swarm',
  args: ['ID'],
  options: {
    as: required(text('AGENT', 'the agent of this node that joins')),
    via: text('MEMBER', 'a member, as id@node, of a swarm that no agent of this node is in'),
  },
  examples: ['01JD… --as mars'],
  async run({ call, values: { as, via }, words: [id], output }) {
    const row = await call('swarm.join', { id, as, via });
    output.value(row, () => `${as} takes part in ${row ? headline(row) : id}`);
  },
});

const cancel = verb({
  summary: 'end a swarm as failed',
  args: ['ID'],
  examples: ['01JD…'],
  async run({ call, words: [id], output }) {
    await call('swarm.cancel', { id });
    output.value({ id, cancelled: true }, () => `${id} ends as failed; finished sub-tasks keep their results`);
  },
});

/** Shows the events of a swarm until it ends, prints the results, and fails unless the swarm completed. */
async function follow(client: ControlClient, id: string, output: Output): Promise<void> {
  const board = new SwarmBoardView(output);
  process.once('SIGINT', () => client.close());
  const following = client.call('swarm.follow', { id }, (event) => board.take(event));
  await following
    .catch((error: EclipticError) => {
      if (error.code !== 'CANCELLED') throw error;
      const how = `follow it with: ecliptic swarm show ${id} --follow`;
      throw new EclipticError('CANCELLED', `the swarm continues; ${how}`, { swarm: id });
    })
    .finally(() => board.close());
  const { ending, results } = board;
  if (!ending) throw new EclipticError('NO_NODE', 'the node stopped; the swarm continues on the other nodes');
  const { event: _, ...rest } = ending;
  if ('aggregate' in ending) delete results.aggregate;
  output.value({ event: 'ended', swarm: id, ...rest, results }, () => resultsText(id, rest, results));
  if (ending.status === 'completed') return;
  throw new EclipticError('SWARM_FAILED', ending.reason ?? 'the swarm failed', { swarm: id });
}

function detailText(detail: SwarmDetail): string {
  const { task, reason, createdAt, subTasks, participants, standby } = detail;
  return [
    headline(detail),
    `task       ${task}`,
    `created    ${new Date(createdAt).toISOString()}`,
    `at work    ${participants.join(', ')}`,
    ...(standby.length > 0 ? [`stand by   ${standby.join(', ')}`] : []),
    ...(reason === null ? [] : [`reason     ${reason}`]),
    ...subTasks.map(
      (subTask) => `  ${subTaskText(subTask)}${'result' in subTask ? ` → ${textOf(subTask.result)}` : ''}`,
    ),
  ].join('\n');
}

function resultsText(
  id: string,
  ending: { status: string; aggregate?: unknown },
  results: Record<string, unknown>,
): string {
  if ('aggregate' in ending) return `${id} is ${ending.status}:\n${textOf(ending.aggregate)}`;
  const lines = Object.entries(results).map(([subTask, result]) => `${subTask}: ${textOf(result)}`);
  return [`${id} is ${ending.status}:`, ...lines].join('\n');
}

export const verbs = { start, show, list, join, cancel };
