import { z } from 'zod';
import { CredentialNameSchema, CredentialRefSchema } from '../../system/secrets/credential-source.js';

/** The parts of `ecliptic.json` that say how an agent's work is done. */

const positive = z.int().positive();
const nonNegative = z.number().nonnegative();

// biome-ignore lint/suspicious/noTemplateCurlyInString: that is how it is written
export const variables = '`${VAR}`, `${env:VAR}` and `${VAR:-default}` are taken from the environment.';
export const secretSetting = z.union([z.string(), z.number(), z.boolean(), CredentialRefSchema]);

const env = z
  .record(z.string(), secretSetting)
  .optional()
  .describe('Variables of its environment; it inherits few others.');
const concurrency = z.int().min(1).max(100).optional().describe('Work items at once. Default 10.');
const healthMs = z.int().min(5_000).optional().describe('Time between health checks. Default 30,000.');

export const ProcessSchema = z.strictObject({
  command: z.string().min(1).describe(`The program to start. ${variables}`),
  args: z.array(z.string()).optional(),
  env,
  cwd: z.string().min(1).optional(),
  concurrency,
  healthMs,
  limits: z
    .strictObject({
      memoryMb: positive.optional().describe('Memory of the program and its children. Default 2,048.'),
      startMs: positive.optional().describe('Time until it is ready. Default 5,000, for "acp" 60,000.'),
      executeMs: positive
        .optional()
        .describe(
          'Silence about one piece of work, without waiting for approvals. Default 600,000, for "acp" 1,800,000.',
        ),
      heartbeatMs: positive.optional().describe('Time between liveness checks. Default 5,000, for "acp" 15,000.'),
      silenceMs: positive.optional().describe('Time limit of a liveness check. Default 10,000, for "acp" 60,000.'),
      cancelMs: positive.optional().describe('Time limit to stop cancelled work. Default 5,000.'),
    })
    .optional()
    .describe('Limits of the program.'),
});

const AcpSchema = ProcessSchema.extend({
  cwd: z
    .string()
    .min(1)
    .optional()
    .describe('Its working folder; files outside are refused. Default: the folder of its lane.'),
  auth: z.string().min(1).optional().describe('The id of the login method, if it requires a login.'),
  mode: z
    .string()
    .min(1)
    .optional()
    .describe('The initial mode of its sessions, such as "read-only" for Codex. Default: chosen by the agent.'),
  model: z.string().min(1).optional().describe('The model of its sessions, by the agent’s own id.'),
  options: z
    .record(z.string().min(1), z.union([z.string(), z.boolean()]))
    .optional()
    .describe('Further options of its sessions, by the ids that the agent gives them, such as {"effort": "high"}.'),
  fs: z.boolean().optional().describe('Read and write files through this node. Default true, for Gemini CLI false.'),
});

const ExecSchema = z.strictObject({
  command: z.string().min(1).describe(`The program to start for each task, without a shell. ${variables}`),
  args: z.array(z.string()).optional(),
  env,
  cwd: z.string().min(1).optional().describe('Its working folder. Default: the folder of this file.'),
  stdin: z
    .enum(['text', 'json'])
    .optional()
    .describe('The form of the task on its standard input: words (default), or one JSON document.'),
  timeoutMs: positive.optional().describe('Time limit of one task. Default 600,000.'),
  concurrency,
  healthMs,
  limits: z
    .strictObject({ memoryMb: positive.optional().describe('Memory of the program. Default 2,048.') })
    .optional()
    .describe('Limits of the program.'),
});

const url = z.url({ protocol: /^https?$/ });

export const ModelSchema = z.strictObject({
  baseUrl: url.describe('The base URL of an OpenAI-compatible API, such as http://127.0.0.1:11434/v1.'),
  model: z.string().min(1).max(256).describe('The name of the model.'),
  credential: CredentialNameSchema.optional().describe(
    'The credential that is sent as a bearer token, as in: ecliptic credential set AGENT NAME',
  ),
  apiKey: z.string().min(1).optional().describe(`A bearer token, instead of a credential. ${variables}`),
  headers: z.record(z.string(), secretSetting).optional().describe('Further headers of each request.'),
  prompt: z
    .string()
    .min(1)
    .optional()
    .describe('A text file, relative to this one, with the role of the agent. Default: that of the roster.'),
  cwd: z
    .string()
    .min(1)
    .optional()
    .describe('The folder whose files it may list, read, search and edit. Default: the folder of its lane.'),
  tools: z
    .array(z.enum(['files', 'mesh', 'ask']))
    .optional()
    .describe(
      'The tools that it gets: files of its folder, tools of other agents, questions to its caller. Default: all.',
    ),
  temperature: z.number().min(0).max(2).optional().describe('Default: chosen by the endpoint.'),
  concurrency,
  healthMs,
  limits: z
    .strictObject({
      steps: positive.optional().describe('Answers of the model for one task. Default 40.'),
      tokens: positive.optional().describe('Tokens for one task, in and out. Default 1,000,000.'),
      contextTokens: positive
        .optional()
        .describe('Tokens of one request; older tool results are dropped. Default 32,000.'),
      answerTokens: positive.optional().describe('Tokens of one answer. Default: chosen by the endpoint.'),
      executeMs: positive.optional().describe('Time limit of one task, with approvals and retries. Default 1,800,000.'),
      silenceMs: positive.optional().describe('Longest silence of the endpoint within an answer. Default 120,000.'),
    })
    .optional()
    .describe('Limits of one task.'),
  price: z
    .strictObject({
      input: nonNegative.describe('US dollars for a million tokens that are sent.'),
      output: nonNegative.describe('US dollars for a million tokens that are received.'),
    })
    .optional()
    .describe('To show costs. Default: unknown.'),
});

const RemoteAgentSchema = z.union(
  [
    url,
    z.strictObject({
      url: url.describe('The base URL of a remote agent, or the URL of its card.'),
      id: z.string().min(1).max(128).optional().describe('Its id on this node. Default: its URL.'),
      priority: z.number().optional().describe('The smallest is the first choice. Default: its place in the list.'),
      capabilities: z.array(z.string().min(1)).optional().describe('Its capabilities besides the skills on its card.'),
      headers: z
        .record(z.string(), secretSetting)
        .optional()
        .describe('Headers sent only to this agent, such as Authorization.'),
    }),
  ],
  { error: 'must be the URL of an A2A agent, or an object with a "url"' },
);

export const RemoteAgentsSchema = z.union(
  [
    z.array(RemoteAgentSchema).min(1).max(100),
    z.strictObject({
      endpoints: z.array(RemoteAgentSchema).max(100).optional(),
      catalogues: z.array(url).max(10).optional().describe('URLs of agent lists; their agents are used too.'),
      mesh: z
        .array(z.string().min(1))
        .optional()
        .describe('Capabilities: agents of other nodes of the mesh that have all of them are used too.'),
      timeoutMs: positive
        .optional()
        .describe('Time limit of one task. Default: none while an event arrives every hour.'),
      failover: z.boolean().optional().describe('Use the next endpoint while one is down. Default true.'),
      concurrency: z.int().min(1).max(100).optional().describe('Tasks at once. Default 10.'),
      healthMs,
    }),
  ],
  { error: 'must be a list of remote agents, or an object with "endpoints", "catalogues" or "mesh"' },
);

const place = z.string().min(1);

export const JailSchema = z
  .union(
    [
      z.boolean(),
      z.literal('required'),
      z.strictObject({
        required: z.boolean().optional().describe('Refuse to start where this machine has no jail. Default false.'),
        network: z
          .array(z.string().min(3))
          .optional()
          .describe(
            'What it may connect to: "host:port" or "*.domain:port". Default: the hosts of its variables that end with _BASE_URL.',
          ),
        read: z.array(place).optional().describe('Further files and folders that it may read; ~ is your home folder.'),
        write: z.array(place).optional().describe('Further files and folders that it may write.'),
      }),
    ],
    { error: 'must be true, false, "required", or an object with "required", "network", "read" and "write"' },
  )
  .describe(
    'Run the program in a jail of the operating system (docs/jail.md). Default: true for an agent in a sandbox, else false.',
  );

/** Each key is a kind of worker. */
export const WORKER_KINDS = {
  command: z
    .union([z.string().min(1), ProcessSchema], { error: 'must be a program, or an object with a "command"' })
    .optional()
    .describe('A program that speaks JSON lines (docs/line-protocol.md); it is started in the folder of this file.'),
  acp: AcpSchema.optional().describe(
    'An agent that speaks the Agent Client Protocol, such as { "command": "gemini", "args": ["--acp"] }.',
  ),
  exec: z
    .union([z.string().min(1), ExecSchema], { error: 'must be a command line, or an object with a "command"' })
    .optional()
    .describe(
      'A program that is started for each task, or a command line for the shell, such as "npm test": standard input is the task, standard output the result, exit code 0 means done.',
    ),
  model: ModelSchema.optional().describe(
    'A model behind an OpenAI-compatible API: Ollama, llama-server, vLLM, a vendor.',
  ),
  a2a: RemoteAgentsSchema.optional().describe(
    'Remote A2A agents that do its work; the first available one gets the task.',
  ),
  lane: z.string().min(1).optional().describe('The lane that its program runs in. Default: its own lane.'),
  jail: JailSchema.optional(),
};

/** The git worktrees of an agent's tasks. */
export const WorkspaceSchema = z
  .strictObject({
    worktree: z.boolean().optional().describe('Run each task in a git worktree and branch of its own. Default false.'),
    base: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe('The branch, tag or commit that a task begins with. Default: the HEAD of the repository.'),
    onSuccess: z
      .enum(['keep', 'merge', 'patch'])
      .optional()
      .describe(
        'What becomes of the branch: it stays (default), is merged into its base, or is also written as a patch.',
      ),
    limit: z.int().min(1).max(256).optional().describe('Worktrees of the agent with work in them. Default 32.'),
  })
  .optional()
  .describe('Where its tasks work. The "cwd" of its workers must be in a git repository.');

const KINDS = ['command', 'acp', 'exec', 'model', 'a2a'] as const;

export function kindsOf(worker: Readonly<Partial<Record<(typeof KINDS)[number], unknown>>>): string[] {
  return KINDS.filter((kind) => worker[kind] !== undefined);
}

/** One of several workers of an agent. */
export const WorkerSchema = z
  .strictObject(WORKER_KINDS)
  .refine(
    (worker) => kindsOf(worker).length === 1,
    `needs exactly one of ${KINDS.map((kind) => `"${kind}"`).join(', ')}`,
  );

// The published schema has each of them once.
const SHARED = {
  program: ProcessSchema,
  acp: AcpSchema,
  exec: ExecSchema,
  model: ModelSchema,
  a2a: RemoteAgentsSchema,
  jail: JailSchema,
};
for (const [id, schema] of Object.entries({ ...SHARED, worker: WorkerSchema })) z.globalRegistry.add(schema, { id });

export type WorkerConfig = z.input<typeof WorkerSchema>;
export type ProcessAgentConfig = z.input<typeof ProcessSchema>;
export type RemoteAgentsConfig = z.input<typeof RemoteAgentsSchema>;
export type JailConfig = z.input<typeof JailSchema>;
export type ModelAgentConfig = z.input<typeof ModelSchema>;
