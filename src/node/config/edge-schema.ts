import { z } from 'zod';
import { NAME_STYLES } from '../../mcp/wire-names.js';
import { LIMITS } from '../../mesh/limits.js';
import { AgentCardSchema } from '../../mesh/schemas.js';
import { AddressSchema } from '../../network/peers/wire.js';

const positive = z.int().positive();

function hasPort(address: string): boolean {
  return Number(address.slice(address.lastIndexOf(':') + 1)) <= 65_535;
}

/** `host:port`, or a port alone. */
const listenAddress = z
  .string()
  .regex(/^([^\s:]+:|\[[0-9a-f:]+\]:)?\d{1,5}$/i, 'must be host:port, or a port')
  .refine(hasPort, 'has no port from 0 to 65535')
  .describe('Where to accept WebSocket links of other nodes, "host:port" or a port. Default: none.');

export const NetworkSchema = z.strictObject({
  name: AgentCardSchema.shape.name.optional().describe('The name of this node. Default: the machine’s name.'),
  listen: listenAddress.optional(),
  peers: z.array(AddressSchema).optional().describe('ws:// addresses of nodes to connect to.'),
  bootstrap: z
    .array(
      z
        .string()
        .regex(/^[^\s:]+:\d{1,5}$/, 'must be host:port')
        .refine(hasPort, 'has no port from 0 to 65535'),
    )
    .optional()
    .describe('Nodes of a private DHT, "host:port". Default: the mesh’s, else the public DHT.'),
  dht: z.boolean().optional().describe('Find other nodes on a DHT. Default true, or false with "nats".'),
});

export const NatsSchema = z.strictObject({
  servers: z
    .array(z.url({ protocol: /^(nats|tls)$/, error: 'must be nats://host:port or tls://host:port' }))
    .min(1)
    .max(64)
    .describe('NATS servers of one cluster, "nats://host:port" or "tls://host:port".'),
  mesh: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 characters of A-Z a-z 0-9 _ -')
    .optional()
    .describe('The mesh’s name at the servers, if several share them. Default "main".'),
});

const claim = z.string().min(1).max(LIMITS.nameChars).optional();

const JwtSchema = z.strictObject({
  issuer: z.string().min(1).describe('The issuer of the tokens: their "iss" claim.'),
  audience: z.string().min(1).describe('This node’s audience: one of their "aud" claim.'),
  jwksUrl: z.url({ protocol: /^https?$/ }).describe('The URL of the issuer’s key set; https, or on this machine.'),
  scopesClaim: claim.describe('The claim with the scopes, "tasks" and "tools". Default "scope".'),
  nameClaim: claim.describe('The claim that names the caller. Default "sub".'),
});

const OfferSchema = z.strictObject({
  streaming: z.boolean().optional().describe('Offer streams of events. Default true.'),
  pushNotifications: z.boolean().optional().describe('Offer webhooks. Default true.'),
  extendedAgentCard: z
    .boolean()
    .optional()
    .describe('Offer a card with everything that the caller may see. Default true.'),
  extensions: z
    .array(
      z.strictObject({
        uri: z.string().min(1).max(2_048),
        description: z.string().max(LIMITS.textChars).optional(),
        required: z.boolean().optional().describe('Refuse requests that do not name it.'),
        params: z.record(z.string(), z.json()).optional(),
      }),
    )
    .max(64)
    .optional()
    .describe('Further extensions on the cards.'),
  inputModes: z
    .array(z.string().regex(/^[^/\s]+\/[^/\s]+$/, 'must be a media type, such as "text/plain" or "image/*"'))
    .min(1)
    .max(64)
    .optional()
    .describe('Media types of parts that tasks may have; others are refused. Default: every type.'),
});

export const HttpSchema = z.strictObject({
  port: z
    .int()
    .min(0)
    .max(65_535)
    .optional()
    .describe('The HTTP port; the next free one if it is taken. Default 3000.'),
  host: z.string().min(1).max(LIMITS.nameChars).optional().describe('The address to listen at. Default 127.0.0.1.'),
  hosts: z.array(z.string().min(1)).optional().describe('Further host names of this node.'),
  open: z.boolean().optional().describe('Accept callers on this machine without a token, as guests. Default false.'),
  names: z
    .enum(NAME_STYLES)
    .optional()
    .describe('Names of tools on the MCP wire: safe "agent__tool" (default), dotted "agent.tool", bare "tool".'),
  requestsPerMinute: positive.optional().describe('Requests of each caller except the owner. Default 6,000.'),
  gateway: z
    .boolean()
    .optional()
    .describe('Create tasks of A2A clients at the nodes of their agents, so that this node keeps none. Default false.'),
  allowPrivate: z
    .array(z.string().min(1))
    .optional()
    .describe(
      'Private addresses that others may make this node call (webhooks, remote agents): "host:port", or ranges.',
    ),
  grpcPort: z
    .int()
    .min(0)
    .max(65_535)
    .optional()
    .describe('Port of A2A over gRPC; requires @grpc/grpc-js and @grpc/proto-loader. Default: none.'),
  grpcTls: z
    .strictObject({
      cert: z.string().min(1).describe('The certificate chain, a PEM file.'),
      key: z.string().min(1).describe('Its private key, a PEM file.'),
      clientCa: z
        .string()
        .min(1)
        .optional()
        .describe('Authorities, a PEM file: callers must have a certificate of one of them. Default: none.'),
    })
    .optional()
    .describe('TLS of A2A over gRPC, required where `host` is not loopback. Default: none.'),
  a2a: OfferSchema.extend({
    agents: z
      .record(AgentCardSchema.shape.id, OfferSchema)
      .optional()
      .describe('Other features for some agents, by id. What an agent leaves out is as for the node.'),
  })
    .optional()
    .describe('A2A features on the cards, which requests must follow.'),
  jwt: JwtSchema.optional().describe('JSON Web Tokens of an OpenID provider, accepted besides the node’s own tokens.'),
});

export type HttpConfig = z.input<typeof HttpSchema>;
export type NatsConfig = z.input<typeof NatsSchema>;
export type NetworkConfig = z.input<typeof NetworkSchema>;
