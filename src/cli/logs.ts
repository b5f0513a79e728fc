import { closeSync, existsSync, fstatSync, openSync, readSync, unwatchFile, watchFile } from 'node:fs';
import { EclipticError } from '../runtime/errors.js';
import { logOf } from './background-node.js';
import type { Invocation } from './command.js';
import { humanLine } from './log-line.js';

const DEFAULT_LINES = 100;
/** From the end of the file: enough for the lines that are wanted. */
const TAIL_BYTES = 4 * 1024 * 1024;
const POLL_MS = 250;

const NUMBERS = { debug: 20, info: 30, warn: 40, error: 50 } as const;

export interface LogsValues {
  readonly follow?: boolean | undefined;
  readonly lines?: number | undefined;
  readonly level?: keyof typeof NUMBERS | undefined;
}

/** Prints the end of the log that a node in the background writes, and what it adds. */
export async function showLog(invocation: Invocation<string[], LogsValues>): Promise<void> {
  const { dataFolder, values, output } = invocation;
  const file = logOf(await dataFolder());
  if (!existsSync(file)) {
    await refuseForeground(invocation);
    throw new EclipticError(
      'NO_NODE',
      `${file} does not exist: no node of this data folder ran in the background. ` +
        '`ecliptic up` logs to its terminal, a service of systemd to: journalctl --user -u ecliptic',
      { file },
    );
  }
  const least = NUMBERS[values.level ?? 'debug'];
  const show = (lines: readonly string[]) => {
    for (const line of lines) output.line(output.json ? line : humanLine(line));
  };
  const wanted = (line: string) => line !== '' && levelOf(line) >= least;
  const log = new GrowingFile(file);
  const last = log.read().filter(wanted);
  const { lines = DEFAULT_LINES } = values;
  show(lines === 0 ? [] : last.slice(-lines));
  if (!values.follow) return;
  await new Promise<void>((resolve) => {
    watchFile(file, { interval: POLL_MS }, () => show(log.read().filter(wanted)));
    process.once('SIGINT', () => {
      unwatchFile(file);
      resolve();
    });
  });
}

/** Throws if a node is up: it logs to the place that it was started from. */
async function refuseForeground({ connect }: Invocation<string[], LogsValues>): Promise<void> {
  const client = await connect().catch(() => undefined);
  if (!client) return;
  const { pid } = client.server;
  client.close();
  const message =
    `the node that is up (process ${pid}) was not started in the background, so it logs to the terminal it was started ` +
    'in, or as a service of systemd to: journalctl --user -u ecliptic';
  throw new EclipticError('METHOD_NOT_FOUND', message, { pid });
}

/** A line that is no entry of the log, such as the trace of a crash, is always shown. */
function levelOf(line: string): number {
  return Number(/^\{"level":(\d+)/.exec(line)?.[1] ?? Number.POSITIVE_INFINITY);
}

/** The complete lines of a file that another process writes, each once. */
class GrowingFile {
  readonly #file: string;
  #offset: number | undefined;
  #rest = Buffer.alloc(0);

  constructor(file: string) {
    this.#file = file;
  }

  read(): string[] {
    const descriptor = openSync(this.#file, 'r');
    try {
      const { size } = fstatSync(descriptor);
      const isFirst = this.#offset === undefined;
      // A file that became shorter was begun again.
      const from = this.#offset === undefined ? Math.max(0, size - TAIL_BYTES) : size < this.#offset ? 0 : this.#offset;
      const bytes = Buffer.alloc(size - from);
      const count = readSync(descriptor, bytes, 0, bytes.length, from);
      this.#offset = from + count;
      const all = Buffer.concat([this.#rest, bytes.subarray(0, count)]);
      const end = all.lastIndexOf(0x0a) + 1;
      this.#rest = all.subarray(end);
      const lines = all.subarray(0, end).toString('utf8').split('\n').slice(0, -1);
      // The first line of a part may be the end of one.
      return isFirst && from > 0 ? lines.slice(1) : lines;
    } finally {
      closeSync(descriptor);
    }
  }
}
