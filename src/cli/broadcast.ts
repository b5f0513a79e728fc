import type { RoutingResult } from '../mesh/schemas.js';
import type { Command } from './command.js';
import { readPayload, required } from './payload.js';

export const command: Command = {
  summary: 'send one message to every other agent',
  usage: 'broadcast --as AGENT JSON',
  options: { as: { type: 'string' } },
  optionHelp: [
    ['--as AGENT', 'the sender: an agent of this node'],
    ['JSON', 'the payload; - reads it from standard input'],
  ],
  words: [1, 1],
  examples: [`ecliptic broadcast --as sun '{"directive":"freeze"}'`],
  async run({ connect, values, words, output }) {
    const as = required(values, 'as');
    const payload = await readPayload(words[0]!);
    const client = await connect();
    const result = await client.call<RoutingResult>('broadcast', { as, payload });
    output.value(result, () => {
      const { recipients, delivered, withheld, failed, withheldByCode } = result.broadcast!;
      const codes = Object.entries(withheldByCode).map(([code, count]) => `${count} ${code}`);
      const why = codes.length > 0 ? ` (${codes.join(', ')})` : '';
      return `${delivered} of ${recipients} agents have it; withheld from ${withheld}${why}, failed for ${failed}`;
    });
  },
};
