import type { Task } from '../a2a/protocol/types.js';
import type { Command } from './command.js';
import { stateText } from './task-text.js';

export const command: Command = {
  summary: 'cancel a task, whoever gave it',
  usage: 'cancel ID',
  words: [1, 1],
  examples: ['ecliptic cancel 01JD…'],
  async run({ connect, words, output }) {
    const task = await (await connect()).call<Task>('task.cancel', { id: words[0] });
    output.value(task, () => `The task ${task.id} is ${stateText(task.status.state)}.`);
  },
};
