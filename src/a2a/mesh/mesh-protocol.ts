import { z } from 'zod';
import { splitAddress } from '../../mesh/address.js';
import { LIMITS } from '../../mesh/limits.js';
import { AGENT_ID } from '../../mesh/schemas.js';
import type { Network } from '../../network/peers/network.js';
import { A2A, ITEM } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { remoteError } from '../client/remote-endpoint.js';
import type { OperationProtocol } from '../edge/operation-exchange.js';
import { toJsonRpcError } from '../protocol/errors.js';
import { METHODS, type Method } from '../protocol/json-rpc.js';

/** The binding's name in a card: docs/a2a-mesh-binding.md. */
export const MESH_BINDING = 'urn:ecliptic:a2a:mesh:1';
const URL_PREFIX = 'ecliptic:';
const NODE_KEY = /^[0-9a-f]{64}$/;

export type MeshMethod = Method | 'GetAgentCard';
export const MESH_METHODS: ReadonlySet<string> = new Set<MeshMethod>([...METHODS, 'GetAgentCard']);

/** Service parameters of one request. */
const MAX_PARAMETERS = 16;

const MeshQuestionSchema = z.object({
  method: z.string().max(64),
  params: z.unknown(),
  /** The agent of the asking node that asks. */
  caller: z.string().max(LIMITS.agentIdChars).regex(AGENT_ID, 'is no agent of the asking node'),
  /** A2A's service parameters, by lower-case name. */
  service: z
    .record(z.string().max(64), z.string().max(LIMITS.textChars))
    .refine((all) => Object.keys(all).length <= MAX_PARAMETERS, { error: `has more than ${MAX_PARAMETERS} entries` })
    .optional(),
});
export type MeshQuestion = z.infer<typeof MeshQuestionSchema>;

/** A2A requests between agents of any two nodes of a mesh. */
export function meshProtocol({ cards }: Pick<Network, 'cards'>): OperationProtocol<MeshQuestion> {
  return {
    kind: ITEM.a2a,
    since: A2A,
    question: MeshQuestionSchema,
    serving: { items: 256, bytes: 16 * 1_048_576 },
    // A node answers for agents that it knows only.
    whyNot: (node, { caller }) => cards.whyUnknown(node, caller),
    errors: { write: toJsonRpcError, read: (value, node) => remoteError(value, { origin: meshUrl(node) }) },
    measuresEvents: true,
  };
}

/** The URL of a node in a card. */
export function meshUrl(node: string): string {
  return `${URL_PREFIX}${node}`;
}

/** The node that a URL of a card names. */
export function nodeOfUrl(url: string): string {
  const node = url.startsWith(URL_PREFIX) ? url.slice(URL_PREFIX.length) : '';
  if (NODE_KEY.test(node)) return node;
  throw new EclipticError('INVALID_CARD', `${cutText(url, 100)} is no address of a node: ${URL_PREFIX}KEY`, { url });
}

/** The node of an agent, and the agent as that node names it; without an agent, the node’s own card. */
export interface MeshTarget {
  readonly node: string;
  readonly agent: string | undefined;
}

/** The target that a full address means, `id@key` or `id` for an agent of this node. */
export function targetOf(address: string, nodeKey: string): MeshTarget {
  const { id, node = nodeKey } = splitAddress(address);
  return { node, agent: id };
}
