import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ForeignServer, ForeignServers } from '../../../test/foreign-servers.js';
import { HurriedRuntime } from '../../../test/hurried-runtime.js';
import { EclipticError } from '../../runtime/errors.js';
import { ExternalServiceError, ValidationError } from '../protocol/errors.js';
import type { A2AAgentCard } from '../protocol/simple.js';
import { clearAgentCardCache, discoverAgent, fetchAgentCard, invokeRemoteAgent } from './remote-agents.js';

const CARD: A2AAgentCard = {
  name: 'Foreign',
  description: 'An agent of somebody else',
  url: 'http://foreign.example',
  version: '1.2.3',
  capabilities: { streaming: false, stateTransitionHistory: true },
  authentication: { schemes: ['Bearer'] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [
    { id: 's', name: 'S', description: '', tags: ['t'], inputModes: ['text/plain'], outputModes: ['text/plain'] },
  ],
  supportedProtocols: [{ protocol: 'A2A', description: 'tasks', endpoint: '/a2a/tasks/send' }],
};

const servers = new ForeignServers();
let runtime: HurriedRuntime;

beforeEach(() => {
  runtime = new HurriedRuntime();
});

afterEach(async () => {
  clearAgentCardCache();
  await servers.close();
});

const allowed = () => ({ runtime, allowPrivate: true });

describe('fetchAgentCard', () => {
  it('gets the card from its well-known place, and keeps it for five minutes [GF.fetchAgentCard GI8 GS4]', async () => {
    const server = await serving(CARD);
    const first = await fetchAgentCard(`${server.origin}/`, allowed());
    expect(first).toEqual(CARD);
    expect(server.requests.map(({ url }) => url)).toEqual(['/.well-known/agent-card.json']);
    runtime.pass(2 * 60_000);
    expect(await fetchAgentCard(server.origin, allowed())).toBe(first);
    expect(server.requests).toHaveLength(1);
    runtime.pass(4 * 60_000);
    await fetchAgentCard(server.origin, allowed());
    expect(server.requests).toHaveLength(2);
  });

  it('asks whether a card has changed, and takes a 304 for no', async () => {
    const server = await servers.http((request, response) => {
      if (request.headers['if-none-match'] === '"a"') response.writeHead(304).end();
      else response.writeHead(200, { etag: '"a"' }).end(JSON.stringify(CARD));
    });
    const first = await fetchAgentCard(server.origin, allowed());
    runtime.pass(300_000);
    expect(await fetchAgentCard(server.origin, allowed())).toBe(first);
    expect(server.requests[1]?.headers['if-none-match']).toBe('"a"');
    // The answer was fresh: another five minutes.
    runtime.pass(299_999);
    await fetchAgentCard(server.origin, allowed());
    expect(server.requests).toHaveLength(2);
  });

  it('makes one request for all who ask at once, and keeps no failure', async () => {
    let status = 500;
    const server = await servers.http((_, response) => {
      setTimeout(() => response.writeHead(status).end(JSON.stringify(CARD)), 20);
    });
    const ask = () => Promise.allSettled(Array.from({ length: 20 }, () => fetchAgentCard(server.origin, allowed())));
    expect((await ask()).every((one) => one.status === 'rejected')).toBe(true);
    status = 200;
    expect((await ask()).filter((one) => one.status === 'rejected')).toEqual([]);
    expect(server.requests).toHaveLength(2);
  });

  it('forgets everything when told to [GF.clearAgentCardCache]', async () => {
    const server = await serving(CARD);
    await fetchAgentCard(server.origin, allowed());
    clearAgentCardCache();
    await fetchAgentCard(server.origin, allowed());
    expect(server.requests).toHaveLength(2);
  });

  it('does not share a card from a private address with callers that may not reach it', async () => {
    const server = await serving(CARD);
    await fetchAgentCard(server.origin, allowed());
    const foreign = fetchAgentCard(server.origin, { runtime, allowPrivate: false });
    await expect(foreign).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
  });

  it.each([404, 500, 302])('throws an ExternalServiceError with the status for HTTP %i [GE2]', async (status) => {
    const server = await servers.http((_, response) => response.writeHead(status).end('no card'));
    const error = await fetchAgentCard(server.origin, allowed()).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(ExternalServiceError);
    expect(error).toBeInstanceOf(EclipticError);
    expect(error).toMatchObject({ status, details: { status }, message: `Agent card fetch failed: HTTP ${status}` });
  });

  it.each([
    [{ version: '1' }, ['name']],
    [{ name: 'x' }, ['version']],
    [{ name: '', version: 7 }, ['name', 'version']],
    [[], ['name', 'version']],
  ])('throws a ValidationError with the fields for the card %j [GI9 GE3]', async (card, fields) => {
    const server = await serving(card);
    const error = await fetchAgentCard(server.origin, allowed()).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(ValidationError);
    expect(error).toMatchObject({ code: 'INVALID_CARD', details: { fields } });
  });

  it.each([
    ['skills that are no list', { ...CARD, skills: 'all' }],
    ['capabilities that are text', { ...CARD, capabilities: 'all' }],
    ['an interface without a URL', { ...CARD, supportedInterfaces: [{ protocolBinding: 'JSONRPC' }] }],
  ])('throws a ValidationError for %s', async (_, card) => {
    const server = await serving(card);
    await expect(fetchAgentCard(server.origin, allowed())).rejects.toBeInstanceOf(ValidationError);
  });

  it('throws a ValidationError for a card that is not JSON', async () => {
    const server = await servers.http((_, response) => response.end('<html>'));
    await expect(fetchAgentCard(server.origin, allowed())).rejects.toBeInstanceOf(ValidationError);
  });

  it('does not take more than a card can need', async () => {
    const server = await servers.http((_, response) => response.end(Buffer.alloc(1_100_000, 0x20)));
    await expect(fetchAgentCard(server.origin, allowed())).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });

  it('gives up on a silent server', async () => {
    runtime = new HurriedRuntime(20);
    const server = await servers.http(() => {});
    await expect(fetchAgentCard(server.origin, allowed())).rejects.toMatchObject({ code: 'FETCH_TIMEOUT' });
  });

  it('goes to no private place, not even when it is sent there', async () => {
    const inside = await serving(CARD);
    for (const url of [
      inside.origin,
      'http://[::1]/',
      'http://2130706433/',
      'http://localhost/',
      'file:///etc/passwd',
    ]) {
      const foreign = fetchAgentCard(url, { runtime, allowPrivate: false });
      await expect(foreign).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    }
    const outside = await servers.http((_, response) => {
      response.writeHead(302, { location: `http://169.254.169.254/latest` }).end();
    });
    const options = { runtime, allowPrivate: [outside.place] };
    await expect(fetchAgentCard(outside.origin, options)).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    expect(inside.requests).toHaveLength(0);
  });
});

describe('a URL of this machine that the caller’s own code names', () => {
  it('is fetched from without an option, and nothing else inside is [T-C16]', async () => {
    const server = await serving(CARD);
    expect(await fetchAgentCard(server.origin, { runtime })).toEqual(CARD);
    expect(await discoverAgent(server.origin.replace('127.0.0.1', 'localhost'), { runtime })).toEqual(CARD);
    const { success, error } = await invokeRemoteAgent(server.origin, 'hello', { runtime });
    expect({ success, error }).not.toMatchObject({ error: expect.stringMatching(/private|loopback|not public/i) });
    expect(server.requests.length).toBeGreaterThan(2);
    const agent = { ...CARD, url: `${server.origin}/a2a` };
    const named = await serving(agent);
    const { error: refusal } = await invokeRemoteAgent(named.origin.replace('127.0.0.1', 'localhost'), 'hello', {
      runtime,
    });
    expect(refusal ?? '').not.toMatch(/may not be fetched/);
    const inside = await serving(CARD);
    const leading = await servers.http((_, response) => {
      response.writeHead(302, { location: inside.origin }).end();
    });
    await expect(fetchAgentCard(leading.origin, { runtime })).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    for (const url of ['http://10.0.0.1:81/', 'http://169.254.169.254/', 'http://printer.local/']) {
      await expect(fetchAgentCard(url, { runtime })).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    }
    expect(inside.requests).toHaveLength(0);
  });
});

describe('discoverAgent', () => {
  it('gives the card, or null after any failure [GF.discoverAgent GE4]', async () => {
    const server = await serving(CARD);
    expect(await discoverAgent(server.origin, allowed())).toEqual(CARD);
    const broken = await servers.http((_, response) => response.writeHead(500).end());
    expect(await discoverAgent(broken.origin, allowed())).toBeNull();
    expect(await discoverAgent((await serving({})).origin, allowed())).toBeNull();
    expect(await discoverAgent('not a url', allowed())).toBeNull();
  });
});

describe('invokeRemoteAgent', () => {
  beforeEach(() => {
    runtime = new HurriedRuntime(20);
  });

  it('submits a task, asks every three seconds, and gives the last words of the agent [GF.invokeRemoteAgent GI10 GI11 GS3 GT.RemoteInvocationResult]', async () => {
    const server = await simple(['submitted', 'working', 'working', 'completed'], ['Thinking', 'Summary', 'of this']);
    const result = await invokeRemoteAgent(server.origin, 'Summarize this', {
      ...allowed(),
      skill: 'sum',
      token: 'secret',
    });
    expect(result).toEqual({ success: true, taskId: 'task-1', responseText: 'Summary\nof this' });
    expect(server.bodies).toEqual([
      { method: 'tasks/send', params: { message: 'Summarize this', skill: 'sum', timeoutMs: 300_000 } },
    ]);
    const asked = server.requests.filter(({ url }) => url === '/a2a/tasks/task-1');
    expect(asked).toHaveLength(3);
    expect(server.requests.every(({ headers }) => headers.authorization === 'Bearer secret')).toBe(true);
    expect(runtime.timers.filter((ms) => ms === 3_000)).toHaveLength(2);
  });

  it('needs no card for that', async () => {
    const server = await simple(['completed'], ['', 'done'], { card: undefined });
    expect(await invokeRemoteAgent(server.origin, 'x', allowed())).toMatchObject({
      success: true,
      responseText: 'done',
    });
  });

  it('tells that the submission failed, with the status [GE5]', async () => {
    const server = await servers.http((request, response) => {
      response.writeHead(request.method === 'POST' ? 503 : 404).end('{"error":"no"}');
    });
    expect(await invokeRemoteAgent(server.origin, 'x', allowed())).toEqual({
      success: false,
      taskId: '',
      error: 'Submit failed: HTTP 503',
    });
    // Nobody knows whether it arrived: it is not sent again.
    expect(server.requests.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  it('gives up when the time is over, and says after how long [GE6]', async () => {
    const server = await simple(['working'], []);
    const result = await invokeRemoteAgent(server.origin, 'x', { ...allowed(), timeoutMs: 10_000 });
    expect(result).toEqual({ success: false, taskId: 'task-1', error: 'Timed out after 10000ms' });
  });

  it('gives up in time on an agent that says nothing at all', async () => {
    const server = await servers.http(() => {});
    const result = await invokeRemoteAgent(server.origin, 'x', { ...allowed(), timeoutMs: 2_000 });
    expect(result).toEqual({ success: false, taskId: '', error: 'Timed out after 2000ms' });
  });

  it('keeps asking when an answer is lost, until the time is over', async () => {
    let asked = 0;
    const server = await simple(['completed'], ['', 'done'], {
      poll: (_, response) => {
        if (asked++ >= 3) return false;
        response.writeHead(500).end();
        return true;
      },
      first: 'working',
    });
    expect(await invokeRemoteAgent(server.origin, 'x', allowed())).toMatchObject({
      success: true,
      responseText: 'done',
    });
    expect(asked).toBe(4);
  });

  it('tells that the task failed, in the words of the agent if it has any [GE7]', async () => {
    const talkative = await simple(['failed'], ['', 'no paper']);
    expect(await invokeRemoteAgent(talkative.origin, 'x', allowed())).toEqual({
      success: false,
      taskId: 'task-1',
      error: 'no paper',
    });
    const silent = await simple(['failed'], []);
    expect(await invokeRemoteAgent(silent.origin, 'x', allowed())).toMatchObject({ error: 'Task failed' });
  });

  it('ends when its caller aborts', async () => {
    const server = await simple(['working'], []);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 300);
    const result = await invokeRemoteAgent(server.origin, 'x', { ...allowed(), signal: controller.signal });
    expect(result).toMatchObject({ success: false, taskId: 'task-1', error: 'the caller cancelled the call' });
  });

  it.each([
    ['no object', '[]'],
    ['no id', '{"state":"working"}'],
    ['no such state', '{"id":"t","state":"dancing"}'],
    ['no messages', '{"id":"t","state":"completed","messages":7}'],
    ['a message of no known role', '{"id":"t","state":"completed","messages":[{"role":"x","parts":[]}]}'],
    ['no JSON', 'yes'],
  ])('refuses an answer with %s', async (_, body) => {
    const server = await servers.http((request, response) => {
      if (request.method === 'POST') response.end(body);
      else response.writeHead(404).end();
    });
    const result = await invokeRemoteAgent(server.origin, 'x', allowed());
    expect(result).toMatchObject({ success: false, error: expect.stringMatching(/answer/) });
  });

  it('goes to no private place', async () => {
    const server = await simple(['completed'], []);
    const result = await invokeRemoteAgent(server.origin, 'x', { runtime, allowPrivate: false });
    expect(result).toMatchObject({ success: false, error: expect.stringContaining('may not be fetched') });
    expect(server.requests).toHaveLength(0);
  });
});

function serving(card: unknown): Promise<ForeignServer> {
  return servers.http((_, response) => response.end(JSON.stringify(card)));
}

interface SimpleInit {
  readonly card?: unknown;
  readonly first?: string;
  /** Answers a question about the task itself, if it says so. */
  readonly poll?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/** An agent with the simple routes; each time it is asked, its task is in the next state. */
async function simple(
  states: readonly string[],
  [early, ...late]: readonly string[],
  init: SimpleInit = { card: CARD },
): Promise<ForeignServer & { bodies: unknown[] }> {
  let at = 0;
  const bodies: unknown[] = [];
  const task = (state: string) => {
    return JSON.stringify({
      id: 'task-1',
      state,
      messages: [
        { role: 'user', parts: [{ type: 'text', text: 'x' }] },
        ...(early ? [{ role: 'agent', parts: [{ text: early }] }] : []),
        ...(late.length > 0 ? [{ role: 'agent', parts: late.map((one) => ({ text: one })) }] : []),
      ],
    });
  };
  const answer: RequestListener = async (request, response) => {
    if (request.url === '/.well-known/agent-card.json') {
      if (init.card === undefined) response.writeHead(404).end();
      else response.end(JSON.stringify(init.card));
    } else if (request.method === 'POST') {
      bodies.push(JSON.parse(await text(request)));
      response.end(task(init.first ?? states[Math.min(at++, states.length - 1)]!));
    } else if (!init.poll?.(request, response)) response.end(task(states[Math.min(at++, states.length - 1)]!));
  };
  return Object.assign(await servers.http(answer), { bodies });
}
