import { A2AClient } from '../a2a/client/a2a-client.js';
import { AnswerText, finalText, TaskView } from '../a2a/client/task-follower.js';
import { textOf } from '../a2a/protocol/simple.js';
import type { StreamResponse } from '../a2a/protocol/types.js';
import { EclipticError } from '../runtime/errors.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command } from './command.js';
import { type Output, oneLine, printable } from './output.js';
import { durationOrMs } from './payload.js';
import { REMOTE_HELP, REMOTE_OPTIONS, reachOf, tokenOf } from './remote-target.js';
import { progressText, stateText } from './task-text.js';

export const command: Command = {
  summary: 'give a remote agent a task, and print its answer as it comes',
  usage: 'invoke URL TEXT [--skill S] [--task ID] [--token T] [--timeout 1h] [--no-stream] [--allow-private]',
  options: {
    ...REMOTE_OPTIONS,
    skill: { type: 'string' },
    task: { type: 'string' },
    timeout: { type: 'string' },
    'no-stream': { type: 'boolean' },
  },
  optionHelp: [
    ['--skill S', 'the skill that is wanted, as the card names it'],
    ['--task ID', 'go on with a task that waits for an answer'],
    ['--timeout T', 'how long it may take, then it is canceled (default: until an hour without news)'],
    ['--no-stream', 'wait for the whole answer'],
    ...REMOTE_HELP,
  ],
  words: [2, 2],
  examples: [
    'ecliptic invoke https://agent.example.com "Summarize this"',
    'ecliptic invoke http://127.0.0.1:3000 "Build it" --skill mars.build --token ecl_…',
  ],
  async run({ values, words, env, output }) {
    const [url, message] = words as [string, string];
    const timeoutMs = durationOrMs(values, 'timeout');
    const [skill, taskId] = [values.skill, values.task] as (string | undefined)[];
    const runtime = systemRuntime();
    // Timers alone would let the process end in the middle of it.
    const alive = runtime.hold();
    const interrupted = new AbortController();
    process.once('SIGINT', () => interrupted.abort());
    const limits = { timeoutMs, signal: interrupted.signal };
    const init = { url, credentials: tokenOf(values, env), allowPrivate: reachOf(url, values) };
    let client: A2AClient | undefined;
    try {
      client = await A2AClient.connect({ runtime }, init, limits);
      const outgoing = { message, skill, taskId };
      const events = values['no-stream'] ? whole(client.send(outgoing, limits)) : client.stream(outgoing, limits);
      await show(events, output);
    } finally {
      client?.close();
      alive.cancel();
    }
  },
};

async function show(events: AsyncIterable<StreamResponse>, output: Output): Promise<void> {
  const view = new TaskView();
  const answer = new AnswerText();
  /** Does the terminal's line, or the answer itself, end in the middle? */
  let midLine = false;
  let unended = false;
  for await (const event of events) {
    view.add(event);
    if (output.json) {
      output.line(JSON.stringify(event));
      continue;
    }
    const text = answer.add(event);
    const progress = progressText(event);
    if (progress !== undefined) {
      // The answer on standard output stays as the agent gave it; only the terminal gets a new line.
      process.stderr.write(`${midLine ? '\n' : ''}… ${oneLine(progress)}\n`);
      midLine = false;
    }
    if (text === '') continue;
    process.stdout.write(printable(text));
    unended = !text.endsWith('\n');
    midLine = unended;
  }
  if (process.stdout.isTTY ? midLine : unended) process.stdout.write('\n');
  judge(view, output);
}

/** An answer is a success; anything else is said, with what can be done. */
function judge({ task }: TaskView, output: Output): void {
  if (!task || task.status.state === 'TASK_STATE_COMPLETED') {
    // Some agents give their result as their last words, and no artifact.
    const words = task && !task.artifacts?.length ? finalText(task) : undefined;
    if (!output.json && words !== undefined) output.line(printable(words));
    return;
  }
  const { state, message } = task.status;
  const words = message === undefined ? '' : `: ${textOf(message.parts)}`;
  const waits = state === 'TASK_STATE_INPUT_REQUIRED' ? ` (answer with: --task ${task.id})` : '';
  throw new EclipticError('REMOTE_FAILED', `the task ${task.id} is ${stateText(state)}${words}${waits}`, {
    taskId: task.id,
    state,
  });
}

async function* whole(sent: Promise<StreamResponse>): AsyncGenerator<StreamResponse> {
  yield await sent;
}
