import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { text } from 'node:stream/consumers';
import { describeError, EclipticError, type ErrorCode } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import { type Output, usage } from './output.js';

/** A JSON value from the command line; `-` reads it from standard input. */
export async function readPayload(word: string): Promise<unknown> {
  const source = word === '-' ? await text(process.stdin) : word;
  try {
    return JSON.parse(source);
  } catch {
    const start = cutText(source.trim(), 60);
    const hint = /^[^"{[\]}]+$/.test(start)
      ? `; a text is written in quotes of both kinds: '${JSON.stringify(start)}'`
      : '';
    throw usage(`the payload is not JSON: ${start}${hint}`);
  }
}

/** A text from the command line; `-` reads it from standard input. */
export async function readText(word: string): Promise<string> {
  return word === '-' ? text(process.stdin) : word;
}

export function readTextFile(file: string, code: ErrorCode): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    const message = missing ? `there is no file ${file}` : `cannot read ${file}: ${describeError(error)}`;
    throw new EclipticError(code, message, { file, faults: [] }, error);
  }
}

/** Asks a person at a terminal for a yes. Without a terminal the answer is `otherwise`. */
export async function asks(question: string, otherwise: boolean): Promise<boolean> {
  if (!process.stdin.isTTY) return otherwise;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** Asks before an irreversible action, at a terminal, unless `--yes` or `--json` was given. */
export async function confirm(output: Output, yes: boolean | undefined, question: string): Promise<void> {
  if (yes || output.json || (await asks(question, true))) return;
  throw new EclipticError('CANCELLED', 'nothing was done');
}

/** Keys as a terminal sends them: return; control-C and control-D; backspace. */
const ENTER = '\r\n';
const CANCEL = '\u0003\u0004';
const ERASE = '\u0008\u007f';

/** A secret from standard input: piped (without its last line break), or typed without echo. */
export async function readSecret(prompt: string): Promise<string> {
  const { stdin } = process;
  const value = stdin.isTTY ? await typed(prompt) : (await text(stdin)).replace(/\r?\n$/, '');
  if (value === '') throw usage('no value came on standard input');
  return value;
}

function typed(prompt: string): Promise<string> {
  const { stdin, stderr } = process;
  // Before the prompt, so that keys typed at once are not echoed either.
  stdin.setRawMode(true);
  stderr.write(prompt);
  stdin.setEncoding('utf8');
  return new Promise((resolve, reject) => {
    let value = '';
    const finish = (settle: () => void) => {
      stdin.off('data', take);
      stdin.setRawMode(false);
      stdin.pause();
      stderr.write('\n');
      settle();
    };
    const take = (keys: string) => {
      for (const key of keys) {
        if (ENTER.includes(key)) return finish(() => resolve(value));
        if (CANCEL.includes(key)) return finish(() => reject(new EclipticError('CANCELLED', 'nothing was stored')));
        value = ERASE.includes(key) ? [...value].slice(0, -1).join('') : value + key;
      }
    };
    stdin.on('data', take);
    stdin.resume();
  });
}
