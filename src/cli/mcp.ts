import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command } from './command.js';
import { usage } from './output.js';

export const command: Command = {
  summary: 'speak MCP on standard input and output, for clients that start their servers',
  usage: 'mcp --tools all [--as AGENT]',
  options: { tools: { type: 'string' }, as: { type: 'string' } },
  optionHelp: [
    ['--tools all', 'offer every agent’s tools, resources and prompts'],
    ['--as AGENT', 'the caller: an agent of this node (default: you, the operator)'],
  ],
  examples: ['ecliptic mcp --tools all', 'claude mcp add ecliptic -- npx ecliptic mcp --tools all'],
  async run({ connect, values }) {
    const { as, tools } = values;
    if (tools !== 'all') throw usage(`usage: ecliptic ${command.usage}`);
    const client = await connect();
    const session = systemRuntime().id();
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const ended = client.call('mcp.open', { session, as }, (message) => {
      if (message === null) open();
      else process.stdout.write(`${JSON.stringify(message)}\n`);
    });
    await Promise.race([opened, ended]);
    const lines = createInterface({ input: process.stdin });
    lines.on('line', (line) => {
      const message = parse(line);
      if (message === undefined) process.stdout.write(`${JSON.stringify(PARSE_ERROR)}\n`);
      else client.call('mcp.send', { session, message }).catch(() => lines.close());
    });
    // Whoever started this closes its input when it is done with it.
    await Promise.race([once(lines, 'close'), ended]);
  },
};

const PARSE_ERROR = { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Parse error' } };

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
