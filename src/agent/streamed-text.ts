import type { AgentTask } from './agent-tasks.js';

/** The text of an answer while it is made: one artifact that grows, and begins again where earlier text was no answer. */
export class StreamedText {
  readonly #task: AgentTask;
  #artifact: string | undefined;

  constructor(task: AgentTask) {
    this.#task = task;
  }

  get isEmpty(): boolean {
    return this.#artifact === undefined;
  }

  add({ text, replaces = false }: { readonly text: string; readonly replaces?: boolean | undefined }): void {
    const id = this.#artifact === undefined ? {} : { id: this.#artifact };
    const append = this.#artifact !== undefined && !replaces;
    this.#artifact = this.#task.artifact(text, { ...id, append, lastChunk: false });
  }

  /** Puts the result in the place of the text, as an artifact that is complete. */
  replaceWith(data: unknown): void {
    this.#task.artifact({ data }, { ...(this.#artifact !== undefined && { id: this.#artifact }), lastChunk: true });
  }
}
