import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { said, TaskNode } from '../a2a/task-node.js';

/** A request to an edge that an admitted caller may make of the agent. */
interface Edge {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly scope: 'tasks' | 'tools';
  readonly body?: (agent: string) => unknown;
  /** The form in which it refuses what it was sent: JSON-RPC answers with 200. */
  readonly faults?: 'JSON-RPC';
  /** Takes a body of any media type. */
  readonly anyType?: true;
}

const MCP = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
};
const words = (content: string) => [{ role: 'user', content }];

/** Every edge that callers reach over HTTP. A new one belongs here. */
const EDGES: Readonly<Record<string, Edge>> = {
  MCP: { method: 'POST', path: '/mcp', scope: 'tools', body: () => MCP },
  'A2A over JSON-RPC': {
    ...{ method: 'POST', path: '/a2a/rpc', scope: 'tasks', faults: 'JSON-RPC' },
    body: (tenant) => ({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { ...said('x'), tenant } }),
  },
  'A2A over HTTP': {
    ...{ method: 'POST', path: '/a2a/v1/message:send', scope: 'tasks' },
    body: (tenant) => ({ ...said('x'), tenant }),
  },
  'simple tasks': {
    method: 'POST',
    path: '/a2a/tasks/send',
    scope: 'tasks',
    body: () => ({ message: 'x' }),
    anyType: true,
  },
  'OpenAI models': { method: 'GET', path: '/v1/models', scope: 'tasks' },
  'OpenAI chat': {
    ...{ method: 'POST', path: '/v1/chat/completions', scope: 'tasks' },
    body: (model) => ({ model, messages: words('x') }),
  },
  'OpenAI responses': {
    ...{ method: 'POST', path: '/v1/responses', scope: 'tasks' },
    body: (model) => ({ model, input: 'x' }),
  },
  'AG-UI': {
    ...{ method: 'POST', path: '/agui/watched', scope: 'tasks' },
    body: () => ({ threadId: 't', runId: 'r', messages: [{ id: 'm', ...words('x')[0] }], tools: [], context: [] }),
  },
};

const ALL = Object.entries(EDGES);
const POSTS = ALL.filter(([, { method }]) => method === 'POST');
/** The edges that give an agent a task by its name. */
const TASKS = POSTS.filter(([, { scope, anyType }]) => scope === 'tasks' && !anyType);

let served: TaskNode;
let hurried: TaskNode;
let runs = 0;

beforeAll(async () => {
  [served, hurried] = await Promise.all([TaskNode.start(), TaskNode.start({ requestsPerMinute: 2 })]);
  served.node.agent({ id: 'watched' }).onTask(() => `run ${++runs}`);
  served.node.agent({ id: 'endless' }).onTask((task) => {
    task.progress('begun');
    return new Promise((_, reject) => task.signal.addEventListener('abort', () => reject(task.signal.reason)));
  });
});

afterAll(() => Promise.all([served.stop(), hurried.stop()]));

interface Sent {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

async function send(
  edge: Edge,
  headers: Record<string, string>,
  { node = served, agent = 'watched', raw = '' } = {},
): Promise<Sent> {
  const body = raw === '' && edge.body ? JSON.stringify(edge.body(agent)) : raw;
  const answer = await fetch(`${node.url}${edge.path}`, {
    method: edge.method,
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'A2A-Version': '1.0',
      ...headers,
    },
    ...(edge.method === 'POST' && { body }),
  });
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

/** The status of a request whose lines are written as they are. */
function rawStatus(edge: Edge, lines: readonly string[]): Promise<number> {
  const { hostname, port } = new URL(served.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(`${edge.method} ${edge.path} HTTP/1.1\r\n${lines.join('\r\n')}\r\nContent-Length: 0\r\n\r\n`);
    });
    socket.on('error', reject);
    socket.once('data', (data) => {
      resolve(Number(String(data).split(' ')[1]));
      socket.destroy();
    });
  });
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

describe.each(ALL)('%s', (_, edge) => {
  it('takes a caller with a token of its scope, and no other [EG.S1]', async () => {
    const { tokens } = served.gateway;
    const { id, token: own } = tokens.create('scoped', undefined, [edge.scope]);
    const other = tokens.create('wrong', undefined, [edge.scope === 'tasks' ? 'tools' : 'tasks']);
    const admitted = await send(edge, bearer(own));
    expect([admitted.status, admitted.text]).toEqual([200, expect.not.stringMatching(/"error":\{|RUN_ERROR/)]);
    for (const headers of [{}, bearer('ecl_wrong'), { Authorization: 'Basic YTpi' }]) {
      const refused = await send(edge, headers);
      expect(refused.status).toBe(401);
      expect(refused.headers.get('www-authenticate')).toContain('Bearer');
    }
    const refused = await send(edge, bearer(other.token));
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
      403,
      expect.stringContaining(edge.scope),
    ]);
    for (const revoked of [id, other.id]) served.gateway.revoke(revoked);
    expect((await send(edge, bearer(own))).status).toBe(401);
  });

  it('takes only its own Host, and no foreign Origin [EG.S2]', async () => {
    const { host } = new URL(served.url);
    const owner = `Authorization: Bearer ${served.owner}`;
    for (const lines of [
      ['Host: evil.example', owner],
      [`Host: ${host}`, 'Origin: https://evil.example', owner],
      [`Host: ${host}`, 'Host: evil.example', owner],
      [`Host: evil@${host}`, owner],
    ]) {
      expect(await rawStatus(edge, lines), lines.join()).toBe(403);
    }
  });

  it('limits the requests of each caller [EG.S3]', async () => {
    const headers = bearer(hurried.token(`caller-${edge.path.replaceAll(/\W/g, '')}`));
    const answers: Sent[] = [];
    for (let n = 0; n < 3; n++) answers.push(await send(edge, headers, { node: hurried, agent: 'echo' }));
    expect(answers.at(-1)!.status).toBe(429);
    expect(Number(answers.at(-1)!.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

describe.each(POSTS)('%s', (_, edge) => {
  it('refuses a body that is too large, and one that is no JSON [EG.S4]', async () => {
    const owner = bearer(served.owner);
    const large = await send(edge, owner, { raw: `"${'x'.repeat(4_300_000)}"` });
    expect([large.status, large.text]).toEqual(
      edge.faults ? [200, expect.stringContaining('PAYLOAD_TOO_LARGE')] : [413, expect.any(String)],
    );
    const broken = await send(edge, owner, { raw: '{"a' });
    expect([broken.status, broken.text]).toEqual([edge.faults ? 200 : 400, expect.stringContaining('error')]);
    if (edge.anyType) return;
    const typed = await send(edge, { ...owner, 'Content-Type': 'text/plain' });
    expect(typed.status).toBe(415);
  });
});

describe.each(TASKS)('%s', (_, edge) => {
  it('leaves a caller in its sandbox: an agent outside gets nothing of it [EG.S5]', async () => {
    const before = runs;
    const { token } = served.gateway.tokens.create('boxed', 'lab');
    const { text } = await send(edge, bearer(token));
    served.gateway.revoke('boxed');
    expect(runs).toBe(before);
    expect(text).not.toContain('run ');
    expect(text).toMatch(/sandbox|SANDBOX/);
  });
});

describe.each([
  ['A2A', '/a2a/v1/message:stream', { ...said('x'), tenant: 'endless' }],
  ['OpenAI chat', '/v1/chat/completions', { model: 'endless', messages: words('x'), stream: true }],
  ['OpenAI responses', '/v1/responses', { model: 'endless', input: 'x', stream: true }],
  ['AG-UI', '/agui/endless', { threadId: 's', runId: 'r', messages: [{ id: 'm', ...words('x')[0] }] }],
] as const)('a stream over %s', (_, path, body) => {
  it('ends with the token of its caller [EG.S6]', async () => {
    const headers = bearer(served.token('streaming'));
    const answer = await served.post(path, body, headers);
    expect(answer.status).toBe(200);
    const reader = answer.body!.getReader();
    await reader.read();
    served.gateway.revoke('streaming');
    const drain = async () => {
      while (!(await reader.read()).done);
    };
    await drain().catch(() => {});
    expect((await served.post(path, body, headers)).status).toBe(401);
  });
});
