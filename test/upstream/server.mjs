import { appendFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

/**
 * An MCP server made with the SDK: `node server.mjs LISTS MODE`. Its lists are read from a JSON file each time, so
 * that a test can change it. MODE is `stdio`, `stdio-modern` (it refuses older clients), or `http`, which writes its
 * port to standard output.
 */
const [file, mode] = process.argv.slice(2);
const lists = () => JSON.parse(readFileSync(file, 'utf8'));
const text = (value) => ({
  content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }],
});
const note = (line) => appendFileSync(`${file}.log`, `${line}\n`);

const TOOLS = {
  echo: (args, { mcpReq, http }) =>
    text({
      args,
      meta: mcpReq._meta ?? {},
      env: Object.keys(process.env),
      secret: process.env.API_KEY ?? null,
      headers: http?.req ? Object.fromEntries(http.req.headers) : {},
    }),
  die: () => {
    note('die');
    process.exit(3);
  },
  fail: () => ({ ...text('it did not work'), isError: true }),
  refuse: () => {
    throw Object.assign(new Error('no such thing'), { code: -32602 });
  },
  slow: (_args, { mcpReq }) =>
    new Promise((resolve) => {
      note('slow');
      mcpReq.signal.addEventListener('abort', () => {
        note('cancelled');
        resolve(text('too late'));
      });
    }),
  steps: async (_args, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [1, 2, 3]) {
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } });
    }
    await mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data: 'halfway' } });
    return text('done');
  },
  interview: async (_args, { mcpReq }) => {
    const requestedSchema = { type: 'object', properties: { tone: { type: 'string', default: 'kind' } } };
    const first = await mcpReq.elicitInput({ mode: 'form', message: 'first?', requestedSchema });
    const second = await mcpReq.elicitInput({ mode: 'form', message: 'second?', requestedSchema });
    return text([first, second]);
  },
  ask: (_args, { mcpReq }) => {
    const state = mcpReq.requestState();
    if (state !== undefined) return text({ state, answers: mcpReq.inputResponses });
    const params = { mode: 'form', message: 'who?', requestedSchema: { type: 'object', properties: {} } };
    return {
      resultType: 'input_required',
      inputRequests: { who: { method: 'elicitation/create', params } },
      requestState: `state of ${process.pid}`,
    };
  },
};

function build() {
  const listed = { listChanged: true };
  const capabilities = {
    tools: listed,
    prompts: listed,
    resources: { ...listed, subscribe: true },
    logging: {},
    completions: {},
  };
  const server = new Server({ name: 'fixture', version: '1.0.0' }, { capabilities });
  server.setRequestHandler('tools/list', () => ({ tools: lists().tools ?? [] }));
  server.setRequestHandler('resources/list', () => ({ resources: lists().resources ?? [] }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: lists().templates ?? [] }));
  server.setRequestHandler('prompts/list', () => ({ prompts: lists().prompts ?? [] }));
  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    note(`call ${params.name}`);
    if (params.name === 'change') {
      changed(server);
      return text('changed');
    }
    return TOOLS[params.name](params.arguments ?? {}, ctx);
  });
  server.setRequestHandler('resources/read', ({ params }) => ({
    contents: [{ uri: params.uri, text: `at ${params.uri}` }],
  }));
  server.setRequestHandler('prompts/get', ({ params }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `hello ${params.arguments?.name}` } }],
  }));
  server.setRequestHandler('completion/complete', ({ params }) => ({
    completion: { values: [`${params.argument.value}-completed`] },
  }));
  server.setRequestHandler('resources/subscribe', () => ({}));
  server.setRequestHandler('resources/unsubscribe', () => ({}));
  server.setRequestHandler('logging/setLevel', () => ({}));
  return server;
}

let handler;

function changed(server) {
  if (handler) {
    handler.notify.toolsChanged();
    handler.notify.resourceUpdated('note://one');
    return;
  }
  void server.sendToolListChanged();
  void server.sendResourceUpdated({ uri: 'note://one' });
}

note(`start ${process.pid}`);
if (mode === 'http') {
  handler = createMcpHandler(build);
  const listen = toNodeHandler(handler);
  const http = createServer((request, response) => void listen(request, response));
  http.listen(Number(process.argv[4] ?? 0), '127.0.0.1', () => console.log(http.address().port));
} else serveStdio(build, { legacy: mode === 'stdio-modern' ? 'reject' : 'serve' });
