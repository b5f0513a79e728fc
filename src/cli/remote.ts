import type { SignatureVerdict } from '../a2a/client/card-source.js';
import { isLoopbackHost, LOOPBACK_RANGES } from '../a2a/client/credentials.js';
import { signatureHeaders } from '../a2a/protocol/card-signature.js';
import type { AgentCard, StreamResponse } from '../a2a/protocol/types.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { AllowPrivate } from '../system/fetch/target.js';
import type { Invocation } from './command.js';
import { TaskAnswer } from './task-answer.js';

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

/** The node has checked the signature. */
export function meshCardText(card: AgentCard): string {
  const [header] = signatureHeaders(card);
  return cardText(card, { signed: true, verified: true, kid: header?.kid ?? '' });
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
  readonly context?: string;
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
    const outgoing = { message, skill: values.skill, taskId: values.task, contextId: values.context };
    const events = values['no-stream'] ? whole(client.send(outgoing, limits)) : client.stream(outgoing, limits);
    const answer = new TaskAnswer(output);
    for await (const event of events) answer.add(event);
    answer.end((id) => `answer with: --task ${id}`);
  } finally {
    client?.close();
    alive.cancel();
  }
}

/** The same over the mesh, through this node. */
export async function sendTaskOverMesh({
  values: { context, skill, task, timeout: timeoutMs },
  words: [to, text],
  connect,
  output,
}: Invocation<[string, string], TaskValues>): Promise<void> {
  const answer = new TaskAnswer(output);
  const client = await connect();
  process.once('SIGINT', () => client.close());
  try {
    await client.call('a2a.send', { to, text, context, skill, task, timeoutMs }, (event) => answer.add(event));
  } finally {
    answer.endLine();
    client.close();
  }
  answer.end((id) => `answer with: ecliptic task send ${to} TEXT --a2a --task ${id}`);
}

async function* whole(sent: Promise<StreamResponse>): AsyncGenerator<StreamResponse> {
  yield await sent;
}
