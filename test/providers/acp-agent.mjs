import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

/** An agent over the Agent Client Protocol that executes its prompts, one command per line. */
const [mode = 'good', flag] = process.argv.slice(2);
const sessions = new Map();
let opened = 0;
let logins = 0;
let capabilities;
/** Agents that load or resume sessions keep them in their folder. */
const KEEPS = ['load', 'resume'].includes(mode);
const fileOf = (cwd, sessionId) => join(cwd, `session-${sessionId}.json`);

async function connect(server) {
  const client = new Client({ name: 'test agent', version: '1.0.0' });
  const transport = server.url
    ? new StreamableHTTPClientTransport(new URL(server.url), {
        requestInit: { headers: Object.fromEntries(server.headers.map(({ name, value }) => [name, value])) },
      })
    : new StdioClientTransport({
        command: server.command,
        args: server.args,
        env: Object.fromEntries(server.env.map(({ name, value }) => [name, value])),
      });
  await client.connect(transport);
  return client;
}

const commands = {
  async say({ chunk }, text) {
    for (const word of text.split(' ')) await chunk(`${word} `);
  },
  async think({ update }, text) {
    await update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } });
  },
  async plan({ update }, text) {
    const entries = text.split(',').map((content) => ({ content, priority: 'medium', status: 'pending' }));
    await update({ sessionUpdate: 'plan', entries });
  },
  async tool({ update }, title) {
    await update({ sessionUpdate: 'tool_call', toolCallId: 't1', title, kind: 'read', status: 'pending' });
    await update({ sessionUpdate: 'tool_call_update', toolCallId: 't1', status: 'completed' });
  },
  async ask({ client, sessionId, chunk }, title) {
    const { outcome } = await client.request('session/request_permission', {
      sessionId,
      toolCall: {
        ...{ toolCallId: 't2', title, kind: 'edit', rawInput: { path: 'a.txt' } },
        content: [{ type: 'diff', path: 'a.txt', oldText: 'one\n', newText: 'two\n' }],
      },
      options: [
        { optionId: 'always', name: 'Always', kind: 'allow_always' },
        { optionId: 'once', name: 'Once', kind: 'allow_once' },
        { optionId: 'no', name: 'No', kind: 'reject_once' },
      ],
    });
    await chunk(outcome.outcome === 'selected' ? outcome.optionId : outcome.outcome);
  },
  async read({ client, sessionId, chunk }, path) {
    await chunk((await client.request('fs/read_text_file', { sessionId, path })).content);
  },
  async write({ client, sessionId, chunk }, rest) {
    const [path, ...words] = rest.split(' ');
    await client.request('fs/write_text_file', { sessionId, path, content: words.join(' ') });
    await chunk('written');
  },
  async run({ client, sessionId, chunk }, command) {
    const terminal = await client.createTerminal({ sessionId, command });
    const { exitCode } = await terminal.waitForExit();
    const { output } = await terminal.currentOutput();
    await terminal.release();
    await chunk(`${exitCode}:${output}`);
  },
  async background({ client, sessionId, chunk }, command) {
    const terminal = await client.createTerminal({ sessionId, command });
    for (;;) {
      const { output } = await terminal.currentOutput();
      if (output.includes('\n')) return chunk(output);
    }
  },
  async env({ chunk }, name) {
    await chunk(process.env[name] ?? 'nothing');
  },
  async file({ chunk }, path) {
    await chunk(readFileSync(path, 'utf8'));
  },
  async servers({ chunk, servers }) {
    await chunk(servers.map((server) => server.type ?? 'stdio').join(','));
  },
  async tools({ chunk, servers }) {
    const client = await connect(servers[0]);
    const { tools } = await client.listTools();
    await chunk(JSON.stringify(tools.map(({ name }) => name).sort()));
    await client.close();
  },
  async resource({ chunk, servers }, uri) {
    const client = await connect(servers[0]);
    const told = await client.readResource({ uri }).catch((error) => ({ refused: error.message }));
    await chunk(JSON.stringify(told));
    await client.close();
  },
  async call({ chunk, servers }, rest) {
    const [name, ...args] = rest.split(' ');
    const client = await connect(servers[0]);
    const told = await client
      .callTool({ name, arguments: JSON.parse(args.join(' ') || '{}') })
      .catch((error) => ({ refused: error.message }));
    await chunk(JSON.stringify(told));
    await client.close();
  },
  /** Sends an A2A message with the token that it was handed. */
  async message({ chunk, servers }, tenant) {
    const { url, headers } = servers[0];
    const response = await fetch(new URL('/a2a/rpc', url), {
      method: 'POST',
      headers: {
        ...Object.fromEntries(headers.map(({ name, value }) => [name, value])),
        'a2a-version': '1.0',
        'content-type': 'application/json',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SendMessage',
        params: { tenant, message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'let me out' }] } },
      }),
    });
    await chunk(JSON.stringify(await response.json()));
  },
  async token({ chunk, servers }) {
    await chunk(servers[0].headers[0].value);
  },
  async hang({ turn }) {
    await new Promise((resolve) => turn.signal.addEventListener('abort', resolve));
  },
  async rest(_, ms) {
    await new Promise((resolve) => setTimeout(resolve, Number(ms)));
  },
  async deaf() {
    await new Promise(() => {});
  },
  /** Tells what the turn cost, and the sum of the session. */
  async cost({ turn, session, update }, usd) {
    session.cost = (session.cost ?? 0) + Number(usd);
    turn.usage = { inputTokens: 7, cachedReadTokens: 3, outputTokens: 2, totalTokens: 12 };
    await update({ sessionUpdate: 'usage_update', used: 1, size: 2, cost: { amount: session.cost, currency: 'USD' } });
  },
  async refuse({ turn }) {
    turn.stopReason = 'refusal';
  },
  async fail() {
    throw new acp.RequestError(-32603, 'it went wrong');
  },
  async die() {
    process.kill(process.pid, 'SIGKILL');
  },
  async summary({ chunk, session }) {
    await chunk(session.summary ?? 'none');
  },
  async session({ chunk, sessionId }) {
    await chunk(sessionId);
  },
  async sessions({ chunk }) {
    await chunk(`${sessions.size} of ${opened}`);
  },
  async blocks({ chunk, prompt }) {
    await chunk(JSON.stringify(prompt.slice(1)));
  },
  async mode({ chunk, session }) {
    await chunk(`${session.mode} ${process.env.INITIAL_AGENT_MODE}`);
  },
  async chosen({ chunk, session }) {
    await chunk(JSON.stringify(session.chosen ?? null));
  },
  async capabilities({ chunk }) {
    await chunk(JSON.stringify(capabilities));
  },
  /** Works for a while, and says so now and then. */
  async work({ update }, ms) {
    for (let passed = 0; passed < Number(ms); passed += 100) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      await update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: '.' } });
    }
  },
  async limited() {
    throw new acp.RequestError(429, 'Rate limit exceeded. Try again later.');
  },
  async meta({ chunk, meta }) {
    await chunk(JSON.stringify(meta));
  },
  async pid({ chunk }) {
    await chunk(String(process.pid));
  },
  async flood() {
    const pour = () => process.stdout.write(`${'x'.repeat(100)}\n`.repeat(100), pour);
    pour();
    await new Promise(() => {});
  },
};

const greeting = {
  protocolVersion: mode === 'future' ? 2 : acp.PROTOCOL_VERSION,
  agentInfo: { name: 'test-agent', version: '1.2.3' },
  agentCapabilities: {
    mcpCapabilities: { http: flag !== 'no-http' },
    ...(mode === 'load' && { loadSession: true }),
    sessionCapabilities: { ...(mode !== 'unclosable' && { close: {} }), ...(mode === 'resume' && { resume: {} }) },
    promptCapabilities: { image: true, embeddedContext: flag !== 'plain' },
  },
  authMethods: mode === 'login' ? [{ id: 'key', name: 'API key' }] : [],
};

const choice = (...values) => ({ type: 'select', options: values.map((value) => ({ value, name: value })) });
const OPTIONS = [
  { id: 'permissions', name: 'Mode', category: 'mode', currentValue: 'free', ...choice('free', 'ask') },
  { id: 'brain', name: 'Model', category: 'model', currentValue: 'small', ...choice('small', 'large') },
  { id: 'effort', name: 'Effort', currentValue: 'low', ...choice('low', 'high') },
  { id: 'fast', name: 'Fast', type: 'boolean', currentValue: false },
];

/** A loaded session tells what was said in it; a resumed one does not. */
async function again({ sessionId, cwd, mcpServers }, client) {
  if (!existsSync(fileOf(cwd, sessionId))) throw acp.RequestError.resourceNotFound(sessionId);
  const said = JSON.parse(readFileSync(fileOf(cwd, sessionId), 'utf8'));
  sessions.set(sessionId, { cwd, servers: mcpServers, said });
  for (const text of client ? said : []) {
    const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } };
    await client.notify('session/update', { sessionId, update });
  }
  return {};
}

const app = acp
  .agent({ name: 'test-agent' })
  .onRequest('initialize', ({ params }) => {
    capabilities = params.clientCapabilities;
    if (mode === 'mute') return new Promise(() => {});
    if (mode === 'slow') return new Promise((resolve) => setTimeout(resolve, Number(flag))).then(() => greeting);
    return greeting;
  })
  .onRequest('authenticate', ({ params }) => {
    if (params.methodId === 'key') logins++;
  })
  .onRequest('session/new', ({ params }) => {
    if (mode === 'login' && logins === 0) throw acp.RequestError.authRequired();
    const sessionId = KEEPS ? `s${process.pid}-${++opened}` : `s${++opened}`;
    // Each session of a heavy agent takes memory, as each of Claude's does.
    const weight = mode === 'heavy' ? Buffer.alloc(100 * 1_048_576, 1) : undefined;
    sessions.set(sessionId, { cwd: params.cwd, servers: params.mcpServers, said: [], weight });
    if (mode === 'no-model') {
      // As opencode does where no provider is set up.
      const none = { currentValue: 'unknown/unknown', options: [] };
      return { sessionId, configOptions: [{ id: 'model', name: 'Model', category: 'model', type: 'select', ...none }] };
    }
    if (mode === 'models') {
      // As Gemini CLI lists them.
      const availableModels = ['small', 'large'].map((modelId) => ({ modelId, name: modelId }));
      return { sessionId, models: { currentModelId: 'small', availableModels } };
    }
    if (mode === 'options') return { sessionId, configOptions: OPTIONS };
    if (mode !== 'modes') return { sessionId };
    const availableModes = ['agent', 'read-only'].map((id) => ({ id, name: id }));
    return { sessionId, modes: { currentModeId: 'agent', availableModes } };
  })
  .onRequest('session/load', ({ params, client }) => again(params, client))
  .onRequest('session/resume', ({ params }) => again(params))
  .onRequest('session/set_mode', ({ params }) => {
    sessions.get(params.sessionId).mode = params.modeId;
    return {};
  })
  .onRequest('session/set_config_option', ({ params: { sessionId, configId, value } }) => {
    const session = sessions.get(sessionId);
    session.chosen = { ...session.chosen, [configId]: value };
    return { configOptions: OPTIONS };
  })
  .onRequest(
    'session/set_model',
    (params) => params,
    ({ params }) => {
      sessions.get(params.sessionId).chosen = { model: params.modelId };
      return {};
    },
  )
  .onRequest('session/close', ({ params }) => {
    sessions.delete(params.sessionId);
    globalThis.gc?.();
  })
  .onNotification('session/cancel', ({ params }) => {
    sessions.get(params.sessionId)?.turn?.abort();
  })
  .onRequest('session/prompt', async ({ params, client }) => {
    // Claude gives sessions without a login, and refuses prompts.
    if (mode === 'prompt-login' && logins === 0) throw acp.RequestError.authRequired({ details: 'Please run /login' });
    const { sessionId, prompt: given } = params;
    // A summary of an earlier session asks for nothing.
    const isSummary = given[0].text?.startsWith('This conversation began in an earlier session');
    const prompt = isSummary ? given.slice(1) : given;
    if (mode === 'bad-key') {
      const content = { type: 'text', text: 'Invalid API key' };
      await client.notify('session/update', { sessionId, update: { sessionUpdate: 'agent_message_chunk', content } });
      throw acp.RequestError.authRequired();
    }
    const session = sessions.get(sessionId);
    const abort = new AbortController();
    const turn = { signal: abort.signal, stopReason: 'end_turn' };
    session.turn = abort;
    const update = (one) => client.notify('session/update', { sessionId, update: one });
    const chunk = (text) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
    const context = { client, session, sessionId, update, chunk, turn, servers: session.servers, prompt };
    context.meta = params._meta;
    if (isSummary) session.summary = given[0].text;
    for (const line of prompt[0].text.split('\n')) {
      const [, command, rest] = /^do:(\w+) ?(.*)$/.exec(line) ?? [];
      if (command === 'remember') {
        session.said.push(rest);
        if (KEEPS) writeFileSync(fileOf(session.cwd, sessionId), JSON.stringify(session.said));
      } else if (command === 'recall') await chunk(session.said.join('|'));
      else if (command) {
        try {
          await commands[command](context, rest);
        } catch (error) {
          if (['fail', 'break', 'limited'].includes(command)) throw error;
          await chunk(`refused ${error.code}`);
        }
      } else session.heard = [...(session.heard ?? []), line];
    }
    if (prompt[0].text.includes('do:heard')) await chunk(session.heard.join('\n'));
    return { stopReason: abort.signal.aborted ? 'cancelled' : turn.stopReason, usage: turn.usage };
  });

commands.heard = async () => {};
commands.break = async (_, details) => {
  throw acp.RequestError.internalError({ details });
};
app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
