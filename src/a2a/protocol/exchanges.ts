import type { TaskModel } from './task-machine.js';
import type { Message, Part } from './types.js';

/** A question of the agent, and what its caller answered. */
export interface AnsweredQuestion {
  readonly question: readonly Part[];
  readonly answer: Message;
}

/** What a caller said after its first message: answers with their questions, and everything else, each in order. */
export function exchangesOf({ task, answers: answering = [] }: Pick<TaskModel, 'task' | 'answers'>): {
  readonly answers: readonly AnsweredQuestion[];
  readonly others: readonly Message[];
} {
  const answers: AnsweredQuestion[] = [];
  const others: Message[] = [];
  let question: readonly Part[] = [];
  for (const message of task.history?.slice(1) ?? []) {
    if (message.role === 'ROLE_AGENT') question = message.parts;
    else if (answering.includes(message.messageId)) answers.push({ question, answer: message });
    else others.push(message);
  }
  return { answers, others };
}
