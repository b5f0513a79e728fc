import { z } from 'zod';
import { discoverAgent, invokeRemoteAgent } from '../a2a/client/remote-agents.js';
import { readDelegation } from '../a2a/protocol/delegation.js';
import type { Agent } from '../agent/agent.js';
import { fullAddress, splitAddress } from '../mesh/address.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';

export interface RemoteAgentToolsInit {
  runtime: Runtime;
  /** Private addresses that may be called: host:port, or ranges. */
  allowPrivate?: readonly string[] | undefined;
}

const url = z.url({ protocol: /^https?$/ }).describe('The agent’s base URL.');
const MINUTE_MS = 60_000;

/** Lets an agent offer tools that look at remote A2A agents and give them tasks. */
export function offerRemoteAgents(agent: Agent, { runtime, allowPrivate }: RemoteAgentToolsInit): void {
  // The URLs are a model's: those inside are for the owner to allow.
  const reach = { runtime, allowPrivate: allowPrivate ?? false };
  agent.tools([
    {
      name: 'discover_agent',
      description: 'Reads the card of a remote A2A agent: who it is and which skills it has.',
      annotations: { readOnlyHint: true, openWorldHint: true },
      inputSchema: z.object({ url }),
      handler: async ({ url: place }) => {
        const card = await discoverAgent(place as string, reach);
        if (card) return card;
        throw new EclipticError(
          'PEER_UNREACHABLE',
          `there is no agent to be found at ${new URL(place as string).origin}`,
        );
      },
    },
    {
      name: 'invoke_remote_agent',
      description: 'Gives a remote A2A agent a task and waits for its answer.',
      annotations: { openWorldHint: true },
      timeoutMs: 11 * MINUTE_MS,
      inputSchema: z.object({
        agent_url: url,
        message: z.string().min(1).describe('What the agent is to do.'),
        skill: z.string().optional().describe('The skill to use, by its id on the card.'),
        timeout_minutes: z.number().positive().max(10).default(5),
      }),
      handler: async (args, call) => {
        const { agent_url, message, skill, timeout_minutes } = args as {
          agent_url: string;
          message: string;
          skill?: string;
          timeout_minutes: number;
        };
        // The calling agent delegates the task, so the delegation chain continues with it.
        const caller = fullAddress(call.caller, splitAddress(agent.address).node);
        const delegation = { agent: caller, chain: readDelegation(call.meta, undefined) };
        const terms = { ...reach, ...delegation, skill, timeoutMs: timeout_minutes * MINUTE_MS, signal: call.signal };
        const result = await invokeRemoteAgent(agent_url, message, terms);
        if (result.success) return result;
        return {
          content: [{ type: 'text', text: result.error ?? 'Task failed' }],
          structuredContent: result,
          isError: true,
        };
      },
    },
  ]);
}
