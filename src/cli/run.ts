import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ControlClient } from '../node/control/client.js';
import { planJsonSchema } from '../plans/plan-schema.js';
import type { RunNews, RunView } from '../plans/run-news.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Command, Invocation } from './command.js';
import { misuse } from './misuse.js';
import { type Output, printable } from './output.js';
import { RunBoard } from './run-board.js';
import { runText, summaryText } from './run-text.js';

/** First words that name no plan's file; such a file is written ./show. */
const VERBS: ReadonlySet<string> = new Set(['show', 'stop']);

export const command: Command = {
  summary: 'work through a plan: hand out its tasks, judge what comes back, try again, escalate',
  usage: 'run PLAN [--fresh] [--as AGENT] | run show ID [--follow] | run stop ID | run --schema',
  options: {
    fresh: { type: 'boolean' },
    as: { type: 'string' },
    follow: { type: 'boolean' },
    schema: { type: 'boolean' },
  },
  optionHelp: [
    ['PLAN', 'a YAML or JSON file; run again, it goes on where it was'],
    ['--fresh', 'begin anew, whatever of it is done'],
    ['--as AGENT', 'the agent of this node that hands out the tasks (default: the plan’s, else sun)'],
    ['show ID', 'what became of each task; with --follow, go on with what happens'],
    ['stop ID', 'take back what is under way; running the plan again goes on'],
    ['--schema', 'print the JSON Schema of a plan'],
  ],
  words: [0, 2],
  examples: ['ecliptic run plan.yaml', 'ecliptic run plan.yaml --json', 'ecliptic run show 01JD… --follow'],
  async run(invocation) {
    const { words, values, output } = invocation;
    const [first, id] = words;
    if (first === undefined && values.schema) output.line(JSON.stringify(planJsonSchema(), null, 2));
    else if (first === 'show' && id !== undefined) await show(invocation, id);
    else if (first === 'stop' && id !== undefined) await stop(invocation, id);
    else if (first !== undefined && id === undefined && !VERBS.has(first)) await begin(invocation, first);
    else throw misuse(command, words);
  },
};

async function begin({ connect, values, output }: Invocation, name: string): Promise<void> {
  const file = resolve(name);
  const { fresh, as } = values;
  const text = readPlanFile(file);
  const client = await connect();
  const { id } = await client.call<RunView>('run.start', { text, file, fresh, as });
  await follow(client, id, output);
}

async function show({ connect, values, output }: Invocation, id: string): Promise<void> {
  const client = await connect();
  if (values.follow) return follow(client, id, output);
  const view = await client.call<RunView>('run', { id });
  output.value(view, () => runText(view));
}

async function stop({ connect, output }: Invocation, id: string): Promise<void> {
  const view = await (await connect()).call<RunView>('run.stop', { id });
  output.value(view, () => `${view.name} is ${view.status}. Run its plan again to go on.`);
}

/** Shows what happens to a run until it ends, and fails unless all of it was done. */
async function follow(client: ControlClient, id: string, output: Output): Promise<void> {
  const board = new RunBoard(output);
  let ended: Extract<RunNews, { event: 'ended' }> | undefined;
  process.once('SIGINT', () => client.close());
  const following = client.call('run.follow', { id }, (event) => {
    const news = event as RunNews;
    if (news.event === 'ended') ended = news;
    board.take(news);
  });
  await following
    .catch((error: EclipticError) => {
      throw leftAlone(error, id);
    })
    .finally(() => board.close());
  if (!ended) throw leftAlone(new EclipticError('NO_NODE', 'the node stopped'), id);
  if (!output.json) output.line(printable(summaryText(ended, board.tasks)));
  if (ended.status === 'done') return;
  throw new EclipticError('RUN_INCOMPLETE', `run ${id} is ${ended.status}; run the plan again to go on`, {
    run: id,
    status: ended.status,
  });
}

/** Nobody follows any more; the run is the node's. */
function leftAlone(error: EclipticError, id: string): EclipticError {
  const { code, details } = error;
  if (code === 'CANCELLED') {
    const how = `follow it with: ecliptic run show ${id} --follow — stop it with: ecliptic run stop ${id}`;
    return new EclipticError(code, `the run goes on in the node; ${how}`, { ...details, run: id });
  }
  if (code !== 'NO_NODE') return error;
  return new EclipticError(code, 'the node stopped; the run goes on when it is started again', { ...details, run: id });
}

function readPlanFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new EclipticError(
      'INVALID_PLAN',
      `cannot read ${file}: ${describeError(error)}`,
      { file, faults: [] },
      error,
    );
  }
}
