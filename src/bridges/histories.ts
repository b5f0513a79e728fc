import type { AgentTask } from '../agent/agent-tasks.js';

/** Conversations that a later task may continue; the least recent is forgotten first. */
const MAX_HISTORIES = 64;

/** What was said in each conversation, for frameworks that keep nothing themselves. */
export class Histories<Message> {
  readonly #byTask = new Map<string, readonly Message[]>();

  of(task: AgentTask): readonly Message[] {
    return this.#byTask.get(conversationOf(task)) ?? [];
  }

  keep(task: AgentTask, messages: readonly Message[]): void {
    const id = conversationOf(task);
    this.#byTask.delete(id);
    this.#byTask.set(id, messages);
    if (this.#byTask.size > MAX_HISTORIES) this.#byTask.delete(this.#byTask.keys().next().value!);
  }
}

/** One caller's tasks of one context are one conversation. */
export function conversationOf({ from, contextId }: AgentTask): string {
  return `${from} ${contextId}`;
}

/** The task in words, with its data. */
export function promptOf({ text, input }: AgentTask): string {
  const data = input === undefined ? '' : JSON.stringify(input, null, 2);
  return data === '' || text.includes(data) || text === JSON.stringify(input) ? text : `${text}\n\n${data}`;
}
