import { readFileSync } from 'node:fs';
import type { ControlClient } from '../node/control/client.js';
import type { SwarmDetail, SwarmEvent, SwarmRow } from '../node/control/rows.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Command, Invocation } from './command.js';
import { misuse } from './misuse.js';
import { type Output, usage } from './output.js';
import { headline, SwarmBoardView, subTaskText, textOf } from './swarm-board.js';

/** First words that are no task of a swarm, though the word after them be missing. */
const VERBS: ReadonlySet<string> = new Set(['show', 'join', 'cancel']);

export const command: Command = {
  summary: 'form a swarm of agents that do a task between them; show, join or cancel one',
  usage:
    'swarm TASK --capability C... [--plan FILE] [--as AGENT] | swarm show ID [--follow] | swarm join ID --as AGENT | swarm cancel ID',
  options: {
    capability: { type: 'string', multiple: true },
    plan: { type: 'string' },
    planner: { type: 'string' },
    aggregator: { type: 'string' },
    as: { type: 'string' },
    via: { type: 'string' },
    follow: { type: 'boolean' },
  },
  optionHelp: [
    ['--capability C', 'agents that have it are asked to take part; may be given several times'],
    ['--plan FILE', 'JSON: { "subTasks": [{ "id", "description", "requiredCapabilities", "dependsOn", "input" }] }'],
    ['--planner AGENT', 'an agent that is asked for the plan'],
    ['--aggregator AGENT', 'an agent that makes one result of all'],
    ['--as AGENT', 'the agent of this node that forms it or joins it (default: sun)'],
    ['--via MEMBER', 'of a swarm that no agent of this node is in: one of its members, as id@node'],
    ['--follow', 'go on with what happens to it, until it ends'],
  ],
  words: [1, 2],
  examples: [
    'ecliptic swarm "Ship the release" --capability testing --capability documentation',
    'ecliptic swarm "Ship the release" --plan plan.json --json',
    'ecliptic swarm show 01JD… --follow',
    'ecliptic swarm join 01JD… --as mars',
  ],
  async run(invocation) {
    const [first, id] = invocation.words;
    if (first === 'show' && id !== undefined) await show(invocation, id);
    else if (first === 'join' && id !== undefined) await join(invocation, id);
    else if (first === 'cancel' && id !== undefined) await cancel(invocation, id);
    else if (first !== undefined && id === undefined && !VERBS.has(first)) await form(invocation, first);
    else throw misuse(command, invocation.words);
  },
};

async function form({ connect, values, output }: Invocation, task: string): Promise<void> {
  const { plan: file, planner, aggregator, as } = values;
  // An option that may be given several times is a list.
  const capabilities = (values.capability as unknown as string[] | undefined) ?? [];
  if (capabilities.length === 0 && file === undefined && planner === undefined)
    throw usage('say what it takes with --capability, or give a --plan or a --planner');
  const plan = file === undefined ? undefined : readPlanFile(String(file));
  const more = capabilities.length > 0 ? { capabilities } : {};
  const client = await connect();
  const { id } = await client.call<SwarmRow>('swarm.start', { task, plan, planner, aggregator, as, ...more });
  await follow(client, id, output);
}

async function show({ connect, values, output }: Invocation, id: string): Promise<void> {
  const client = await connect();
  if (values.follow) return follow(client, id, output);
  const detail = await client.call<SwarmDetail>('swarm', { id });
  output.value(detail, () => detailText(detail));
}

async function join({ connect, values, output }: Invocation, id: string): Promise<void> {
  const { as, via } = values;
  if (typeof as !== 'string') throw usage('say which agent joins it with --as AGENT');
  const row = await (await connect()).call<SwarmRow | null>('swarm.join', { id, as, via });
  output.value(row, () => `${as} takes part in ${row ? headline(row) : id}`);
}

async function cancel({ connect, output }: Invocation, id: string): Promise<void> {
  await (await connect()).call('swarm.cancel', { id });
  output.value({ id, cancelled: true }, () => `${id} ends as failed; what was done stays on its board`);
}

/** Shows what happens to a swarm until it ends, prints the results, and fails unless all are there. */
async function follow(client: ControlClient, id: string, output: Output): Promise<void> {
  const board = new SwarmBoardView(output);
  process.once('SIGINT', () => client.close());
  const following = client.call('swarm.follow', { id }, (event) => board.take(event as SwarmEvent));
  await following
    .catch((error: EclipticError) => {
      if (error.code !== 'CANCELLED') throw error;
      const how = `follow it with: ecliptic swarm show ${id} --follow`;
      throw new EclipticError('CANCELLED', `the swarm goes on; ${how}`, { swarm: id });
    })
    .finally(() => board.close());
  const { ending, results } = board;
  if (!ending) throw new EclipticError('NO_NODE', 'the node stopped; the swarm goes on without it, and with it again');
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

function readPlanFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new EclipticError('INVALID_PLAN', `cannot read ${file}: ${describeError(error)}`, { file }, error);
  }
}
