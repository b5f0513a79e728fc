import { z } from 'zod';
import { LIMITS } from '../a2a/limits.js';
import {
  AgentCardSchema,
  AgentTierSchema,
  CapabilityDescriptorSchema,
  SandboxRoutingConfigSchema,
  TierRoutingConfigSchema,
} from '../a2a/schemas.js';
import { AddressSchema } from '../peers/wire.js';

/** `ecliptic.json`. The published JSON Schema is made from this. */

const positive = z.int().positive();

const card = AgentCardSchema.shape;
const capability = CapabilityDescriptorSchema.shape;

const CapabilitySchema = z.union(
  [
    capability.id,
    z.strictObject({
      id: capability.id,
      name: capability.name.optional(),
      description: capability.description.optional(),
      inputSchema: z.unknown().optional(),
      outputSchema: z.unknown().optional(),
    }),
  ],
  { error: 'must be a capability id, or an object with an "id" and optionally name, description and schemas' },
);

const AgentConfigSchema = z.strictObject({
  name: card.name.optional().describe('Shown to people. Default: the id in capitals.'),
  description: card.description.optional(),
  version: card.version.optional(),
  tier: AgentTierSchema.optional().describe('0 orchestrator … 3 specialist. Default: the planetary assignment, or 3.'),
  capabilities: z.array(CapabilitySchema).max(LIMITS.cardListEntries).optional(),
  sandbox: card.sandboxId.describe('The sandbox the agent lives in.'),
  module: z
    .string()
    .min(1)
    .optional()
    .describe('A TypeScript or JavaScript file, relative to this one, that exports `setup(agent)`.'),
});

const LimitsSchema = z.strictObject({
  mailboxCapacity: positive.optional().describe('Messages that may wait for one agent. Default 10,000.'),
  concurrency: positive.optional().describe('Handlers of one agent that may run at once. Default 1,000.'),
  channels: z
    .strictObject({
      queueCapacity: positive.optional(),
      retries: z.int().nonnegative().optional(),
      retryDelayMs: positive.optional(),
      acknowledgeMs: positive.optional(),
      reconnectMs: positive.optional(),
    })
    .optional(),
  events: z.strictObject({ capacity: positive.optional() }).optional(),
  peers: z
    .strictObject({
      suspectMs: positive.optional(),
      heartbeatMs: positive.optional(),
      graceMs: positive.optional(),
      acknowledgeMs: positive.optional(),
      retries: z.int().nonnegative().optional(),
      queueItems: positive.optional(),
      queueChars: positive.optional(),
    })
    .optional(),
  threads: z
    .strictObject({
      threads: positive.optional(),
      bytes: positive.optional(),
      envelopesPerThread: positive.optional(),
      maxAgeMs: positive.optional(),
      waiting: positive.optional(),
      waitMs: positive.optional(),
    })
    .optional(),
});

function hasPort(address: string): boolean {
  return Number(address.slice(address.lastIndexOf(':') + 1)) <= 65_535;
}

/** `host:port`, or a port alone. */
const listenAddress = z
  .string()
  .regex(/^([^\s:]+:|\[[0-9a-f:]+\]:)?\d{1,5}$/i, 'must be host:port, or a port')
  .refine(hasPort, 'has no port from 0 to 65535')
  .describe('Where to take WebSocket links from other nodes, "host:port" or a port. Default: nowhere.');

const NetworkSchema = z.strictObject({
  name: card.name.optional().describe('What people call this node. Default: the machine’s name.'),
  listen: listenAddress.optional(),
  peers: z.array(AddressSchema).optional().describe('ws:// addresses of nodes to call.'),
  bootstrap: z
    .array(
      z
        .string()
        .regex(/^[^\s:]+:\d{1,5}$/, 'must be host:port')
        .refine(hasPort, 'has no port from 0 to 65535'),
    )
    .optional()
    .describe('Nodes of a private DHT, "host:port". Default: the mesh’s, else the public DHT.'),
  dht: z.boolean().optional().describe('Meet other nodes on a DHT. Default true.'),
});

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export const ConfigSchema = z
  .strictObject({
    $schema: z.string().optional(),
    data: z.string().min(1).optional().describe('The data folder, relative to this file.'),
    log: z.enum(LOG_LEVELS).optional().describe('What goes to the log. Default "info".'),
    roster: z.boolean().optional().describe('Start the 21 Planetary agents. Default true.'),
    agents: z
      .record(card.id, AgentConfigSchema)
      .optional()
      .describe('Agents of this node by id; one of a Planetary agent’s id replaces it.'),
    tiers: TierRoutingConfigSchema.optional().describe('Which tier may open conversations with which.'),
    sandbox: SandboxRoutingConfigSchema.optional(),
    network: NetworkSchema.optional().describe('How this node meets others, once it has invited one or joined.'),
    limits: LimitsSchema.optional(),
  })
  .describe('Configuration of an Ecliptic node');

export { NetworkSchema };
export type NetworkConfig = z.input<typeof NetworkSchema>;
export type Config = z.input<typeof ConfigSchema>;
export type AgentConfig = z.input<typeof AgentConfigSchema>;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The JSON Schema that editors use. */
export function configJsonSchema(): object {
  return z.toJSONSchema(ConfigSchema, { io: 'input' });
}
