import { cutText } from '../runtime/text.js';
import { type Output, oneLine } from './output.js';

const UP_AND_CLEAR = (lines: number) => `\u001b[${lines}A\u001b[J`;

/** Lines at the end of a terminal's output that are redrawn in place. Without a terminal nothing is drawn. */
export class LiveArea {
  readonly #output: Output;
  readonly live: boolean;
  #drawn = 0;

  constructor(output: Output) {
    this.#output = output;
    this.live = !output.json && process.stdout.isTTY === true;
  }

  draw(rows: readonly string[]): void {
    this.erase();
    if (!this.live) return;
    const width = process.stdout.columns || 80;
    for (const row of rows) this.#output.line(cutText(oneLine(row), width - 1));
    this.#drawn = rows.length;
  }

  erase(): void {
    if (this.#drawn > 0) process.stdout.write(UP_AND_CLEAR(this.#drawn));
    this.#drawn = 0;
  }
}
