import { z } from 'zod';
import { oneLine } from '../fence.js';
import type { MeshTool } from '../member-context.js';
import { read } from './arguments.js';

const Arguments = z.strictObject({
  peer: z.string().min(1).max(200),
  tool: z.string().min(1).max(200).optional(),
  args: z.record(z.string(), z.unknown()).optional(),
});
const CALL_MS = 25_000;

export const callTool: MeshTool = async (member, given, { signal }) => {
  const { peer, tool, args = {} } = read(Arguments, given);
  const address = member.names.resolve(peer, member.name);
  const offered = member.agent.mcp.tools.filter(({ agent }) => agent === address);
  if (tool === undefined) {
    const lines = offered.map(({ name, description, inputSchema }) => {
      return `${ownName(name)}: ${oneLine(description ?? '', 200)} ${JSON.stringify(inputSchema)}`;
    });
    const text = lines.length === 0 ? `${peer} offers no tools that you may use.` : lines.join('\n');
    return { text, structured: { tools: offered.map(({ name }) => ownName(name)) } };
  }
  const found = offered.find(({ name }) => ownName(name) === tool || name === tool);
  const result = await member.agent.mcp.call(found?.name ?? `${address}.${tool}`, args, { timeoutMs: CALL_MS, signal });
  const texts = result.content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`));
  const failed = result.isError === true ? ['The tool failed:'] : [];
  return { text: [...failed, ...texts].join('\n'), structured: { result: { ...result } } };
};

function ownName(fullName: string): string {
  return fullName.slice(fullName.indexOf('.') + 1);
}
