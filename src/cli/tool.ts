import type { CallToolResult, InputRequest } from '@modelcontextprotocol/server';
import { type NeedsInput, needsInput } from '../mcp/call.js';
import { markedCode } from '../mcp/failure.js';
import type { CallEvent } from '../node/control/rows.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import { duration, flag, text, verb } from './command.js';
import { answerAtTerminal, answersFrom } from './form.js';
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
    answer: text(
      'JSON',
      'answers what the tool asks: the fields of its form, or decline (default: ask at the terminal)',
    ),
  },
  examples: [
    `mars.build '{"target":"login"}'`,
    'mars@3f9a.describe   # a tool on another node; its key may be shortened',
    'venus.palette --json',
    `mars.deploy '{}' --answer '{"confirm":true}'`,
  ],
  async run({ call: ask, values: { as, timeout: timeoutMs, answer }, words: [tool, json = '{}'], output }) {
    // The node refuses arguments that are no object.
    const args = (await readPayload(json)) as Record<string, unknown>;
    const tell = (event: CallEvent) => {
      if (!output.json) process.stderr.write(`${eventText(event)}\n`);
    };
    const reply = answer === undefined ? answerAtTerminal : answersFrom(answer);
    const canAnswer = answer !== undefined || (process.stdin.isTTY && json !== '-' && !output.json);
    const parameters = { tool, arguments: args, as, timeoutMs };
    const result = canAnswer
      ? await asked((round) => ask('call.round', { ...parameters, ...round }, tell), reply)
      : await ask('call', parameters, tell).catch(sayingHow);
    if (result.isError) {
      throw new EclipticError(markedCode(result) ?? 'HANDLER_FAILED', texts(result).join('\n') || 'the tool failed');
    }
    output.value(result, () => resultText(result));
  },
});

interface Round {
  readonly answers?: Record<string, unknown>;
  readonly state?: string | undefined;
}

const MAX_ROUNDS = 32;

/** Calls until the tool has no more questions. */
async function asked(
  call: (round: Round) => Promise<CallToolResult | NeedsInput>,
  reply: (request: InputRequest) => Promise<object>,
): Promise<CallToolResult> {
  let round: Round = {};
  for (let rounds = 0; rounds < MAX_ROUNDS; rounds++) {
    const result = await call(round);
    if (!needsInput(result)) return result;
    const answers: Record<string, unknown> = {};
    for (const [key, request] of Object.entries(result.inputRequests ?? {})) answers[key] = await reply(request);
    round = { answers, state: result.requestState };
  }
  throw new EclipticError('HANDLER_FAILED', `the tool asked ${MAX_ROUNDS} times, and did not end`);
}

/** Says how to answer a tool that asks, where there is no terminal. */
function sayingHow(error: unknown): never {
  const { code, message, details } = toEclipticError(error, 'HANDLER_FAILED');
  if (code !== 'CAPABILITY_REQUIRED') throw error;
  throw new EclipticError(code, `${message}; call it at a terminal, or with --answer JSON`, details);
}

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
