import { messagesOf, textOf } from '../a2a/protocol/simple.js';
import type { StreamResponse } from '../a2a/protocol/types.js';
import type { TaskDetail } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import { choice, duration, flag, REMOTE_OPTIONS, text, verb, whole } from './command.js';
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
      ID: row.id,
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
    ...messagesOf(task).map(({ role, parts }) => `${role === 'ROLE_USER' ? 'caller' : 'agent '} >   ${textOf(parts)}`),
    ...(task.artifacts ?? []).map(({ name, artifactId, parts }) => `result ${name ?? artifactId}:\n${textOf(parts)}`),
  ].join('\n');
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
  summary: 'give a remote A2A agent a task, and print its answer as it arrives',
  args: ['URL', 'TEXT'],
  options: {
    skill: text('S', 'the skill to use, as the card names it'),
    task: text('ID', 'continue a task that waits for an answer'),
    timeout: duration('cancel the task after this time (default: after an hour without an event)', 'ms'),
    'no-stream': flag('wait for the whole answer'),
    ...REMOTE_OPTIONS,
  },
  examples: [
    'https://agent.example.com "Summarize this"',
    'http://127.0.0.1:3000 "Build it" --skill mars.build --token ecl_…',
  ],
  async run(invocation) {
    await (await import('./remote.js')).sendTask(invocation);
  },
});

export const verbs = { list, show, answer, cancel, send };
