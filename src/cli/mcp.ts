import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Relay } from '../coding-agents/relay.js';
import { StdioServer } from '../coding-agents/stdio-server.js';
import { ALL_TOOLS, CORE_TOOLS, INSTRUCTIONS } from '../coding-agents/tools/tool-list.js';
import type { AgentTier } from '../mesh/schemas.js';
import { within } from '../runtime/async.js';
import { VERSION } from '../runtime/package.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { SAVE_AFTER_MS, saveCodeCache } from './code-cache.js';
import type { Invocation } from './command.js';
import { usage } from './output.js';

interface McpValues {
  readonly as?: string;
  readonly for?: string;
  readonly tools?: 'mesh' | 'core' | 'all';
  readonly capability?: readonly string[];
  readonly tier?: string;
  readonly 'no-start'?: boolean;
}

type McpInvocation = Invocation<unknown, McpValues>;

/** The client's tools by `--tools`; or every agent's tools, for the agent of `--for`. */
export async function serveMcp(invocation: McpInvocation): Promise<void> {
  const { as, for: agent, tools = agent === undefined ? 'mesh' : 'all' } = invocation.values;
  if (agent !== undefined && (as !== undefined || tools !== 'all')) {
    throw usage('--for goes with neither --as nor --tools: that agent has its name, and gets every agent’s tools');
  }
  await serve(invocation, {
    tools: agent !== undefined ? [] : tools === 'core' ? CORE_TOOLS : ALL_TOOLS,
    instructions: agent !== undefined ? '' : INSTRUCTIONS,
    everything: tools === 'all',
    ...(agent !== undefined && { agent }),
  });
}

interface Offer {
  readonly tools: typeof ALL_TOOLS;
  readonly instructions: string;
  /** Also the tools of every agent. */
  readonly everything: boolean;
  /** The agent of this node that gets the tools; without one the client becomes a member. */
  readonly agent?: string;
}

/** How often to check that the parent process is alive: it may die without closing anything. */
const PARENT_MS = 2_000;
/** How long calls in progress may take once the client has gone. */
const LAST_CALLS_MS = 2_000;

/** Answers at once without the mesh; the connection to the mesh is loaded when it is needed. */
async function serve(invocation: McpInvocation, { tools, instructions, everything, agent }: Offer): Promise<void> {
  const runtime = systemRuntime();
  runtime.setTimer(saveCodeCache, SAVE_AFTER_MS);
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

function aboutMember({ values }: McpInvocation) {
  const { as, tier, capability } = values;
  return {
    checkout: process.cwd(),
    ...(as !== undefined && { as }),
    ...(tier !== undefined && { tier: Number(tier) as AgentTier }),
    ...(capability && { capabilities: capability }),
  };
}

/** Resolves when the parent process is gone. */
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
