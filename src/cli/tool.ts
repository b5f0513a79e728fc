import type { CallToolResult } from '@modelcontextprotocol/server';
import { markedCode } from '../mcp/failure.js';
import type { CallEvent } from '../node/control/rows.js';
import { EclipticError } from '../runtime/errors.js';
import { duration, flag, text, verb } from './command.js';
import { readPayload } from './input.js';
import { usage } from './output.js';

const list = verb({
  summary: 'list the tools of every agent',
  options: { as: text('AGENT', 'only tools that this agent of the node may call') },
  examples: ['', '--as mars --json'],
  async run({ call: ask, values: { as }, output }) {
    const rows = await ask('tools', { as });
    output.rows(rows, 'no agent offers a tool; see `agent.tool()` in the README', (row) => ({
      TOOL: row.name,
      DESCRIPTION: row.title ?? row.description?.split('\n')[0] ?? '',
    }));
  },
});

const call = verb({
  summary: 'call a tool and print its result',
  args: ['AGENT.TOOL', 'JSON?'],
  argHelp: [['JSON', 'the arguments, an object (default: {}); - reads it from standard input']],
  options: {
    as: text('AGENT', 'the caller: an agent of this node (default: you, the operator)'),
    timeout: duration('how long to wait (default: as long as the tool allows)', 'ms'),
  },
  examples: [
    `mars.build '{"target":"login"}'`,
    'mars@3f9a.describe   # a tool on another node; its key may be shortened',
    'venus.palette --json',
  ],
  async run({ call: ask, values: { as, timeout: timeoutMs }, words: [tool, json = '{}'], output }) {
    // The node refuses arguments that are no object.
    const args = (await readPayload(json)) as Record<string, unknown>;
    const result = await ask('call', { tool, arguments: args, as, timeoutMs }, (event) => {
      if (!output.json) process.stderr.write(`${eventText(event)}\n`);
    });
    if (result.isError) {
      throw new EclipticError(markedCode(result) ?? 'HANDLER_FAILED', texts(result).join('\n') || 'the tool failed');
    }
    output.value(result, () => resultText(result));
  },
});

function resultText(result: CallToolResult): string {
  if (result.structuredContent !== undefined) return JSON.stringify(result.structuredContent, null, 2);
  const found = texts(result);
  return found.length === result.content.length ? found.join('\n') : JSON.stringify(result, null, 2);
}

function texts({ content }: CallToolResult): string[] {
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
}

function eventText({ progress, log }: CallEvent): string {
  if (progress) {
    const share = progress.total === undefined ? progress.progress : `${progress.progress}/${progress.total}`;
    return `… ${share} ${progress.message ?? ''}`.trimEnd();
  }
  return `${log?.level}: ${typeof log?.data === 'string' ? log.data : JSON.stringify(log?.data)}`;
}

const servers = verb({
  summary: 'list the MCP servers of the configuration, and their states',
  async run({ call: ask, output }) {
    const rows = await ask('tools.servers');
    output.rows(rows, 'no MCP servers; add "mcpServers" to ecliptic.json', (row) => ({
      SERVER: row.name,
      AGENT: row.agent,
      STATE: row.state,
      TOOLS: row.offered.tool,
      RESOURCES: row.offered.resource + row.offered.template,
      PROMPTS: row.offered.prompt,
      QUARANTINED: row.quarantined,
      REMARK: [row.reason ?? [], row.problems].flat().join('; '),
    }));
  },
});

const login = verb({
  summary: 'log in to an MCP server: prints the URL to open, and waits',
  args: ['SERVER'],
  examples: ['github'],
  async run({ call: ask, words: [server], output }) {
    const done = await ask('tools.login', { server }, ({ url }) => {
      output.value({ server, url }, () => `Open this in your browser, and log in:\n\n  ${url}\n\nWaiting …`);
    });
    output.value({ ...done, done: true }, () => `You are logged in to ${server}.`);
  },
});

const logout = verb({
  summary: 'forget the login to an MCP server',
  args: ['SERVER'],
  examples: ['github'],
  async run({ call: ask, words: [server], output }) {
    const done = await ask('tools.logout', { server });
    output.value(done, () => `The login to ${server} is forgotten.`);
  },
});

const pins = verb({
  summary: 'list the pinned definitions of MCP servers, and the changes that wait for approval',
  async run({ call: ask, output }) {
    const rows = await ask('tools.pins');
    output.rows(rows, 'no definitions are pinned: no MCP server has connected yet', (row) => ({
      SERVER: row.server,
      KIND: row.kind,
      NAME: row.name,
      STATE: row.state,
      ID: row.id,
    }));
    if (output.json) return;
    for (const { server, name, summary, diff } of rows.filter(({ state }) => state === 'quarantined')) {
      const lines = [
        '',
        summary ?? '',
        ...diff.map((line) => `  ${line}`),
        `  approve with: ecliptic tool approve ${server}.${name}`,
      ];
      output.value(null, () => lines.join('\n'));
    }
  },
});

const approve = verb({
  summary: 'approve a changed, renamed or new definition of an MCP server',
  args: ['SERVER.TOOL|ID?'],
  options: { all: flag('approve every definition that waits') },
  examples: ['github.search', '--all'],
  async run({ call: ask, values: { all }, words: [subject], output }) {
    if ((subject === undefined) !== (all === true)) throw usage('SERVER.TOOL or ID is missing; or give --all alone');
    const rows = await ask('tools.approve', { all, subject });
    output.value(rows, () =>
      rows.length === 0 ? 'nothing waits for approval' : rows.map((row) => `${row.subject} is approved.`).join('\n'),
    );
  },
});

export const verbs = { list, call, servers, login, logout, pins, approve };
