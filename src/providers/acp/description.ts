import { EclipticError } from '../../runtime/errors.js';
import type { InitializeResponse } from './sdk.js';

/** What an agent says of itself when it is greeted. */
export interface AcpDescription {
  readonly name: string | null;
  readonly version: string | null;
  readonly protocol: number;
  /** Can it use MCP servers over HTTP? */
  readonly mcpOverHttp: boolean;
  readonly closesSessions: boolean;
  /** What a prompt may hold besides text and links. */
  readonly prompts: { readonly image: boolean; readonly audio: boolean; readonly embedded: boolean };
  /** Ways to log in. */
  readonly authMethods: readonly { readonly id: string; readonly name: string }[];
}

export function describeAgent(response: InitializeResponse, ours: number): AcpDescription {
  const { protocolVersion, agentCapabilities, agentInfo, authMethods } = response;
  const prompts = agentCapabilities?.promptCapabilities;
  if (protocolVersion !== ours) {
    const message = `the agent speaks version ${protocolVersion} of the Agent Client Protocol, this node version ${ours}`;
    throw new EclipticError('PROVIDER_PROTOCOL_MISMATCH', message, { ours, theirs: protocolVersion });
  }
  return {
    name: agentInfo?.title ?? agentInfo?.name ?? null,
    version: agentInfo?.version ?? null,
    protocol: protocolVersion,
    mcpOverHttp: agentCapabilities?.mcpCapabilities?.http === true,
    closesSessions: agentCapabilities?.sessionCapabilities?.close != null,
    prompts: {
      image: prompts?.image === true,
      audio: prompts?.audio === true,
      embedded: prompts?.embeddedContext === true,
    },
    authMethods: (authMethods ?? []).map(({ id, name }) => ({ id, name })),
  };
}
