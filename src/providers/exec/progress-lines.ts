import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { ExecuteTerms } from '../adapter/adapter.js';

const LINES_PER_SECOND = 20;
const MAX_LINE_CHARS = 1_024;

/** Reports the lines of a program's standard error as progress, up to a rate. Lines above it are only counted. */
export class ProgressLines {
  readonly #runtime: Runtime;
  readonly #clean: (line: string) => string;
  #onUpdate: ExecuteTerms['onUpdate'];
  #second = 0;
  #reported = 0;
  #skipped = 0;

  constructor(runtime: Runtime, clean: (line: string) => string, onUpdate: ExecuteTerms['onUpdate']) {
    this.#runtime = runtime;
    this.#clean = clean;
    this.#onUpdate = onUpdate;
  }

  readonly take = (lines: readonly string[]): void => {
    if (!this.#onUpdate) return;
    const second = Math.floor(this.#runtime.now() / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#reported = 0;
    }
    if (this.#reported < LINES_PER_SECOND) this.#reportSkipped();
    const room = Math.max(0, LINES_PER_SECOND - this.#reported);
    for (const line of lines.slice(0, room)) this.#report(cutText(this.#clean(line), MAX_LINE_CHARS));
    this.#skipped += Math.max(0, lines.length - room);
  };

  /** Reports nothing after this. */
  end(): void {
    this.#reportSkipped();
    this.#onUpdate = undefined;
  }

  #reportSkipped(): void {
    if (this.#skipped > 0) this.#report(`… ${this.#skipped} lines left out`);
    this.#skipped = 0;
  }

  #report(text: string): void {
    this.#reported++;
    this.#onUpdate?.({ kind: 'progress', text });
  }
}
