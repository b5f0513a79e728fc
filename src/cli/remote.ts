import type { SignatureVerdict } from '../a2a/client/card-source.js';
import { isLoopbackHost, LOOPBACK_RANGES } from '../a2a/client/credentials.js';
import { textOf } from '../a2a/protocol/simple.js';
import type { AgentCard, StreamResponse, Task } from '../a2a/protocol/types.js';
import { EclipticError } from '../runtime/errors.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { AllowPrivate } from '../system/fetch/target.js';
import type { Invocation } from './command.js';
import { type Output, oneLine, printable } from './output.js';
import { progressText, stateText } from './task-text.js';

interface RemoteValues {
  readonly token?: string;
  readonly 'allow-private'?: boolean;
}

/** The private addresses that a command may reach: a URL with a loopback address means this machine, and no more. */
function reachOf(url: string, values: RemoteValues): AllowPrivate {
  if (values['allow-private']) return true;
  return URL.canParse(url) && isLoopbackHost(new URL(url).hostname) ? LOOPBACK_RANGES : false;
}

function tokenOf({ token }: RemoteValues, env: Invocation['env']): { readonly bearer: string } | undefined {
  const bearer = token ?? env.ECLIPTIC_TOKEN;
  return bearer ? { bearer } : undefined;
}

export async function showRemoteCard(
  url: string,
  { values, env, output }: Invocation<unknown, RemoteValues>,
): Promise<void> {
  const { CardSource, checkSignatures } = await import('../a2a/client/card-source.js');
  const runtime = systemRuntime();
  const reach = { allowPrivate: reachOf(url, values) };
  const fetched = await new CardSource(runtime).fetch(url, { ...reach, credentials: tokenOf(values, env) });
  const signature = await checkSignatures(runtime, fetched, reach);
  output.value({ card: fetched.document, signature }, () => cardText(fetched.card, signature));
}

function cardText(card: AgentCard, signature: SignatureVerdict): string {
  const { name, version, description, provider, supportedInterfaces, capabilities, skills } = card;
  const can = (['streaming', 'pushNotifications', 'extendedAgentCard'] as const).filter((one) => capabilities[one]);
  const lines = [
    `${name} ${version}${provider ? ` (${provider.organization})` : ''}`,
    ...(description === '' ? [] : [description]),
    '',
    `signature  ${signatureText(signature)}`,
    `can        ${can.join(', ') || '-'}`,
    ...supportedInterfaces.map(
      ({ protocolBinding, protocolVersion, url }) => `speaks     A2A ${protocolVersion} ${protocolBinding} at ${url}`,
    ),
    ...(supportedInterfaces.length === 0 ? ['speaks     the simple task routes'] : []),
    '',
    skills.length === 0 ? 'no skills' : 'skills:',
    ...skills.map((skill) => `  ${skill.id}  ${skill.name}${skill.description ? `: ${skill.description}` : ''}`),
  ];
  return lines.join('\n');
}

function signatureText(verdict: SignatureVerdict): string {
  if (!verdict.signed) return 'none';
  return verdict.verified ? `valid (key ${verdict.kid})` : `INVALID: ${verdict.reasons.join('; ')}`;
}

/** The message of a new task, or of one that waits for an answer. */
interface TaskValues extends RemoteValues {
  readonly skill?: string;
  readonly task?: string;
  readonly timeout?: number;
  readonly 'no-stream'?: boolean;
}

/** Sends a message to an A2A agent, and prints its answer as it arrives. */
export async function sendTask({
  values,
  words: [url, message],
  env,
  output,
}: Invocation<[string, string], TaskValues>): Promise<void> {
  const { A2AClient } = await import('../a2a/client/a2a-client.js');
  const runtime = systemRuntime();
  // Timers alone would let the process end before the answer.
  const alive = runtime.hold();
  const interrupted = new AbortController();
  process.once('SIGINT', () => interrupted.abort());
  const limits = { timeoutMs: values.timeout, signal: interrupted.signal };
  const init = { url, credentials: tokenOf(values, env), allowPrivate: reachOf(url, values) };
  let client: Awaited<ReturnType<typeof A2AClient.connect>> | undefined;
  try {
    client = await A2AClient.connect({ runtime }, init, limits);
    const outgoing = { message, skill: values.skill, taskId: values.task };
    const events = values['no-stream'] ? whole(client.send(outgoing, limits)) : client.stream(outgoing, limits);
    await showAnswer(events, output);
  } finally {
    client?.close();
    alive.cancel();
  }
}

async function showAnswer(events: AsyncIterable<StreamResponse>, output: Output): Promise<void> {
  const { AnswerText, TaskView, finalText } = await import('../a2a/client/task-follower.js');
  const view = new TaskView();
  const answer = new AnswerText();
  /** Is the cursor of the terminal, or the end of the answer itself, in the middle of a line? */
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
  judge(view.task, output, finalText);
}

/** Fails unless the task is completed; the error says how to continue. */
function judge(task: Task | undefined, output: Output, finalText: (task: Task) => string | undefined): void {
  if (!task || task.status.state === 'TASK_STATE_COMPLETED') {
    // Some agents give their result in their last status message instead of an artifact.
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
