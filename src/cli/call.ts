import type { CallToolResult } from '@modelcontextprotocol/server';
import { markedCode } from '../mcp/failure.js';
import { EclipticError } from '../runtime/errors.js';
import type { Command } from './command.js';
import { durationOrMs, readPayload } from './payload.js';

export const command: Command = {
  summary: 'call a tool and print its result',
  usage: 'call AGENT.TOOL [JSON] [--as AGENT] [--timeout TIME]',
  options: { as: { type: 'string' }, timeout: { type: 'string' } },
  optionHelp: [
    ['--as AGENT', 'the caller: an agent of this node (default: you, the operator)'],
    ['--timeout TIME', 'how long to wait: 5000 (ms), 5s, 2m (default: what the tool allows)'],
    ['JSON', 'the arguments, an object (default: {}); - reads it from standard input'],
  ],
  words: [1, 2],
  examples: [
    `ecliptic call mars.build '{"target":"login"}'`,
    'ecliptic call mars@3f9a.describe   # a tool on another node; its key may be shortened',
    'ecliptic call venus.palette --json',
  ],
  async run({ connect, values, words, output }) {
    const { as } = values;
    const [tool, json = '{}'] = words;
    const timeoutMs = durationOrMs(values, 'timeout');
    const args = await readPayload(json);
    const client = await connect();
    const result = await client.call<CallToolResult>('call', { tool, arguments: args, as, timeoutMs }, (event) => {
      if (!output.json) process.stderr.write(`${progressLine(event)}\n`);
    });
    if (result.isError) {
      throw new EclipticError(markedCode(result) ?? 'HANDLER_FAILED', texts(result).join('\n') || 'the tool failed');
    }
    output.value(result, () => readable(result));
  },
};

function readable(result: CallToolResult): string {
  if (result.structuredContent !== undefined) return JSON.stringify(result.structuredContent, null, 2);
  const found = texts(result);
  return found.length === result.content.length ? found.join('\n') : JSON.stringify(result, null, 2);
}

function texts({ content }: CallToolResult): string[] {
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
}

function progressLine(event: unknown): string {
  const { progress, log } = (event ?? {}) as {
    progress?: { progress: number; total?: number; message?: string };
    log?: { level: string; data: unknown };
  };
  if (progress) {
    const share = progress.total === undefined ? progress.progress : `${progress.progress}/${progress.total}`;
    return `… ${share} ${progress.message ?? ''}`.trimEnd();
  }
  return `${log?.level}: ${typeof log?.data === 'string' ? log.data : JSON.stringify(log?.data)}`;
}
