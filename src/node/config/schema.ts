import { z } from 'zod';
import { QUIET_HOURS } from '../../coding-agents/wake/wake-machine.js';
import { WAITING_KINDS } from '../../http/dashboard/facts.js';
import { LIMITS } from '../../mesh/limits.js';
import {
  AgentCardSchema,
  AgentTierSchema,
  CapabilityDescriptorSchema,
  SandboxRoutingConfigSchema,
  StateRulesSchema,
  TierRoutingConfigSchema,
} from '../../mesh/schemas.js';
import { HierarchySchema } from '../../plans/hierarchy.js';
import { ActionRulesSchema } from '../../system/approvals/action-gate.js';
import { HttpSchema, NatsSchema, NetworkSchema } from './edge-schema.js';
import {
  JailSchema,
  kindsOf,
  ModelSchema,
  secretSetting,
  variables,
  WORKER_KINDS,
  WorkerSchema,
  WorkspaceSchema,
} from './worker-schema.js';

/** `ecliptic.json`; the source of the published JSON Schema. */

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

const AgentConfigSchema = z
  .strictObject({
    name: card.name.optional().describe('Display name. Default: the id in capitals.'),
    description: card.description.optional(),
    version: card.version.optional(),
    tier: AgentTierSchema.optional().describe(
      '0 orchestrator … 3 specialist. Default: the planetary assignment, or 3.',
    ),
    capabilities: z.array(CapabilitySchema).max(LIMITS.cardListEntries).optional(),
    sandbox: card.sandboxId.describe('The agent’s sandbox.'),
    project: z.string().min(1).optional().describe('The project of its tasks from A2A clients.'),
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
      .describe('More details for its A2A card.'),
    skillBundles: z
      .array(z.strictObject({ name: z.string().min(1), tools: z.array(z.string().min(1)) }))
      .optional()
      .describe('Tools that its A2A card shows under a common name.'),
    module: z
      .string()
      .min(1)
      .optional()
      .describe('A TypeScript or JavaScript file, relative to this one, that exports `setup(agent)`.'),
    ...WORKER_KINDS,
    workspace: WorkspaceSchema,
    workers: z
      .array(WorkerSchema)
      .min(1)
      .max(16)
      .optional()
      .describe('Several workers, instead of one; the first healthy one gets the task.'),
  })
  .refine(({ module, workers, ...agent }) => {
    const kinds = kindsOf(agent);
    if (workers !== undefined) return kinds.length === 0 && module === undefined;
    return kinds.length === 0 || (kinds.length === 1 && (module === undefined || kinds[0] === 'a2a'));
  }, 'has several workers: give one of "module", "command", "acp", "exec", "model" and "a2a", or a list of "workers"');

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
        .describe('Receipts of finished durable messages. Default: 30 days, 1,000,000.'),
      tasks: RetentionSchema.omit({ maxBytes: true })
        .optional()
        .describe('Tasks of A2A clients that have ended. Default: 30 days, 100,000.'),
    })
    .optional()
    .describe('Limits of stored history; the oldest rows are deleted first.'),
  tasks: z
    .strictObject({
      idleMs: positive.optional().describe('How long an agent may work without any progress. Default 300,000.'),
      questionMs: positive.optional().describe('How long a task may wait for its caller. Default 86,400,000.'),
    })
    .optional()
    .describe('Tasks of A2A clients.'),
  objects: z
    .strictObject({
      objectBytes: positive.optional().describe('Bytes of one object. Default 1 GiB, which is also the most.'),
      agentBytes: positive.optional().describe('Bytes of the objects of one agent. Default 2 GiB.'),
      agentObjects: positive.optional().describe('Objects of one agent. Default 1,000.'),
      nodeBytes: positive.optional().describe('Bytes of all objects of this node. Default 8 GiB.'),
    })
    .optional()
    .describe('Files that agents of this node attach to messages.'),
  approvalMs: positive.optional().describe('How long the operator has to answer an agent’s question. Default 300,000.'),
  providers: z
    .strictObject({
      health: z
        .strictObject({ recoveryThreshold: positive.optional() })
        .optional()
        .describe('Consecutive successful checks before a provider is used again. Default 1.'),
      waiting: z
        .strictObject({ queueLimit: positive.optional(), queueMs: positive.optional() })
        .optional()
        .describe('Queue of work while all providers are down. Default: 100 items for each capability, 300,000 ms.'),
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

/** A server in the format of MCP clients. Keys of other clients are ignored. */
const McpServerSchema = z
  .looseObject({
    type: z.enum(['stdio', 'http', 'streamable-http', 'streamableHttp', 'sse']).optional(),
    command: z.string().min(1).optional().describe(`The program to start. ${variables}`),
    args: z.array(z.string()).optional(),
    env: z
      .record(z.string(), secretSetting)
      .optional()
      .describe('Variables of its environment; it inherits few others.'),
    cwd: z.string().min(1).optional().describe('The folder to start it in, relative to this file.'),
    url: z.string().min(1).optional().describe(`Its HTTP address. ${variables}`),
    headers: z.record(z.string(), secretSetting).optional().describe('Sent with every request, such as Authorization.'),
    oauth: z
      .looseObject({
        clientId: z.string().min(1).optional().describe('The id of a client registered with the server.'),
        clientSecret: secretSetting.optional().describe(variables),
        clientMetadataUrl: z
          .url({ protocol: /^https$/ })
          .optional()
          .describe('The URL of a public document that describes this client.'),
        scopes: z.array(z.string().min(1)).optional().describe('Scopes to request besides those of the server.'),
        grant: z
          .literal('client_credentials')
          .optional()
          .describe(
            'The node logs in as itself, with clientId and clientSecret or privateKey. Default: a user logs in.',
          ),
        privateKey: secretSetting
          .optional()
          .describe(`The key of the client (PKCS #8, PEM), in place of clientSecret. ${variables}`),
        algorithm: z
          .enum(['ES256', 'ES384', 'ES512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'])
          .optional()
          .describe('How privateKey signs. Default ES256.'),
        issuer: z
          .url()
          .optional()
          .describe('The only authorization server that gets the credentials. Default: the one that the server names.'),
      })
      .refine(
        ({ grant, clientId, clientSecret, privateKey }) =>
          grant === undefined ||
          (clientId !== undefined && (clientSecret === undefined) !== (privateKey === undefined)),
        'client_credentials needs a "clientId", and a "clientSecret" or a "privateKey"',
      )
      .optional()
      .describe('OAuth settings for an HTTP server that requires a login. Default: discovered from the server.'),
    disabled: z.boolean().optional(),
    timeout: z
      .number()
      .positive()
      .optional()
      .describe('Time limit of a call: seconds up to 3,600, milliseconds above, as in other clients. Default 60 s.'),
    agent: card.id.optional().describe('The agent that owns its tools. Default: one named after the server.'),
    lane: z.string().min(1).optional().describe('The lane that its program runs in. Default: its own lane.'),
    jail: JailSchema.optional(),
    limits: z
      .strictObject({
        memoryMb: positive.optional().describe('Memory of the program and its children. Default 2,048.'),
        startMs: positive.optional().describe('Time until it is ready. Default 30,000.'),
      })
      .optional()
      .describe('Limits of the program.'),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), 'needs a "command" or a "url"');

const CredentialsSchema = z.strictObject({
  keychain: z
    .boolean()
    .optional()
    .describe('Store the key in the system’s keychain if there is one. Default true; otherwise in a file.'),
  graceMs: z
    .int()
    .nonnegative()
    .optional()
    .describe('How long work in progress may use the old value after a rotation. Default 30,000.'),
});

const NotifySchema = z.strictObject({
  bell: z.boolean().optional().describe('Ring the terminals of "ecliptic up" and "ecliptic watch". Default true.'),
  desktop: z.boolean().optional().describe('Show a notification on the desktop of this machine. Default false.'),
  webhook: z
    .strictObject({
      url: z.string().min(1).describe(`Gets a POST with JSON, as chat services take it. ${variables}`),
      headers: z.record(z.string(), secretSetting).optional().describe('Sent with it, such as Authorization.'),
    })
    .optional()
    .describe('A private address must be listed in http.allowPrivate. Default: none.'),
  kinds: z
    .array(z.enum(WAITING_KINDS))
    .min(1)
    .optional()
    .describe('Default: everything that "ecliptic waiting" lists.'),
});

export type NotifyConfig = z.input<typeof NotifySchema>;

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export const ConfigSchema = z
  .strictObject({
    $schema: z.string().optional(),
    data: z.string().min(1).optional().describe('The data folder, relative to this file.'),
    log: z.enum(LOG_LEVELS).optional().describe('Log level. Default "info".'),
    roster: z
      .boolean()
      .optional()
      .describe('Start the 21 Planetary agents. Default true. With false, only those that "agents" names.'),
    agents: z
      .record(card.id, z.union([AgentConfigSchema, z.array(WorkerSchema).min(1).max(16)]))
      .optional()
      .describe(
        'Agents of this node by id, or the list of their workers; an id of a Planetary agent staffs that agent.',
      ),
    workspaces: z
      .array(z.string().min(1).max(4_096))
      .max(64)
      .optional()
      .describe(
        'Folders, relative to this file, that the tools of the roster may read for every caller. Agents of this node may use the folder of this file too, and a coding agent its checkout.',
      ),
    model: ModelSchema.optional().describe('The model that does the work of each Planetary agent without a worker.'),
    tiers: TierRoutingConfigSchema.optional().describe('Which tiers may open conversations with which.'),
    sandbox: SandboxRoutingConfigSchema.optional(),
    state: StateRulesSchema.optional().describe(
      'Which tiers may read and write shared documents, by name. Default: all. Must be the same on every node.',
    ),
    nats: NatsSchema.optional().describe(
      'Connect to other nodes over NATS. Requires @nats-io/transport-node, jetstream and kv. Default: none.',
    ),
    network: NetworkSchema.optional().describe('Connections to other nodes, once this node belongs to a mesh.'),
    http: HttpSchema.optional().describe('The HTTP server: the MCP endpoint, and tasks for A2A clients.'),
    mcpServers: z
      .record(z.string().min(1).max(LIMITS.nameChars), McpServerSchema)
      .optional()
      .describe('MCP servers whose tools join the mesh, as in the configuration of any MCP client.'),
    telemetry: z
      .strictObject({
        otlp: z
          .url({ protocol: /^https?$/ })
          .optional()
          .describe('The OTLP/HTTP collector that gets traces and metrics, as "http://127.0.0.1:4318". Default: none.'),
      })
      .optional()
      .describe('Where traces and metrics go.'),
    background: z
      .strictObject({
        idleMs: positive.optional().describe('How long no client may have used it before it exits. Default 1,800,000.'),
        stay: z.boolean().optional().describe('Never exit for that reason. Default false.'),
      })
      .optional()
      .describe('The node that "ecliptic mcp" starts in the background.'),
    notify: NotifySchema.optional().describe(
      'How the owner is told that something waits: mail, approvals, questions, …',
    ),
    credentials: CredentialsSchema.optional().describe('How secrets of providers are stored.'),
    policy: ActionRulesSchema.optional(),
    onramp: z
      .strictObject({
        hops: positive.optional().describe('Consecutive automatic answers before a chain is stopped. Default: 8.'),
        perPair: positive.optional().describe('Messages from one agent to another in ten minutes. Default: 200.'),
        wake: z
          .strictObject({
            perHour: positive.optional().describe('Wakes of one agent in an hour. Default: 30.'),
            readWithinS: positive
              .optional()
              .describe('Seconds after which a wake without a read has failed. Default: 300.'),
            testWithinS: positive.optional().describe('Time limit of a self-test in seconds. Default: 60.'),
            quietHours: z
              .string()
              .regex(QUIET_HOURS, 'as in 22:00-07:00')
              .optional()
              .describe('When no idle agent is woken, on this machine’s clock, as "22:00-07:00". Default: never.'),
            selfTest: z
              .boolean()
              .optional()
              .describe('Test each new way to wake an agent with a short turn. Default: false.'),
          })
          .optional()
          .describe('Waking idle agents for mail that needs an answer.'),
      })
      .optional()
      .describe('Coding agents that connect with "ecliptic mcp".'),
    hierarchy: HierarchySchema.optional(),
    collections: z
      .strictObject({
        contextChars: z
          .int()
          .nonnegative()
          .max(100_000)
          .optional()
          .describe('Characters of rules and notes that a worker gets with each task. 0 for none. Default 6,000.'),
      })
      .optional()
      .describe('Memory, house rules and taste, which the nodes of a mesh share.'),
    limits: LimitsSchema.optional(),
  })
  .describe('Configuration of an Ecliptic node');

type ConfigFile = z.input<typeof ConfigSchema>;

/** A configuration in one form: each agent is an object. */
export type Config = Omit<ConfigFile, 'agents'> & { agents?: Record<string, AgentConfig> };

export type AgentConfig = z.input<typeof AgentConfigSchema>;

/** A list stands for the workers of an agent that has no other settings. */
export function inOneForm({ agents, ...config }: ConfigFile): Config {
  if (!agents) return config;
  const entries = Object.entries(agents).map(([id, given]) => [id, Array.isArray(given) ? { workers: given } : given]);
  return { ...config, agents: Object.fromEntries(entries) };
}

export type McpServerConfig = z.input<typeof McpServerSchema>;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The JSON Schema that editors use. */
export function configJsonSchema(): object {
  return z.toJSONSchema(ConfigSchema, { io: 'input' });
}
