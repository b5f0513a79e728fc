import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { A2AClient } from '../client/a2a-client.js';
import { CallLimits, type CallOptions } from '../client/call-limits.js';
import type { A2AClientInit } from '../client/client-init.js';
import { verifyCard } from '../protocol/card-signature.js';
import type { AgentCard } from '../protocol/types.js';
import { takeAgentCard } from '../v03/card.js';
import type { MeshBinding } from './mesh-binding.js';
import { MESH_BINDING, type MeshTarget, meshUrl } from './mesh-protocol.js';
import { MeshTransport, type MeshTransportInit } from './mesh-transport.js';

const CARD_MS = 10_000;

export interface MeshClientInit extends Pick<A2AClientInit, 'agent' | 'chain' | 'extensions'>, CallOptions {
  /** How long a request waits for a node that is away. Default 60 s. */
  readonly awayMs?: number;
}

export interface MeshClientComponents {
  runtime: Runtime;
  binding: MeshBinding;
}

/** A client of an agent, with the card that its node presents and has signed. */
export async function connectOverMesh(
  components: MeshClientComponents,
  about: MeshTransportInit,
  { agent, chain, extensions, ...options }: MeshClientInit = {},
): Promise<A2AClient> {
  const { runtime, binding } = components;
  const card = await cardOverMesh(components, about, options);
  const { node, agent: tenant } = about.target;
  const chosen = { binding: MESH_BINDING, version: '1.0', url: meshUrl(node), tenant } as const;
  const connect = (headers: Readonly<Record<string, string>>) =>
    new MeshTransport(runtime, binding, { ...about, headers });
  return A2AClient.over(runtime, { agent, chain, extensions }, card, { chosen, connect });
}

/** The card of an agent or a node. The key that its link has proved must have signed it: `CARD_REFUSED` otherwise. */
export async function cardOverMesh(
  { runtime, binding }: MeshClientComponents,
  about: MeshTransportInit,
  options: CallOptions = {},
): Promise<AgentCard> {
  const limits = new CallLimits(runtime, options, CARD_MS);
  try {
    const transport = new MeshTransport(runtime, binding, about);
    const card = takeAgentCard(await limits.during(transport.call('GetAgentCard', {}, { limits })));
    await requirePresented(card, about.target);
    return card;
  } finally {
    limits.release();
  }
}

async function requirePresented(card: AgentCard, { node }: MeshTarget): Promise<void> {
  const url = meshUrl(node);
  const names = card.supportedInterfaces.some((one) => one.protocolBinding === MESH_BINDING && one.url === url);
  if (!names) throw new EclipticError('CARD_REFUSED', `the card of ${card.name} is not of node ${node}`, { node });
  const x = Buffer.from(node, 'hex').toString('base64url');
  const key = { kty: 'OKP', crv: 'Ed25519', x, kid: node, alg: 'EdDSA', use: 'sig' };
  const verdict = await verifyCard(card, { keys: [key] });
  if (verdict.verified) return;
  const why = card.signatures?.length ? verdict.reasons.join('; ') : 'it has no signature';
  throw new EclipticError('CARD_REFUSED', `the card of ${card.name} is not signed by node ${node}: ${why}`, { node });
}
