import { AnswerText, finalText, TaskView } from '../a2a/client/task-follower.js';
import { textOf } from '../a2a/protocol/simple.js';
import type { StreamResponse, Task } from '../a2a/protocol/types.js';
import { EclipticError } from '../runtime/errors.js';
import { BRANCH_ARTIFACT } from '../work/branch-report.js';
import { type Output, oneLine, printable } from './output.js';
import { progressText, stateText } from './task-text.js';

/** Prints the events of a task: its answer on standard output, its progress on standard error. */
export class TaskAnswer {
  readonly #output: Output;
  readonly #view = new TaskView();
  readonly #answer = new AnswerText();
  /** Is the cursor of the terminal, or the end of the answer itself, in the middle of a line? */
  #midLine = false;
  #unended = false;

  constructor(output: Output) {
    this.#output = output;
  }

  /** The task so far. */
  get task(): Task | undefined {
    return this.#view.task;
  }

  add(event: StreamResponse): void {
    this.#view.add(event);
    if (this.#output.json) {
      this.#output.line(JSON.stringify(event));
      return;
    }
    // The branch of a task is a fact about the work and not part of its answer.
    const branch = branchText(event);
    if (branch !== undefined) {
      this.note(branch);
      return;
    }
    const text = this.#answer.add(event);
    const progress = progressText(event);
    if (progress !== undefined) this.note(progress);
    if (text === '') return;
    process.stdout.write(printable(text));
    this.#unended = !text.endsWith('\n');
    this.#midLine = this.#unended;
  }

  /** Prints a line that is no part of the answer. */
  note(text: string): void {
    // The answer on standard output stays as the agent gave it; only the terminal gets a new line.
    process.stderr.write(`${this.#midLine ? '\n' : ''}… ${oneLine(text)}\n`);
    this.#midLine = false;
  }

  /** Fails unless the task is completed; `howToAnswer` says how to answer the question of a task that waits. */
  end(howToAnswer: (id: string) => string): void {
    this.endLine();
    const { task } = this;
    if (!task || task.status.state === 'TASK_STATE_COMPLETED') {
      // Some agents give their result in their last status message instead of an artifact.
      const words = task && !task.artifacts?.length ? finalText(task) : undefined;
      if (!this.#output.json && words !== undefined) this.#output.line(printable(words));
      return;
    }
    const { state, message } = task.status;
    const words = message === undefined ? '' : `: ${textOf(message.parts)}`;
    const waits = state === 'TASK_STATE_INPUT_REQUIRED' ? ` (${howToAnswer(task.id)})` : '';
    throw new EclipticError('REMOTE_FAILED', `the task ${task.id} is ${stateText(state)}${words}${waits}`, {
      taskId: task.id,
      state,
    });
  }

  endLine(): void {
    if (process.stdout.isTTY ? this.#midLine : this.#unended) process.stdout.write('\n');
    this.#midLine = false;
    this.#unended = false;
  }
}

function branchText(event: StreamResponse): string | undefined {
  if (!('artifactUpdate' in event) || event.artifactUpdate.artifact.name !== BRANCH_ARTIFACT) return undefined;
  return event.artifactUpdate.artifact.parts.find((part) => 'text' in part)?.text;
}
