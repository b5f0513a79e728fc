import type { Command } from './command.js';

export const command: Command = {
  summary: 'write the whole journal, one JSON object a line',
  usage: 'export',
  examples: ['ecliptic export > journal.jsonl'],
  async run({ connect, output }) {
    const client = await connect();
    await client.call('export', {}, (row) => output.line(JSON.stringify(row)));
  },
};
