import { z } from 'zod';
import { LIMITS } from '../a2a/limits.js';
import {
  AgentCardSchema,
  AgentTierSchema,
  CapabilityDescriptorSchema,
  SandboxRoutingConfigSchema,
  TierRoutingConfigSchema,
} from '../a2a/schemas.js';
import { NAME_STYLES } from '../mcp/wire-names.js';
import { QUIET_HOURS } from '../onramp/wake/quiet-hours.js';
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
  project: z.string().min(1).optional().describe('The project that tasks of A2A clients for it belong to.'),
  toolPermissions: z
    .array(z.string().min(1))
    .optional()
    .describe('The tools that its A2A card shows, "tool" or "agent.tool". Default: its own.'),
  persona: z
    .strictObject({
      archetype: z.string().optional(),
      background: z.string().optional(),
      traits: z.array(z.string()).optional(),
    })
    .optional()
    .describe('What its A2A card tells of it besides its description.'),
  skillBundles: z
    .array(z.strictObject({ name: z.string().min(1), tools: z.array(z.string().min(1)) }))
    .optional()
    .describe('Tools that its A2A card shows under a common name.'),
  module: z
    .string()
    .min(1)
    .optional()
    .describe('A TypeScript or JavaScript file, relative to this one, that exports `setup(agent)`.'),
});

const RetentionSchema = z.strictObject({
  maxAgeMs: positive.optional(),
  maxRows: positive.optional(),
  maxBytes: positive.optional(),
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
  retention: z
    .strictObject({
      journal: RetentionSchema.optional().describe('Default: 30 days, 1,000,000 rows, 1 GiB.'),
      audit: RetentionSchema.optional().describe('Default: a year, 1,000,000 rows, 1 GiB.'),
      receipts: RetentionSchema.omit({ maxBytes: true })
        .optional()
        .describe('Of finished durable messages. Default: 30 days, 1,000,000.'),
      tasks: RetentionSchema.omit({ maxBytes: true })
        .optional()
        .describe('Tasks of A2A clients that have ended. Default: 30 days, 100,000.'),
    })
    .optional()
    .describe('What is kept of the past; the oldest goes first.'),
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

const HttpSchema = z.strictObject({
  port: z
    .int()
    .min(0)
    .max(65_535)
    .optional()
    .describe('Where HTTP is served; the next free port if taken. Default 3000.'),
  host: z.string().min(1).max(LIMITS.nameChars).optional().describe('The address to listen at. Default 127.0.0.1.'),
  hosts: z.array(z.string().min(1)).optional().describe('Further host names under which clients reach this node.'),
  open: z.boolean().optional().describe('Let callers on this machine in without a token, as guests. Default false.'),
  names: z
    .enum(NAME_STYLES)
    .optional()
    .describe('Names of tools on the MCP wire: safe "agent__tool" (default), dotted "agent.tool", bare "tool".'),
  requestsPerMinute: positive
    .optional()
    .describe('How many requests each caller but the owner may make. Default 6,000.'),
  allowPrivate: z
    .array(z.string().min(1))
    .optional()
    .describe(
      'Private addresses that may be called at others’ wish (webhooks, remote agents): "host:port", or ranges.',
    ),
});

// biome-ignore lint/suspicious/noTemplateCurlyInString: that is how it is written
const variables = '`${VAR}`, `${env:VAR}` and `${VAR:-default}` are taken from the environment.';
const setting = z.union([z.string(), z.number(), z.boolean()]);

/** A server as MCP clients write it. Keys that only mean something to another client are no matter here. */
const McpServerSchema = z
  .looseObject({
    type: z.enum(['stdio', 'http', 'streamable-http', 'streamableHttp', 'sse']).optional(),
    command: z.string().min(1).optional().describe(`The program to start. ${variables}`),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), setting).optional().describe('What it finds in its environment; little else is there.'),
    cwd: z.string().min(1).optional().describe('The folder to start it in, relative to this file.'),
    url: z.string().min(1).optional().describe(`Where it is reached over HTTP. ${variables}`),
    headers: z.record(z.string(), setting).optional().describe('Sent with every request, such as Authorization.'),
    oauth: z
      .looseObject({
        clientId: z.string().min(1).optional().describe('A client that is registered there already.'),
        clientSecret: setting.optional().describe(variables),
        clientMetadataUrl: z
          .url({ protocol: /^https$/ })
          .optional()
          .describe('A public document that describes this client.'),
        scopes: z
          .array(z.string().min(1))
          .optional()
          .describe('Rights to ask for, besides those that the server wants.'),
      })
      .optional()
      .describe('How to log in to a server over HTTP that wants that. Default: as the server says.'),
    disabled: z.boolean().optional(),
    timeout: z
      .number()
      .positive()
      .optional()
      .describe(
        'How long a call may take: seconds up to 3,600, milliseconds above, as clients write it. Default 60 s.',
      ),
    agent: card.id.optional().describe('The agent that owns its tools. Default: one named after the server.'),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), 'needs a "command" or a "url"');

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
    http: HttpSchema.optional().describe('The HTTP edge: the MCP endpoint, and tasks for A2A clients.'),
    mcpServers: z
      .record(z.string().min(1).max(LIMITS.nameChars), McpServerSchema)
      .optional()
      .describe('MCP servers whose tools join the mesh, as in the configuration of any MCP client.'),
    onramp: z
      .strictObject({
        hops: positive.optional().describe('Answers to answers in a row, before a chain is stopped. Default: 8.'),
        perPair: positive.optional().describe('Messages of one agent to another in ten minutes. Default: 200.'),
        wake: z
          .strictObject({
            perHour: positive
              .optional()
              .describe('Times in an hour that one agent is pointed at its mail. Default: 30.'),
            readWithinS: positive.optional().describe('Seconds after which a pointer has failed. Default: 300.'),
            testWithinS: positive.optional().describe('Seconds that a self-test takes at most. Default: 60.'),
            quietHours: z
              .string()
              .regex(QUIET_HOURS, 'as in 22:00-07:00')
              .optional()
              .describe('When no idle agent is woken, on this machine’s clock, as "22:00-07:00". Default: never.'),
            selfTest: z
              .boolean()
              .optional()
              .describe('Test each way to wake an agent when it is found, with a short turn. Default: false.'),
          })
          .optional()
          .describe('Waking idle agents for mail that needs something of them.'),
      })
      .optional()
      .describe('Coding agents that come in with "ecliptic mcp".'),
    limits: LimitsSchema.optional(),
  })
  .describe('Configuration of an Ecliptic node');

export { HttpSchema, NetworkSchema };
export type HttpConfig = z.input<typeof HttpSchema>;
export type NetworkConfig = z.input<typeof NetworkSchema>;
export type Config = z.input<typeof ConfigSchema>;
export type AgentConfig = z.input<typeof AgentConfigSchema>;
export type McpServerConfig = z.input<typeof McpServerSchema>;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The JSON Schema that editors use. */
export function configJsonSchema(): object {
  return z.toJSONSchema(ConfigSchema, { io: 'input' });
}
