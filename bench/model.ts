import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createNode, type EclipticNode, systemRuntime } from 'ecliptic';
import { ActionGate, Approvals, Lanes, ModelAdapter } from 'ecliptic/providers';
import OpenAI from 'openai';
import { compareCpu, type Report, type Round } from './compare.js';
import { Peer } from './peer-process.js';

type Body = OpenAI.Chat.ChatCompletionCreateParamsStreaming;
type Message = OpenAI.Chat.ChatCompletionMessageParam;

const TASK = { text: 'Which files are there?', context: {}, payload: null, from: 'sun' };
const ANSWER = Array.from({ length: 50 }, (_, n) => `word-${n} `).join('');
/** Tasks at once. */
const WINDOW = 8;
const COUNT = 400;

/**
 * A task of a model with one tool call, two completions in all, through the registry, beside the official client making
 * the same requests to the same server. The server is another process, whose time does not count.
 */
export async function model(report: Report, suite: string, folder: string): Promise<void> {
  const peer = await Peer.start({}, './model-peer.js');
  const baseURL = `http://127.0.0.1:${peer.ready}/v1`;
  const node = await createNode();
  const lanes = new Lanes(join(folder, 'model-lanes'));
  try {
    const ours = await registered(node, lanes, baseURL);
    await ours();
    const bare = new BareClient(baseURL, await peer.ask<Body>('sample'), lanes.open('model').folder);
    const rounds = (one: () => Promise<unknown>) => () => round(one);
    await rounds(ours)();
    await rounds(() => bare.run())();
    report.comparison(
      await compareCpu(
        suite,
        'model/bare-client',
        rounds(ours),
        rounds(() => bare.run()),
      ),
    );
  } finally {
    await node.stop();
    await lanes.closeAll();
    await peer.stop();
  }
}

async function registered(node: EclipticNode, lanes: Lanes, baseUrl: string) {
  const runtime = systemRuntime();
  const gate = new ActionGate(
    { approvals: new Approvals(runtime), report: () => {} },
    { rules: [{ action: 'fs.*', decision: 'allow' }] },
  );
  const credentials = { resolve: () => Promise.reject(new Error('there are none')) };
  const rolePrompt = async () => 'You are an agent.';
  const parts = { runtime, registry: node.registry, gate, credentials, lane: lanes.open('model'), rolePrompt };
  const adapter = new ModelAdapter(node.agent({ id: 'model' }), parts, 'default');
  const config = { baseUrl, model: 'bench' };
  const about = { workspaceId: 'default', concurrencyLimit: 100, capabilities: ['model'] };
  await node.providers.register({ id: 'model', type: 'model', config, ...about }, adapter);
  return async () => {
    let streamed = '';
    const onUpdate = ({ kind, text }: { kind: string; text: string }) => {
      if (kind === 'text') streamed += text;
    };
    const result = await node.providers.execute({ type: 'model' }, TASK, 'c', { onUpdate });
    check(result, streamed);
  };
}

/** The same requests, and a loop that does nothing but what they need. */
class BareClient {
  readonly #client: OpenAI;
  readonly #body: Body;
  readonly #folder: string;

  constructor(baseURL: string, body: Body, folder: string) {
    this.#client = new OpenAI({ baseURL, apiKey: 'none' });
    this.#body = body;
    this.#folder = folder;
  }

  async run(): Promise<void> {
    const messages: Message[] = [...this.#body.messages];
    let streamed = '';
    for (;;) {
      const { text, id, name, args } = await this.#ask(messages, (piece) => {
        streamed += piece;
      });
      if (name === '') return check(text, streamed);
      const { path } = JSON.parse(args) as { path: string };
      const files = await readdir(join(this.#folder, path), { withFileTypes: true });
      const content = files.map((file) => file.name).join('\n') || 'The folder is empty.';
      const call = { id, type: 'function' as const, function: { name, arguments: args } };
      messages.push({ role: 'assistant', content: null, tool_calls: [call] });
      messages.push({ role: 'tool', tool_call_id: id, content });
    }
  }

  async #ask(messages: Message[], onText: (text: string) => void) {
    const answer = { text: '', id: '', name: '', args: '' };
    for await (const { choices } of await this.#client.chat.completions.create({ ...this.#body, messages })) {
      const { content, tool_calls: calls } = choices[0]?.delta ?? {};
      if (content) {
        answer.text += content;
        onText(content);
      }
      for (const { id, function: about } of calls ?? []) {
        answer.id ||= id ?? '';
        answer.name ||= about?.name ?? '';
        answer.args += about?.arguments ?? '';
      }
    }
    return answer;
  }
}

function check(answer: unknown, streamed: string): void {
  if (answer !== ANSWER || streamed !== ANSWER) throw new Error(`it answered ${JSON.stringify(answer)}`);
}

async function round(one: () => Promise<unknown>): Promise<Round> {
  const [cpu, start] = [process.cpuUsage(), performance.now()];
  let left = COUNT;
  const stream = async () => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: WINDOW }, stream));
  const { user, system } = process.cpuUsage(cpu);
  return { count: COUNT, micros: user + system, ms: performance.now() - start };
}
