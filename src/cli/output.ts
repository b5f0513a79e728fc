import { EclipticError, type ErrorCode, toEclipticError } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';

type Hint = string | ((error: EclipticError) => string | undefined);

const HINTS: Partial<Record<ErrorCode, Hint>> = {
  NO_NODE: ({ details }) => `Start one with: ecliptic up${details.given ? ` --data ${details.folder}` : ''}`,
  AGENT_NOT_FOUND: 'List the agents with: ecliptic agents',
  CAPABILITY_NOT_FOUND: 'List agents and capabilities with: ecliptic agents',
  AGENT_UNAVAILABLE: 'A message that can wait for its recipient is sent with: ecliptic send --durable',
  DELIVERY_FAILED: 'A message that can wait for its recipient is sent with: ecliptic send --durable',
  ESCALATION_REQUIRED: 'Give a reason with: --justification TEXT',
  TASK_NOT_FOUND:
    'See A2A tasks with: ecliptic tasks --kind a2a; a proposal with: thread ID, a swarm with: swarm show ID',
  NODE_EXISTS:
    'A connected program starts one in the background when yours has ended. Stop it with: ecliptic down — then start yours, or use another folder: --data DIR',
};

/** A column that is narrower says nothing. */
const LEAST_CELL = 12;

/** The cells of a table's row by heading; null and undefined are shown as a dash. */
export type Cells = Readonly<Record<string, string | number | null | undefined>>;

/** Writes for people, or as JSON for programs. */
export class Output {
  readonly json: boolean;
  /** 1 after an answer that is bad news. */
  exitCode: 0 | 1 = 0;
  readonly #color: boolean;
  /** Of the terminal; files and pipes get all of each line. */
  readonly #width: number;

  constructor(json: boolean, env: Readonly<Record<string, string | undefined>>) {
    this.json = json;
    this.#color = !env.NO_COLOR && env.TERM !== 'dumb' && process.stdout.isTTY === true;
    this.#width = process.stdout.isTTY ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY;
  }

  line(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  /** One value: as JSON on one line, or as `human` puts it. */
  value(value: unknown, human: () => string): void {
    this.line(this.json ? JSON.stringify(value) : printable(human()));
  }

  /** A list: as JSON on one line, or as a table with a column for each cell. `value` replaces the rows in JSON. */
  rows<T>(rows: readonly T[], none: string, cellsOf: (row: T) => Cells, value: unknown = rows): void {
    if (this.json || rows.length === 0) {
      this.value(value, () => none);
      return;
    }
    const records = rows.map(cellsOf);
    const headings = Object.keys(records[0]!);
    const lines = records.map((record) => headings.map((heading) => oneLine(String(record[heading] ?? '-'))));
    cutLast(lines, headings, this.#width);
    const widths = headings.map((heading, at) => Math.max(heading.length, ...lines.map((line) => line[at]!.length)));
    const padded = (line: readonly string[]) =>
      line
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join('  ')
        .trimEnd();
    this.line(this.#bold(padded(headings)));
    for (const line of lines) this.line(padded(line));
  }

  /** Prints the error and a hint; returns the exit code: 2 for wrong usage, else 1. */
  failure(thrown: unknown): 1 | 2 {
    const error = toEclipticError(thrown, 'HANDLER_FAILED');
    const found = HINTS[error.code];
    const hint = (typeof found === 'function' ? found(error) : found) ?? furtherHelp(error);
    if (this.json) process.stderr.write(`${JSON.stringify({ error, hint })}\n`);
    else process.stderr.write(`${error.code}: ${printable(error.message)}\n${hint ? `${hint}\n` : ''}`);
    return error.code === 'USAGE' ? 2 : 1;
  }

  #bold(text: string): string {
    return this.#color ? `\u001b[1m${text}\u001b[22m` : text;
  }
}

/** The last column has the longest texts, and ids stand before it: it alone is cut to the terminal's width. */
function cutLast(lines: string[][], headings: readonly string[], width: number): void {
  const last = headings.length - 1;
  const before = headings
    .slice(0, last)
    .reduce((sum, heading, at) => sum + 2 + Math.max(heading.length, ...lines.map((line) => line[at]!.length)), 0);
  const room = width - before;
  if (room < LEAST_CELL || /^(ID|.*_ID)$/.test(headings[last]!)) return;
  for (const line of lines) {
    const text = line[last]!;
    if (text.length > room) line[last] = `${cutText(text, room - 1)}…`;
  }
}

/** For an error whose message names no command: the one that tells what to do about its code. */
function furtherHelp({ code, message }: EclipticError): string | undefined {
  return code === 'USAGE' || message.includes('ecliptic ') ? undefined : `What to do: ecliptic help ${code}`;
}

export function usage(message: string): EclipticError {
  return new EclipticError('USAGE', message);
}

/** Keeps text from agents and files from steering the terminal. Line breaks stay. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}

/** The same on one line, so that foreign text cannot imitate lines of the program. */
export function oneLine(text: string): string {
  return printable(text.replace(/\s*[\r\n\t\u2028\u2029]+\s*/g, ' '));
}

/** A time in ISO 8601: to the second, to the millisecond, or the time of day alone. */
export function timeText(ms: number, precision: 'seconds' | 'milliseconds' | 'time'): string {
  const iso = new Date(ms).toISOString();
  if (precision === 'time') return iso.slice(11, 23);
  return iso.slice(0, precision === 'seconds' ? 19 : 23);
}

/** An address with its node's key cut to twelve characters. */
export function shortAddress(address: string): string {
  return address.replace(/@([0-9a-f]{12})[0-9a-f]+$/, '@$1');
}

/** Quoted as one word of a shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
