import type { UpstreamStatus } from '../mcp/upstream/upstream.js';
import type { PinRow } from '../mcp/upstream/upstreams.js';
import type { Command, Invocation } from './command.js';
import { misuse } from './misuse.js';

interface ToolRow {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly agent: string;
}

interface ApprovedRow {
  readonly id: string;
  readonly subject: string;
  readonly summary: string;
}

export const command: Command = {
  summary: 'list the tools of every agent; check what MCP servers changed',
  usage:
    'tools [--as AGENT] | tools servers | tools login|logout SERVER | tools pins | tools approve SERVER.TOOL|ID|--all',
  options: { as: { type: 'string' }, all: { type: 'boolean' } },
  optionHelp: [
    ['--as AGENT', 'only what that agent of this node may use'],
    ['servers', 'the MCP servers of the configuration, and how they are'],
    ['login', 'log in to an MCP server that wants that: prints the URL to open, and waits'],
    ['logout', 'forget the login to an MCP server'],
    ['pins', 'what is pinned of their definitions, and what was changed and waits for approval'],
    ['approve', 'take over a changed, renamed or new definition; with --all, every one that waits'],
  ],
  words: [0, 2],
  examples: [
    'ecliptic tools',
    'ecliptic tools --as mars --json',
    'ecliptic tools login github',
    'ecliptic tools pins',
    'ecliptic tools approve github.search',
  ],
  async run(invocation) {
    const [verb, subject] = invocation.words;
    if (verb === undefined) await list(invocation);
    else if (verb === 'servers' && subject === undefined) await servers(invocation);
    else if (verb === 'login' && subject !== undefined) await login(invocation, subject);
    else if (verb === 'logout' && subject !== undefined) await logout(invocation, subject);
    else if (verb === 'pins' && subject === undefined) await pins(invocation);
    else if (verb === 'approve' && (subject === undefined) === (invocation.values.all === true)) {
      await approve(invocation, subject);
    } else throw misuse(command, invocation.words);
  },
};

async function list({ connect, values, output }: Invocation): Promise<void> {
  const { as } = values;
  const rows = await (await connect()).call<ToolRow[]>('tools', { as });
  output.table(
    rows,
    ['TOOL', 'DESCRIPTION'],
    rows.map(({ name, title, description }) => [name, title ?? description?.split('\n')[0] ?? '']),
    'no agent offers a tool; see `agent.tool()` in the README',
  );
}

async function servers({ connect, output }: Invocation): Promise<void> {
  const rows = await (await connect()).call<UpstreamStatus[]>('tools.servers');
  output.table(
    rows,
    ['SERVER', 'AGENT', 'STATE', 'TOOLS', 'RESOURCES', 'PROMPTS', 'QUARANTINED', 'REMARK'],
    rows.map(({ name, agent, state, offered, quarantined, reason, problems }) => [
      name,
      agent,
      state,
      String(offered.tool),
      String(offered.resource + offered.template),
      String(offered.prompt),
      String(quarantined),
      [...(reason === null ? [] : [reason]), ...problems].join('; '),
    ]),
    'no MCP servers; add "mcpServers" to ecliptic.json',
  );
}

async function login({ connect, output }: Invocation, server: string): Promise<void> {
  const done = await (await connect()).call<{ server: string }>('tools.login', { server }, (event) => {
    const { url } = event as { url: string };
    output.value({ server, url }, () => `Open this in your browser, and log in:\n\n  ${url}\n\nWaiting …`);
  });
  output.value({ ...done, done: true }, () => `You are logged in to ${server}.`);
}

async function logout({ connect, output }: Invocation, server: string): Promise<void> {
  const done = await (await connect()).call('tools.logout', { server });
  output.value(done, () => `The login to ${server} is forgotten.`);
}

async function pins({ connect, output }: Invocation): Promise<void> {
  const rows = await (await connect()).call<PinRow[]>('tools.pins');
  output.table(
    rows,
    ['SERVER', 'KIND', 'NAME', 'STATE', 'ID'],
    rows.map(({ server, kind, name, state, id }) => [server, kind, name, state, id ?? '-']),
    'nothing is pinned: no MCP server has been seen yet',
  );
  if (output.json) return;
  for (const { server, name, summary, diff } of rows.filter(({ state }) => state === 'quarantined')) {
    const lines = [
      '',
      summary ?? '',
      ...diff.map((line) => `  ${line}`),
      `  approve with: ecliptic tools approve ${server}.${name}`,
    ];
    output.value(null, () => lines.join('\n'));
  }
}

async function approve({ connect, output }: Invocation, subject: string | undefined): Promise<void> {
  const which = subject === undefined ? { all: true } : { subject };
  const rows = await (await connect()).call<ApprovedRow[]>('tools.approve', which);
  output.value(rows, () =>
    rows.length === 0 ? 'nothing waits for approval' : rows.map((row) => `${row.subject} is approved.`).join('\n'),
  );
}
