import { lastAgentText, projectTask, textOf } from '../protocol/simple.js';
import type { StreamResponse, Task } from '../protocol/types.js';

/** What a task came to, as text: the last thing that its agent said or made. */
export function finalText(task: Task): string | undefined {
  return lastAgentText(projectTask(task, { sessionId: null, createdAt: '' }).messages);
}

/** An agent's answer as text that grows: what of it is new with each event. */
export class AnswerText {
  /** What was told of each artifact. */
  readonly #told = new Map<string, string>();

  /** The text to go on with; empty where an event brings none. */
  add(event: StreamResponse): string {
    if ('message' in event) return textOf(event.message.parts);
    if ('statusUpdate' in event) return '';
    if ('task' in event) return this.#catchUp(event.task);
    const { artifact, append } = event.artifactUpdate;
    const text = textOf(artifact.parts);
    const { artifactId } = artifact;
    return append ? this.#tell(artifactId, (this.#told.get(artifactId) ?? '') + text) : this.#tell(artifactId, text);
  }

  /** A whole task may hold what was told before. */
  #catchUp({ artifacts = [] }: Task): string {
    return artifacts.map(({ artifactId, parts }) => this.#tell(artifactId, textOf(parts))).join('');
  }

  #tell(artifactId: string, text: string): string {
    const before = this.#told.get(artifactId);
    this.#told.set(artifactId, text);
    if (before !== undefined && text.startsWith(before)) return text.slice(before.length);
    // Another artifact, or one that was replaced, begins on a line of its own.
    return before === undefined && this.#told.size === 1 ? text : `\n${text}`;
  }
}
