import { ancestors, passedOn } from '../coding-agents/wake/client-session.js';
import { hookAnswer, isHook } from '../coding-agents/wake/hook-contracts.js';
import { within } from '../runtime/async.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command, Invocation } from './command.js';
import { usage } from './output.js';
import { required } from './payload.js';

export const command: Command = {
  summary: 'what the session and end-of-turn hooks of coding agents call, so that mail reaches them',
  usage: 'hook --client CLIENT --event EVENT',
  options: { client: { type: 'string' }, event: { type: 'string' } },
  optionHelp: [
    ['--client CLIENT', 'claude-code, codex, gemini, cursor or opencode'],
    ['--event EVENT', 'the client’s own name of the hook, as SessionStart, Stop, AfterAgent, stop'],
  ],
  examples: [
    'ecliptic hook --client claude-code --event SessionStart',
    'ecliptic hook --client gemini --event AfterAgent',
  ],
  // Clients take 2 for an order to stop, or to go on; anything else is a hook that does not work.
  failsWith: () => 1,
  async run(invocation) {
    const client = required(invocation.values, 'client');
    const event = required(invocation.values, 'event');
    if (!isHook(client, event)) throw usage(`${client} has no hook ${event}; see: ecliptic hook --help`);
    const answer = await withinTime(answerOf(invocation, client, event));
    // Whatever happens, the client reads one JSON object and goes its way.
    process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
  },
};

/** No client waits longer for it than this. */
const PATIENCE_MS = 1_500;
const MAX_INPUT_BYTES = 1_048_576;

async function answerOf(invocation: Invocation, client: string, event: string): Promise<object> {
  const payload = JSON.parse(await input()) as unknown;
  const params = { client, event, payload, env: passedOn(invocation.env), ancestors: ancestors() };
  const node = await invocation.connect();
  const { pointer } = await node.call<{ pointer: string | null }>('wake.hook', params);
  return hookAnswer(client, pointer ?? undefined);
}

function withinTime(answer: Promise<object>): Promise<object> {
  const given = answer.catch(() => ({}));
  return within(systemRuntime(), given, PATIENCE_MS, () => ({}));
}

async function input(): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_INPUT_BYTES) return '{}';
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
