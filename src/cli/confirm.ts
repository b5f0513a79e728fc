import { createInterface } from 'node:readline/promises';
import { EclipticError } from '../runtime/errors.js';
import type { Invocation } from './command.js';

/** Asks a person at a terminal for a yes. Where there is no terminal, the answer is `otherwise`. */
export async function asks(question: string, otherwise: boolean): Promise<boolean> {
  if (!process.stdin.isTTY) return otherwise;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** Before something that cannot be undone: a person at a terminal must agree, unless `--yes` or `--json` was given. */
export async function confirm({ values, output }: Invocation, question: string): Promise<void> {
  if (values.yes || output.json || (await asks(question, true))) return;
  throw new EclipticError('CANCELLED', 'nothing was done');
}
