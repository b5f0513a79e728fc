import { clockText } from './message-line.js';
import { oneLine } from './output.js';

const LEVELS: Readonly<Record<number, string>> = { 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' };
/** Of one field. */
const MAX_CHARS = 200;

interface Entry {
  readonly level: number;
  readonly time: number;
  readonly msg?: string;
  readonly err?: { readonly message?: unknown; readonly code?: unknown };
  readonly [field: string]: unknown;
}

/** A destination for structured log lines that writes them for people. */
export function humanLog(stream: { write(text: string): unknown }): { write(line: string): void } {
  return { write: (line) => void stream.write(`${humanLine(line)}\n`) };
}

/** `11:16:29 warn  provider exited  provider=mars code=1`; a line that is no entry is printed as it is. */
export function humanLine(line: string): string {
  const entry = read(line);
  if (!entry) return oneLine(line.trimEnd());
  const { level, time, msg = '', err, pid: _, hostname: __, ...fields } = entry;
  const about = Object.entries(fields).map(([name, value]) => `${name}=${valueText(value)}`);
  const failure =
    err === undefined ? [] : [`${err.code === undefined ? '' : `${err.code}: `}${String(err.message ?? err)}`];
  const words = [`${clockText(time)} ${(LEVELS[level] ?? String(level)).padEnd(5)} ${msg}`, ...about, ...failure];
  return oneLine(words.join('  '));
}

function read(line: string): Entry | undefined {
  try {
    const entry = JSON.parse(line) as Partial<Entry> | null;
    return typeof entry?.level === 'number' && typeof entry.time === 'number' ? (entry as Entry) : undefined;
  } catch {
    return undefined;
  }
}

function valueText(value: unknown): string {
  const text = typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
  return text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS - 1)}…` : text;
}
