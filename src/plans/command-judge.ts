import type { Readable } from 'node:stream';
import { endOfText } from '../runtime/text.js';
import type { Children } from '../system/process/children.js';
import type { Assignment } from './dispatcher.js';
import { reasonOf } from './loop-agent.js';
import type { Judgement } from './loop-state.js';

/** What is kept of a command's output, its end. */
const MAX_OUTPUT_CHARS = 8_192;

/**
 * Lets a program judge: it gets the result as JSON on its standard input. Exit code 0 approves, any other wants a
 * revision; what it printed is the feedback.
 */
export async function judgeByCommand(
  children: Children,
  [command, ...args]: readonly string[],
  { run, task, input, signal }: Omit<Assignment, 'onProgress'>,
  result: unknown,
): Promise<Judgement> {
  const env = { ECLIPTIC_RUN: run.id, ECLIPTIC_TASK: task.id, ECLIPTIC_ATTEMPT: String(input.attempt) };
  const child = await children.start({ command: command!, args, cwd: run.folder, env, name: `${task.id}: ${command}` });
  const stop = () => void child.stop();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const printed = endOf(child.stdout);
    // One that does not read may still judge.
    await child.write(`${JSON.stringify(result ?? null)}\n`).catch(() => {});
    child.endInput();
    const exit = await child.exited;
    if (signal.aborted) throw reasonOf(signal);
    if (exit.kind === 'signal') throw child.failure();
    const feedback = [(await printed).trim(), ...child.stderr].filter((part) => part !== '').join('\n');
    if (exit.code === 0) return { verdict: 'approved', feedback };
    return { verdict: 'needs-revision', feedback: feedback || `${command} ended with code ${exit.code}` };
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

async function endOf(stream: Readable): Promise<string> {
  let text = '';
  stream.setEncoding('utf8');
  try {
    for await (const chunk of stream as AsyncIterable<string>) text = endOfText(text + chunk, MAX_OUTPUT_CHARS);
  } catch {
    // The pipe was closed before its end; what came counts.
  }
  return text;
}
