import { messagesOf, textOf } from '../a2a/protocol/simple.js';
import { splitTaskId } from '../a2a/protocol/task-id.js';
import type { StreamResponse, Task } from '../a2a/protocol/types.js';
import type { TaskSession } from '../agent/task-messages.js';
import type { TaskDetail } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import { describeUsage, type Usage } from '../work/usage.js';
import { choice, duration, flag, many, REMOTE_OPTIONS, text, verb, whole } from './command.js';
import { usage } from './output.js';
import { progressText, stateText } from './task-text.js';

const list = verb({
  summary: 'list tasks of A2A clients, proposals between agents, and sub-tasks of swarms',
  options: {
    kind: choice(['a2a', 'proposal', 'swarm'], 'only tasks of that kind'),
    state: text('S', 'submitted, working, input-required, auth-required, completed, failed, canceled or rejected'),
    caller: text('NAME', 'only tasks of that caller'),
    limit: whole('the latest N (default: 100)'),
  },
  examples: ['', '--state working', '--kind swarm', '--caller alice --json'],
  async run({ call, values: { kind, state, caller, limit }, output }) {
    const rows = await call('tasks', { kind, state, caller, limit });
    output.rows(rows, 'no tasks', (row) => ({
      // The node's own tasks: the rest of the id is this node's key, and the command takes the beginning of one.
      ID: splitTaskId(row.id).local,
      KIND: row.kind,
      STATE: stateText(row.state),
      CALLER: row.caller,
      AGENT: row.agent,
      UPDATED: row.updatedAt,
      TASK: cutText(row.text, 40),
    }));
  },
});

const show = verb({
  summary: 'show an A2A client’s task: its caller and agent, the messages, the results',
  args: ['ID'],
  options: { follow: flag('continue with each event, until the task ends') },
  examples: ['01JD…', '01JD… --follow', '01JD… --json'],
  async run({ call, follow, values, words: [id], output }) {
    if (values.follow) {
      return follow('task.follow', { id }, (event) => output.value(event, () => eventText(event)));
    }
    const detail = await call('task', { id });
    output.value(detail, () => detailText(detail));
  },
});

function detailText({ id, state, caller, agent, createdAt, task }: TaskDetail): string {
  return [
    `${id}  ${stateText(state)}`,
    `caller     ${caller}`,
    `agent      ${agent}`,
    `context    ${task.contextId}`,
    `created    ${new Date(createdAt).toISOString()}`,
    ...factsOf(task),
    ...messagesOf(task).map(({ role, parts }) => `${role === 'ROLE_USER' ? 'caller' : 'agent '} >   ${textOf(parts)}`),
    ...(task.artifacts ?? []).map(({ name, artifactId, parts }) => `result ${name ?? artifactId}:\n${textOf(parts)}`),
  ].join('\n');
}

function factsOf({ metadata = {} }: Task): string[] {
  const { session, usage } = metadata as { session?: Partial<TaskSession>; usage?: Usage };
  const how = session?.reason === undefined ? session?.state : `${session.state}: ${session.reason}`;
  return [
    ...(session ? [`session    ${session.id} (${how})`] : []),
    ...(usage ? [`cost       ${describeUsage(usage)}`] : []),
  ];
}

function eventText(event: TaskDetail | StreamResponse): string {
  if ('caller' in event) return detailText(event);
  if ('artifactUpdate' in event) return textOf(event.artifactUpdate.artifact.parts);
  return `… ${progressText(event) ?? ''}`;
}

const cancel = verb({
  summary: 'cancel a task of any A2A client, or withdraw a proposal',
  args: ['ID'],
  examples: ['01JD…'],
  async run({ call, words: [id], output }) {
    const task = await call('task.cancel', { id });
    const state = 'status' in task ? task.status.state : task.state;
    output.value(task, () => `The task ${task.id} is ${stateText(state)}.`);
  },
});

const answer = verb({
  summary: 'answer the question of a task that you gave',
  args: ['ID', 'TEXT'],
  examples: ['01JD… "The first one."'],
  async run({ call, words: [id, said], output }) {
    const task = await call('task.answer', { id, text: said });
    output.value(task, () => `The task ${task.id} is ${stateText(task.status.state)}.`);
  },
});

const send = verb({
  summary: 'give an agent of the mesh, or a remote A2A agent, a task, and print its answer as it arrives',
  args: ['AGENT', 'TEXT?'],
  argHelp: [['AGENT', 'mars, mars@desktop, or the URL of an A2A agent']],
  options: {
    context: text('ID', 'continue the conversation with that context, such as the session of a coding agent'),
    input: text('JSON', 'the input of the work; - reads it from standard input'),
    attach: many('FILE', 'a file or an image that goes with the task'),
    link: many('URL', 'a link that goes with the task'),
    skill: text('S', 'the skill to use, as the card names it'),
    task: text('ID', 'continue a task of a remote agent that waits for an answer'),
    timeout: duration(
      'fail the task after this time (default: after 5 minutes without progress, or 1 h for a URL)',
      'ms',
    ),
    'no-stream': flag('wait for the whole answer of a remote agent'),
    a2a: flag('over A2A: the agent’s node keeps the task, and goes on while this node is away'),
    ...REMOTE_OPTIONS,
  },
  examples: [
    'mars@desktop "Fix the parser"',
    'mars@desktop "Now the tests" --context 01JD… --attach log.txt',
    'mars@desktop "A long one" --a2a',
    `enceladus "Look for keys" --input '{"workspace":".","tool":"secrets"}'`,
    'https://agent.example.com "Summarize this"',
    'http://127.0.0.1:3000 "Build it" --skill mars.build --token ecl_…',
  ],
  async run(invocation) {
    const { words, values } = invocation;
    const isRemote = /^https?:/i.test(words[0]);
    if (!isRemote && !values.a2a) return (await import('./give-task.js')).giveTask({ ...invocation, words });
    if (words[1] === undefined) throw usage('the task has no text');
    if (values.attach || values.link || values.input !== undefined)
      throw usage('--attach, --link and --input are for agents of the mesh without --a2a');
    const { sendTask, sendTaskOverMesh } = await import('./remote.js');
    const send = isRemote ? sendTask : sendTaskOverMesh;
    await send({ ...invocation, words: [words[0], words[1]] });
  },
});

export const verbs = { list, show, answer, cancel, send };
