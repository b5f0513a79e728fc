import { z } from 'zod';
import type { Agent } from '../../agent/agent.js';
import { oneLine } from '../../mcp/fence.js';
import { asContent, textsOf } from '../../mcp/result-text.js';
import { joinAddress, splitAddress } from '../../mesh/address.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ActionGate } from '../../system/approvals/action-gate.js';
import { type ModelTool, modelTool, ruled } from './tools.js';

interface MeshToolsInit {
  readonly agent: Agent;
  readonly registry: AgentRegistry;
  readonly gate: ActionGate;
}

const MAX_LISTED = 50;
const TEXT_CHARS = 200;
const match = z.string().max(200).optional().describe('Only those that contain this text.');

/**
 * Tools by which a model sees the other agents and calls their tools, as far as its agent may. Delivery stays with the
 * loop: the model sends no messages.
 */
export function meshTools({ agent, registry, gate }: MeshToolsInit): ModelTool[] {
  return [
    modelTool({
      name: 'mesh_agents',
      description: 'Lists the other agents, what they can do, and whether they have a worker.',
      arguments: z.object({ match }),
      run({ match: wanted }) {
        const others = registry.listAll(agent.id).filter(({ id, node }) => node !== undefined || id !== agent.id);
        return listed(
          others.map(({ id, node, status, capabilities, description }) => {
            const can = capabilities.map((one) => one.id).join(', ');
            return `${joinAddress(id, node)} [${status?.state ?? 'ready'}] (${can}): ${oneLine(description, TEXT_CHARS)}`;
          }),
          wanted,
        );
      },
    }),
    modelTool({
      name: 'mesh_tools',
      description: 'Lists the tools of other agents that you may call with mesh_call, with their arguments.',
      arguments: z.object({ match }),
      run({ match: wanted }) {
        return listed(
          agent.mcp.tools.map(({ name, description, inputSchema }) => {
            return `${name}: ${oneLine(description ?? '', TEXT_CHARS)} ${JSON.stringify(inputSchema)}`;
          }),
          wanted,
        );
      },
    }),
    modelTool({
      name: 'mesh_call',
      description: 'Calls a tool of another agent, by its full name as mesh_tools lists it.',
      arguments: z.object({
        tool: z.string().min(1).max(300),
        arguments: z.record(z.string(), z.unknown()).optional(),
      }),
      summary: ({ tool }) => tool,
      async run({ tool, arguments: args = {} }, context) {
        const found = agent.mcp.tools.find(({ name }) => name === tool);
        if (!found) throw new EclipticError('TOOL_NOT_FOUND', `there is no tool "${tool}" that you may call`);
        // Another node may claim anything of its tools.
        const isLocal = splitAddress(found.agent).node === undefined;
        const action = isLocal && found.annotations?.readOnlyHint === true ? 'tool.read' : 'tool.call';
        const asked = { agent: agent.id, provider: agent.id, action, subject: tool };
        await ruled(context, (options) => gate.require(asked, { ...options, details: { arguments: args } }));
        const { content, isError } = asContent(await agent.mcp.call(tool, args, { signal: context.signal }));
        const text = textsOf(content).join('\n') || 'Done; the tool returned nothing.';
        if (isError) throw new EclipticError('REMOTE_FAILED', text);
        return text;
      },
    }),
  ];
}

/** Lets a model ask the caller of its task. */
export const askTool: ModelTool = modelTool({
  name: 'ask_caller',
  description: 'Asks the caller of the task a question that you cannot answer yourself, and waits for the answer.',
  arguments: z.object({ question: z.string().min(1).max(4_000) }),
  summary: ({ question }) => oneLine(question, TEXT_CHARS),
  // It is only offered where the caller takes questions.
  run: ({ question }, { ask }) => ask!(question),
});

function listed(lines: readonly string[], wanted: string | undefined): string {
  const fitting = lines.filter((line) => wanted === undefined || line.toLowerCase().includes(wanted.toLowerCase()));
  const shown = fitting.slice(0, MAX_LISTED);
  const more = fitting.length > shown.length ? [`${fitting.length - shown.length} more; narrow it with match`] : [];
  return [...shown, ...more].join('\n') || 'None.';
}
