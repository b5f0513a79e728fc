import type { Command } from './command.js';
import { addressee, durationOrMs, readPayload, required } from './payload.js';

export const command: Command = {
  summary: 'send a request as an agent and print the answer',
  usage: 'request --as AGENT --to AGENT [--timeout TIME] JSON',
  options: {
    as: { type: 'string' },
    to: { type: 'string' },
    capability: { type: 'string' },
    timeout: { type: 'string' },
  },
  optionHelp: [
    ['--as AGENT', 'the sender: an agent of this node'],
    ['--to AGENT', 'the recipient: an id, or id@node'],
    ['--capability C', 'instead of --to: whoever offers it'],
    ['--timeout TIME', 'how long to wait for the answer: 5000 (ms), 5s, 2m (default: 30s)'],
    ['JSON', 'the payload; - reads it from standard input'],
  ],
  words: [1, 1],
  examples: [
    `ecliptic request --as sun --to mars '{"build":"login"}'`,
    `ecliptic request --as sun --to mars --timeout 2m '"build it"'`,
    `ecliptic request --as sun --capability security.review '{"file":"auth.ts"}' --json`,
  ],
  async run({ connect, values, words, output }) {
    const to = addressee(values);
    const as = required(values, 'as');
    const timeoutMs = durationOrMs(values, 'timeout');
    const payload = await readPayload(words[0]!);
    const client = await connect();
    const answer = await client.call('request', { ...to, as, payload, timeoutMs });
    output.value(answer, () => JSON.stringify(answer, null, 2));
  },
};
