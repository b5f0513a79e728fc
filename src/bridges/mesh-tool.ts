import type { Agent } from '../agent/agent.js';
import { SELF_DESCRIPTION } from '../agent/staffing.js';
import { failureOf } from '../mcp/failure.js';
import { textsOf } from '../mcp/result-text.js';

export interface MeshToolsOptions {
  /** Which tools. Default: those of all other agents that this one may use, without their descriptions of themselves. */
  readonly pick?: (tool: PickedTool) => boolean;
  readonly timeoutMs?: number;
}

export interface PickedTool {
  /** As `mars.add`. */
  readonly name: string;
  /** The address of the agent that offers it. */
  readonly agent: string;
}

interface CallTerms {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (progress: Progress) => void;
}

export interface Progress {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}

/** A tool of the mesh, as the bridges turn it into one of a framework. */
export interface MeshTool {
  /** As `mars__add`: letters, digits, `_` and `-`. */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>> & { readonly type: 'object' };
  /** Returns the structured content, or else the text, or else the content. Throws when the tool reports a failure. */
  call(args: Readonly<Record<string, unknown>>, terms?: CallTerms): Promise<unknown>;
}

/** The tools of the mesh that an agent may use now. */
export function toolsFor(agent: Agent, { pick, timeoutMs }: MeshToolsOptions = {}): MeshTool[] {
  const isWanted =
    pick ?? (({ name, agent: owner }: PickedTool) => owner !== agent.id && !name.endsWith(`.${SELF_DESCRIPTION}`));
  return agent.mcp.wireTools
    .filter(({ fullName, agent: owner }) => isWanted({ name: fullName, agent: owner }))
    .map(({ name, fullName, description = '', inputSchema }) => ({
      ...{ name, description, inputSchema },
      async call(args, { signal, onProgress } = {}) {
        const terms = { ...(signal && { signal }), ...(onProgress && { onProgress }) };
        const result = await agent.mcp.call(fullName, { ...args }, { ...terms, ...(timeoutMs && { timeoutMs }) });
        const failure = failureOf(result);
        if (failure) throw failure;
        if (result.structuredContent !== undefined) return result.structuredContent;
        const texts = textsOf(result.content);
        return texts.length === result.content.length ? texts.join('\n') : result.content;
      },
    }));
}
