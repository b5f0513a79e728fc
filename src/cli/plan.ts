import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { ControlClient } from '../node/control/client.js';
import type { MadePlan, PlanAsked } from '../plans/plan-maker.js';
import type { Plan } from '../plans/plan-schema.js';
import { endOf, type RunNews } from '../plans/run-news.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import { flag, hidden, type Invocation, required, text, verb, whole } from './command.js';
import { readTextFile } from './input.js';
import { type Output, oneLine, printable, usage } from './output.js';
import { ReportFolder } from './report-folder.js';
import { RunBoard, runText, summaryText } from './run-board.js';
import { RunReporter } from './run-report.js';

const run = verb({
  summary: 'run a plan: hand out its tasks, check the results, retry and escalate',
  args: ['PLAN?'],
  argHelp: [['PLAN', 'a YAML or JSON file; a plan that was run before continues where it stopped']],
  options: {
    fresh: flag('start over, ignoring finished tasks'),
    as: text('AGENT', 'the agent of this node that hands out the tasks (default: the plan’s, else sun)'),
    out: text('DIR', 'write each result and a report (report.md, report.json) into this folder'),
    schema: hidden(flag('print the JSON Schema of a plan')),
  },
  examples: ['plan.yaml', 'plan.yaml --out results', 'plan.yaml --fresh --json'],
  async run({ connect, values: { fresh, as, out, schema: wantsSchema }, words: [name], output }) {
    if (wantsSchema) return printSchema({ output });
    if (name === undefined) throw usage('PLAN is missing; usage: ecliptic plan run PLAN');
    const file = resolve(name);
    const content = readTextFile(file, 'INVALID_PLAN');
    const client = await connect();
    let reporter: RunReporter | undefined;
    if (out !== undefined) {
      const { ids } = await client.call('run.check', { text: content, file, as });
      reporter = new RunReporter(new ReportFolder(resolve(out)));
      reporter.assertFree(ids);
    }
    const view = await client.call('run.start', { text: content, file, fresh, as });
    reporter?.take({ event: 'run', ...view });
    await follow(client, view.id, output, reporter);
  },
});

const make = verb({
  summary: 'have an agent write a plan for a goal; the plan is checked before it is written',
  args: ['GOAL'],
  argHelp: [['GOAL', 'what the plan is to achieve, in words']],
  options: {
    with: text('AGENT', 'the agent that makes the plan (default: sun, else another L0 agent with a worker)'),
    out: text('FILE', 'the file to write (default: plan.yaml)'),
    as: text('AGENT', 'the agent of this node that asks, and would hand out the tasks'),
    force: flag('overwrite the file'),
  },
  examples: ['"Add a login page"', '"Add a login page" --with jupiter --out login.yaml'],
  async run({ connect, values: { with: planner, out = 'plan.yaml', as, force }, words: [goal], output }) {
    const file = resolve(out);
    // Before an answer is paid for that has no place.
    if (!force && existsSync(file)) throw fileExists(file);
    const client = await connect();
    process.once('SIGINT', () => client.close());
    const made = await client.call('plan.make', { goal, with: planner, as }, (asked) => {
      if (!output.json) process.stderr.write(`${printable(askedText(asked))}\n`);
    });
    writePlan(file, planFileText(goal, made, out), force === true);
    const { plan, attempts } = made;
    output.value({ file, planner: made.planner, attempts, plan }, () =>
      [
        `${out}: ${plan.tasks.length} tasks, made by ${made.planner}`,
        ...plan.tasks.map((task) => `  ${plannedText(task)}`),
        `Read it, then run it with: ecliptic plan run ${out} --out results`,
      ].join('\n'),
    );
  },
});

function askedText({ planner, attempt, faults }: PlanAsked): string {
  if (attempt === 1) return `${planner} makes a plan …`;
  return [
    `${planner} corrects ${faults.length === 1 ? 'a fault' : `${faults.length} faults`} …`,
    ...faults.map((fault) => `  ${fault}`),
  ].join('\n');
}

function plannedText({ id, agent, capabilities = [], dependsOn = [], description }: Plan['tasks'][number]): string {
  const after = dependsOn.length === 0 ? '' : `, after ${dependsOn.join(', ')}`;
  return oneLine(`${id} (${agent ?? capabilities.join(' + ')}${after}): ${cutText(description, 100)}`);
}

function planFileText(goal: string, { planner, text: plan }: MadePlan, file: string): string {
  const header = [...goal.trim().split(/\r?\n/), `Made by ${planner}. Run it with: ecliptic plan run ${file}`];
  return `${header.map((line) => `# ${oneLine(line)}`).join('\n')}\n${plan}`;
}

function writePlan(file: string, content: string, force: boolean): void {
  try {
    writeFileSync(file, content, { flag: force ? 'w' : 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw fileExists(file);
    throw usage(`cannot write ${file}: ${describeError(error)}`);
  }
}

function fileExists(file: string): EclipticError {
  return usage(`${file} exists; overwrite it with --force, or write another file with --out FILE`);
}

const list = verb({
  summary: 'list the plans that were run, the latest first',
  options: { limit: whole('the latest N (default: 100)') },
  examples: ['', '--limit 5 --json'],
  async run({ call, values: { limit }, output }) {
    const rows = await call('runs', { limit });
    output.rows(rows, 'no plan was run yet', ({ id, name, status, agent, updatedAt }) => ({
      ID: id,
      PLAN: name,
      STATUS: status,
      AGENT: agent,
      UPDATED: new Date(updatedAt).toISOString(),
    }));
  },
});

const show = verb({
  summary: 'show a run and the state of each task',
  args: ['ID'],
  options: { follow: flag('continue with each event, until the run ends') },
  examples: ['01JD…', '01JD… --follow'],
  async run({ connect, values, words: [id], output }) {
    const client = await connect();
    if (values.follow) return follow(client, id, output);
    const view = await client.call('run', { id });
    output.value(view, () => runText(view));
  },
});

const report = verb({
  summary: 'write the results and a report of a run into a folder',
  args: ['ID'],
  options: { out: required(text('DIR', 'the folder for the results, report.md and report.json')) },
  examples: ['01JD… --out results'],
  async run({ connect, values: { out }, words: [id], output }) {
    const client = await connect();
    const view = await client.call('run', { id });
    const reporter = new RunReporter(new ReportFolder(resolve(out)));
    reporter.assertFree(view.tasks.map((task) => task.id));
    const folder = await reporter.complete(client, view.id);
    const { status, counts } = endOf(view);
    output.value({ run: view.id, status, counts, folder }, () => reportText(folder, view.status));
  },
});

const stop = verb({
  summary: 'withdraw the tasks in progress; running the plan again continues it',
  args: ['ID'],
  examples: ['01JD…'],
  async run({ call, words: [id], output }) {
    const view = await call('run.stop', { id });
    output.value(view, () => `${view.name} is ${view.status}. Run its plan again to continue.`);
  },
});

const check = verb({
  summary: 'check a plan against the agents of the mesh, without running it',
  args: ['PLAN'],
  options: { as: text('AGENT', 'the agent that would hand out the tasks') },
  examples: ['plan.yaml'],
  async run({ call, values: { as }, words: [name], output }) {
    const file = resolve(name);
    const { tasks } = await call('run.check', { text: readTextFile(file, 'INVALID_PLAN'), file, as });
    output.value({ ok: true, file, tasks }, () => `${file} is valid: ${tasks} tasks`);
  },
});

const schema = verb({
  summary: 'print the JSON Schema of a plan',
  run: printSchema,
});

async function printSchema({ output }: Pick<Invocation, 'output'>): Promise<void> {
  const { planJsonSchema } = await import('../plans/plan-schema.js');
  output.line(JSON.stringify(planJsonSchema(), null, 2));
}

/** Shows the events of a run until it ends, and fails unless every task is done. */
async function follow(client: ControlClient, id: string, output: Output, reporter?: RunReporter): Promise<void> {
  const board = new RunBoard(output);
  let ended: Extract<RunNews, { event: 'ended' }> | undefined;
  process.once('SIGINT', () => client.close());
  const following = client.call('run.follow', { id }, (news) => {
    if (news.event === 'ended') ended = news;
    // A result that is shown has been written.
    reporter?.take(news);
    board.take(news);
  });
  const lost = (error: EclipticError) => {
    const why = leftAlone(error, id);
    reporter?.interrupt(why.message);
    return why;
  };
  await following
    .catch((error: EclipticError) => {
      throw lost(error);
    })
    .finally(() => board.close());
  if (!ended) throw lost(new EclipticError('NO_NODE', 'the node stopped'));
  if (!output.json) output.line(printable(summaryText(ended, board.tasks)));
  if (reporter) {
    const folder = await reporter.complete(client, id).catch((error: EclipticError) => {
      throw error.code === 'NO_NODE' ? lost(error) : error;
    });
    output.value({ event: 'report', run: id, folder }, () => reportText(folder, ended!.status));
  }
  if (ended.status === 'done') return;
  throw new EclipticError('RUN_INCOMPLETE', `run ${id} is ${ended.status}; run the plan again to continue`, {
    run: id,
    status: ended.status,
  });
}

/** The run belongs to the node, and continues without a follower. */
function leftAlone(error: EclipticError, id: string): EclipticError {
  const { code, details } = error;
  if (code === 'CANCELLED') {
    const how = `follow it with: ecliptic plan show ${id} --follow — stop it with: ecliptic plan stop ${id}`;
    return new EclipticError(code, `the run continues in the node; ${how}`, { ...details, run: id });
  }
  if (code !== 'NO_NODE') return error;
  return new EclipticError(code, 'the node stopped; the run continues when the node is started again', {
    ...details,
    run: id,
  });
}

function reportText(folder: string, status: string): string {
  return `report${status === 'done' ? '' : ` (${status})`}: ${join(folder, 'report.md')}`;
}

export const verbs = { run, make, list, show, report, stop, cancel: stop, check, schema };
