import { z } from 'zod';
import { asContent, textsOf } from '../../mcp/result-text.js';
import { EclipticError } from '../../runtime/errors.js';
import { oneLine } from '../mailbox/fence.js';
import type { MeshTool } from '../mailbox/member-context.js';
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
    return { text: lines.length === 0 ? `${peer} offers no tools that you may use.` : lines.join('\n') };
  }
  const found = offered.find(({ name }) => ownName(name) === tool || name === tool);
  if (!found && offered.length > 0) {
    const names = offered.map(({ name }) => ownName(name)).join(', ');
    throw new EclipticError('TOOL_NOT_FOUND', `${peer} has no tool "${tool}"; it has: ${names}`, { tool });
  }
  const result = await member.agent.mcp.call(found?.name ?? `${address}.${tool}`, args, { timeoutMs: CALL_MS, signal });
  const { content, isError = false } = asContent(result);
  return { text: textsOf(content).join('\n') || 'Done; the tool said nothing.', isError };
};

function ownName(fullName: string): string {
  return fullName.slice(fullName.indexOf('.') + 1);
}
