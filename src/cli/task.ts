import { messagesOf, textOf } from '../a2a/protocol/simple.js';
import type { StreamResponse } from '../a2a/protocol/types.js';
import type { TaskDetail } from '../node/control/rows.js';
import type { Command } from './command.js';
import { progressText, stateText } from './task-text.js';

export const command: Command = {
  summary: 'show the task of an A2A client: who gave it to whom, what was said, what came of it',
  usage: 'task ID [--follow]',
  options: { follow: { type: 'boolean' } },
  optionHelp: [['--follow', 'go on with what happens to it, until it ends']],
  words: [1, 1],
  examples: ['ecliptic task 01JD…', 'ecliptic task 01JD… --follow', 'ecliptic task 01JD… --json'],
  async run({ connect, values, words, output }) {
    const client = await connect();
    const [id] = words;
    if (!values.follow) {
      const detail = await client.call<TaskDetail>('task', { id });
      output.value(detail, () => describe(detail));
      return;
    }
    process.on('SIGINT', () => client.close());
    const ended = client.call('task.follow', { id }, (event) => {
      output.value(event, () => describeNews(event as TaskDetail | StreamResponse));
    });
    await ended.catch((error) => {
      if (error.code !== 'CANCELLED') throw error;
    });
  },
};

function describe({ id, state, caller, agent, createdAt, task }: TaskDetail): string {
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

function describeNews(event: TaskDetail | StreamResponse): string {
  if ('caller' in event) return describe(event);
  if ('artifactUpdate' in event) return textOf(event.artifactUpdate.artifact.parts);
  return `… ${progressText(event) ?? ''}`;
}
