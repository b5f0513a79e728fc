import type { RoutingResult } from '../mesh/schemas.js';
import type { Command } from './command.js';
import { addressee, durationOrMs, readPayload, required } from './payload.js';

export const command: Command = {
  summary: 'send one message as an agent',
  usage: 'send --as AGENT --to AGENT [--type T] JSON',
  options: {
    as: { type: 'string' },
    to: { type: 'string' },
    capability: { type: 'string' },
    type: { type: 'string' },
    thread: { type: 'string' },
    justification: { type: 'string' },
    ttl: { type: 'string' },
    durable: { type: 'boolean' },
  },
  optionHelp: [
    ['--as AGENT', 'the sender: an agent of this node'],
    ['--to AGENT', 'the recipient: an id, or id@node'],
    ['--capability C', 'instead of --to: whoever offers it'],
    ['--type T', 'the message type (default: notification)'],
    ['--thread ID', 'the conversation it belongs to'],
    ['--justification TEXT', 'why a proposal goes over the recipient’s rank'],
    ['--durable', 'keep it on disk until the recipient is done with it, also while its node is away'],
    ['--ttl TIME', 'drop it if it is not handled by then: 500 (ms), 90s, 7d'],
    ['JSON', 'the payload; - reads it from standard input'],
  ],
  words: [1, 1],
  examples: [
    `ecliptic send --as sun --to mars '{"build":"login"}'`,
    `ecliptic send --as mars --to sun --type task-proposal --justification 'blocked' '{"task":"review"}'`,
    `ecliptic send --durable --ttl 7d --as sun --to mars@3f9a '{"build":"login"}'`,
    'echo \'{"build":"login"}\' | ecliptic send --as sun --capability backend.api -',
  ],
  async run({ connect, values, words, output }) {
    const to = addressee(values);
    const as = required(values, 'as');
    const ttlMs = durationOrMs(values, 'ttl');
    const payload = await readPayload(words[0]!);
    const { type, thread, justification, durable } = values;
    const client = await connect();
    const result = await client.call<RoutingResult>('send', {
      ...{ ...to, as, payload, type, thread, justification, ttlMs, durable },
    });
    output.value(result, () =>
      result.stored
        ? `stored for ${result.targetAgentId}; see: ecliptic receipt ${result.messageId}`
        : `delivered to ${result.targetAgentId} (${result.path})`,
    );
  },
};
