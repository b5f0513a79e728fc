import type { Readable } from 'node:stream';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';

const KEPT_LINES = 20;
const MAX_LINE_CHARS = 1_024;
const LOGGED_LINES_PER_SECOND = 100;

/**
 * Reads a child's stderr as fast as it comes, so that the child never waits for it, and keeps its last lines for error
 * messages. Lines go to the log, but not a flood of them.
 */
export class StderrTail {
  readonly #runtime: Runtime;
  readonly #name: string;
  readonly #redact: (line: string) => string;
  #lines: string[] = [];
  #partial = '';
  #second = 0;
  #logged = 0;

  constructor(runtime: Runtime, name: string, stream: Readable, redact = (line: string) => line) {
    this.#runtime = runtime;
    this.#name = name;
    this.#redact = redact;
    stream.setEncoding('utf8');
    stream.on('data', (chunk: string) => this.#take(chunk));
    stream.on('close', () => this.#take('\n'));
  }

  /** The last lines, oldest first; long ones are cut. */
  get lines(): readonly string[] {
    return (this.#partial === '' ? this.#lines : [...this.#lines, this.#partial]).map(this.#redact);
  }

  #take(chunk: string): void {
    const lines = (this.#partial + chunk).split('\n').map((line) => cutText(line, MAX_LINE_CHARS).trimEnd());
    this.#partial = lines.pop()!;
    const said = lines.filter((line) => line !== '');
    this.#log(said);
    this.#lines = [...this.#lines, ...said.slice(-KEPT_LINES)].slice(-KEPT_LINES);
  }

  #log(lines: readonly string[]): void {
    const second = Math.floor(this.#runtime.now() / 1_000);
    if (second !== this.#second) {
      const skipped = this.#logged - LOGGED_LINES_PER_SECOND;
      if (skipped > 0) this.#runtime.logger.debug({ child: this.#name, skipped }, 'more lines on stderr');
      this.#second = second;
      this.#logged = 0;
    }
    const room = Math.max(0, LOGGED_LINES_PER_SECOND - this.#logged);
    for (const line of lines.slice(0, room).map(this.#redact)) {
      this.#runtime.logger.debug({ child: this.#name, line }, 'stderr');
    }
    this.#logged += lines.length;
  }
}

/** Where Node ends its report of an uncaught error. */
const NODE_VERSION = /^Node\.js v\d/;
/** `TypeError: it is not a function`, also as a property of another language's report. */
const ERROR = /^(?:Uncaught )?(?:[\w.]*(?:Error|Exception)\b|panic:|fatal:|error:)/i;
const TRACE = /^\s+at |^\s*[}\]),;]*\s*$/;

/** The line that says best why a program ended: of an uncaught error in Node its message, else what was said last. */
export function lastWords(lines: readonly string[]): string | undefined {
  const said = lines.filter((line) => !NODE_VERSION.test(line));
  if (said.length === lines.length) return said.at(-1);
  return said.findLast((line) => ERROR.test(line)) ?? said.findLast((line) => !TRACE.test(line)) ?? said.at(-1);
}
