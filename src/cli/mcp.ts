import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Relay } from '../coding-agents/relay.js';
import { StdioServer } from '../coding-agents/stdio-server.js';
import { ALL_TOOLS, CORE_TOOLS, INSTRUCTIONS } from '../coding-agents/tools/tool-list.js';
import { within } from '../runtime/async.js';
import { VERSION } from '../runtime/package.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command, Invocation } from './command.js';
import { usage } from './output.js';
import { listed } from './payload.js';

export const command: Command = {
  summary: 'make the coding agent that starts this a member of the mesh (MCP on standard input and output)',
  usage: 'mcp [--as NAME] [--tools mesh|core|all] [--capability LIST] [--tier N] [--no-start] | mcp --for AGENT',
  options: {
    as: { type: 'string' },
    for: { type: 'string' },
    tools: { type: 'string' },
    capability: { type: 'string' },
    tier: { type: 'string' },
    'no-start': { type: 'boolean' },
  },
  optionHelp: [
    ['--as NAME', 'what others call this agent (default: made from the client and the folder)'],
    [
      '--tools WHICH',
      'mesh: eight tools to work with others (default); core: four of them; all: the eight, and every agent’s own',
    ],
    ['--capability LIST', 'what it can do for others, separated by commas'],
    ['--tier N', '0, 1, 2 or 3 (default: 3)'],
    ['--no-start', 'wait for a node instead of starting one in the background'],
    ['--for AGENT', 'no new member: every agent’s tools, for the program of an agent of this node, in its name'],
  ],
  examples: [
    'claude mcp add ecliptic -- npx ecliptic mcp --as alice',
    'ecliptic mcp --as reviewer --capability review',
    'ecliptic mcp --as alice --tools all',
  ],
  async run(invocation) {
    const { as, for: agent, tools = agent === undefined ? 'mesh' : 'all' } = invocation.values;
    if (tools !== 'mesh' && tools !== 'core' && tools !== 'all') throw usage('--tools is mesh, core or all');
    if (agent !== undefined && (as !== undefined || tools !== 'all')) {
      throw usage('--for goes with neither --as nor --tools: that agent is there, and gets every agent’s tools');
    }
    await serve(invocation, {
      tools: agent !== undefined ? [] : tools === 'core' ? CORE_TOOLS : ALL_TOOLS,
      instructions: agent !== undefined ? '' : INSTRUCTIONS,
      everything: tools === 'all',
      ...(typeof agent === 'string' && { agent }),
    });
  },
};

/** What the client gets. */
interface Offer {
  readonly tools: typeof ALL_TOOLS;
  readonly instructions: string;
  /** Also what every agent offers? */
  readonly everything: boolean;
  /** The agent of this node that it is given to; otherwise its client becomes a member. */
  readonly agent?: string;
}

/** Parents that die without closing anything are noticed within this time. */
const PARENT_MS = 2_000;
/** How long calls under way may take once the client has gone. */
const LAST_CALLS_MS = 2_000;

/** Answers what it can by itself at once; what needs the mesh is loaded when it is needed. */
async function serve(invocation: Invocation, { tools, instructions, everything, agent }: Offer): Promise<void> {
  const runtime = systemRuntime();
  const since = runtime.now();
  const about = aboutMember(invocation);
  const starts = invocation.values['no-start'] !== true && agent === undefined;
  const relay = everything ? new Relay(runtime) : undefined;
  let connection: { close(): void } | undefined;
  const server: StdioServer = new StdioServer({
    tools,
    instructions,
    version: VERSION,
    relay,
    write: (line, written) => void process.stdout.write(line, (error) => error || written()),
    async join(client, version) {
      const [{ connectOrStart }, { MeshConnection }, { surroundings, ancestors }] = await Promise.all([
        import('./background-node.js'),
        import('./mesh-connection.js'),
        import('../coding-agents/wake/client-session.js'),
      ]);
      const dataFolder = await invocation.dataFolder();
      const wake = surroundings(client, version, process.env);
      const made = new MeshConnection(runtime, {
        connect: () => (starts ? connectOrStart(runtime, dataFolder, invocation.env, since) : invocation.connect()),
        about: agent ?? { ...about, client, ancestors: ancestors(), wake },
        relay,
        shown: () => server.unproven,
        onName: (name) => process.stderr.write(`ecliptic: this agent is "${name}" on the mesh\n`),
      });
      connection = made;
      return made;
    },
  });
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => server.take(line));
  await Promise.race([once(lines, 'close'), orphaned(runtime)]);
  await within(runtime, server.idle(), LAST_CALLS_MS, () => undefined);
  connection?.close();
  process.exit(0);
}

function aboutMember({ values }: Invocation): Record<string, unknown> {
  const tier = values.tier === undefined ? undefined : Number(values.tier);
  if (tier !== undefined && ![0, 1, 2, 3].includes(tier)) throw usage('--tier is 0, 1, 2 or 3');
  const capabilities = listed(values, 'capability');
  return {
    checkout: process.cwd(),
    ...(values.as !== undefined && { as: values.as }),
    ...(tier !== undefined && { tier }),
    ...(capabilities && { capabilities }),
  };
}

/** Resolves when whoever started this process is gone. */
function orphaned(runtime: ReturnType<typeof systemRuntime>): Promise<void> {
  const parent = process.ppid;
  return new Promise((resolve) => {
    const look = () => {
      if (process.ppid === parent) runtime.setTimer(look, PARENT_MS);
      else resolve();
    };
    look();
  });
}
