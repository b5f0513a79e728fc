import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createNode } from '../../node/compose.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import type { Gateway } from '../gateway.js';
import { Dashboard } from './dashboard.js';
import type { DashboardSource, MessageLine, PageOperation, Viewer, WaitingItem } from './facts.js';
import { PageSessions } from './page-sessions.js';

const ITEM: WaitingItem = {
  ...{ id: 'approval:1', kind: 'approval', since: 1, until: null, title: 'may mars write a.js?', from: 'mars' },
  ...{ details: [], diff: [], actions: ['allow-once', 'deny'], node: null, answer: null },
};

const OPERATIONS: readonly PageOperation[] = [
  { name: 'waiting', kind: 'read', summary: 'What waits', shared: false, params: {} },
  {
    name: 'agents',
    kind: 'read',
    summary: 'Agents',
    shared: true,
    params: { properties: { tier: { type: 'number' } } },
  },
  {
    ...{ name: 'messages', kind: 'read', summary: 'Messages', shared: false },
    params: { properties: { limit: { type: 'integer' }, text: { type: 'string' } }, required: ['limit'] },
  },
  {
    ...{ name: 'waiting.answer', kind: 'action', summary: 'Answers', shared: false },
    params: { properties: { id: { type: 'string' }, action: { type: 'string' } }, required: ['id'] },
  },
];

/** Stands in for the operations of the node. */
class Source implements DashboardSource {
  items: readonly WaitingItem[] = [ITEM];
  failure: EclipticError | undefined;
  readonly answers: unknown[] = [];
  readonly viewers: (Viewer | undefined)[] = [];

  node = () => ({ node: 'key', name: 'laptop', version: '1' });

  async run(name: string, params: Readonly<Record<string, unknown>>, _signal: AbortSignal, viewer?: Viewer) {
    this.viewers.push(viewer);
    if (this.failure) throw this.failure;
    if (name === 'waiting') return this.items;
    if (name === 'messages') return [params];
    if (name === 'agents') return viewer ? [] : [params];
    if (params.id !== ITEM.id) throw new EclipticError('APPROVAL_NOT_FOUND', 'it does not wait');
    this.answers.push(params);
    return undefined;
  }

  #routed = 0;
  #each: (message: MessageLine) => void = () => {};
  routed = () => this.#routed;

  tell(message: MessageLine): void {
    this.#routed++;
    this.#each(message);
  }

  follow(each: (message: MessageLine) => void, signal: AbortSignal) {
    this.#each = each;
    signal.addEventListener('abort', () => {
      this.#each = () => {};
    });
  }
}

function line(id: string, from = 'sun', code: string | null = null): MessageLine {
  return { id, seq: null, at: 1, from, to: 'mars', type: 'request', thread: null, code, reason: null, text: 'hi' };
}

const READS = ['/api/waiting', '/api/messages?limit=1', '/api/events?read=waiting'];
const ANSWER = { id: ITEM.id, action: 'deny' };

let folder: string;
let gateway: Gateway;
let dashboard: Dashboard;
let source: Source;
let stop: () => Promise<void>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-page-'));
  await start();
});

afterEach(async () => {
  await stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(): Promise<void> {
  const node = await createNode();
  source = new Source();
  const components = {
    runtime: systemRuntime(),
    url: () => gateway.url,
    dismiss: (id: string) => gateway.dismiss(id),
  };
  dashboard = new Dashboard(components, { folder, node: 'abcdef', operations: OPERATIONS });
  gateway = await node.serve({ port: 0, routes: dashboard.routes });
  dashboard.begin(source);
  stop = async () => {
    dashboard.close();
    await node.stop();
  };
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly json: { readonly [name: string]: unknown; readonly error?: { readonly code: string } };
}

async function call(path: string, headers: Record<string, string> = {}, body?: unknown): Promise<Reply> {
  const message = await send(path, headers, body);
  let text = '';
  for await (const chunk of message) text += chunk;
  const isJson = message.headers['content-type'] === 'application/json';
  return { status: message.statusCode!, headers: message.headers, text, json: isJson ? JSON.parse(text) : {} };
}

async function send(path: string, headers: Record<string, string>, body?: unknown): Promise<IncomingMessage> {
  const request = httpRequest(`${gateway.url}${path}`, { method: body === undefined ? 'GET' : 'POST', headers });
  request.end(body === undefined ? undefined : JSON.stringify(body));
  const [message] = (await once(request, 'response')) as [IncomingMessage];
  return message;
}

const tokenOf = (url: string) => new URLSearchParams(new URL(url).hash.slice(1)).get('token')!;

/** The headers of a page with a session. */
async function session(): Promise<{ cookie: string; 'x-ecliptic-page': string }> {
  const { headers, json } = await call('/api/session', {}, { token: tokenOf(dashboard.link().url) });
  return { cookie: headers['set-cookie']![0]!.split(';')[0]!, 'x-ecliptic-page': json.key as string };
}

describe('a link to the page', () => {
  it('opens one session, with a cookie that scripts and other sites do not get [FC.1]', async () => {
    const { url } = dashboard.link();
    expect(new URL(url).search).toBe('');
    const opened = await call('/api/session', {}, { token: tokenOf(url) });
    expect([opened.status, opened.headers['cache-control']]).toEqual([200, 'no-store']);
    expect(opened.headers['set-cookie']![0]).toMatch(
      /^ecliptic-abcdef=[\w-]{43}; Path=\/api; HttpOnly; SameSite=Strict; Max-Age=604800$/,
    );
    const again = await call('/api/session', {}, { token: tokenOf(url) });
    expect([again.status, again.json.error]).toEqual([
      401,
      { code: 'TOKEN_REQUIRED', message: expect.stringContaining('ecliptic open') },
    ]);
    expect((await call('/api/session', {}, { token: 'guess' })).status).toBe(401);
    expect((await call('/api/session')).status).toBe(404);
  });

  it('expires after ten minutes, and a session after seven days [FC.1]', async () => {
    const runtime = new SimulatedRuntime({ seed: 1 });
    const sessions = new PageSessions({ runtime });
    const late = sessions.link();
    const { cookie, key, id } = sessions.open(sessions.link().token);
    await runtime.advance(600_001);
    expect(() => sessions.open(late.token)).toThrow('expired');
    expect(sessions.find(cookie, key)).toBe(id);
    await runtime.advance(7 * 86_400_000);
    expect(sessions.find(cookie, key)).toBeUndefined();
  });

  it('cannot be opened from another origin, and the attempt does not use it up [FC.2]', async () => {
    const token = tokenOf(dashboard.link().url);
    const foreign = { origin: 'http://127.0.0.1:1', 'sec-fetch-site': 'same-site' };
    expect((await call('/api/session', foreign, { token })).json.error?.code).toBe('HOST_REFUSED');
    expect((await call('/api/session', { origin: gateway.url }, { token })).status).toBe(200);
  });
});

describe('a page session', () => {
  it('reads and answers as the owner, and survives a restart of the node [FC.1]', async () => {
    const page = await session();
    expect((await call('/api/waiting', page)).json).toEqual([ITEM]);
    const own = { ...page, origin: gateway.url, 'sec-fetch-site': 'same-origin' };
    const answered = await call('/api/waiting.answer', own, ANSWER);
    expect([answered.status, source.answers]).toEqual([200, [ANSWER]]);
    const kept = readFileSync(join(folder, 'page-sessions.json'), 'utf8');
    expect(kept).not.toContain(page['x-ecliptic-page']);
    expect(kept).not.toContain(page.cookie.split('=')[1]);
    await stop();
    await start();
    expect((await call('/api/waiting', page)).status).toBe(200);
  });

  it.each([
    ['without the page’s key', { 'x-ecliptic-page': '' }, 401],
    ['with another key', { 'x-ecliptic-page': 'x'.repeat(43) }, 401],
    ['with another cookie', { cookie: `ecliptic-abcdef=${'x'.repeat(43)}` }, 401],
    ['from another site', { origin: 'http://evil.example' }, 403],
    ['from another port of this host', { origin: 'http://127.0.0.1:1' }, 403],
    ['that the browser calls cross-site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['that the browser calls same-site', { 'sec-fetch-site': 'same-site' }, 403],
  ])('is worth nothing for a request %s [FC.2]', async (_, headers, status) => {
    const page = { ...(await session()), ...headers };
    for (const path of READS) {
      expect((await call(path, page)).status).toBe(status);
    }
    expect((await call('/api/waiting.answer', page, ANSWER)).status).toBe(status);
    expect(source.answers).toEqual([]);
  });

  it('is found beside cookies of the same name that other servers of this host have set [FC.2]', async () => {
    const page = await session();
    expect((await call('/api/waiting', { ...page, cookie: `ecliptic-abcdef=evil; ${page.cookie}` })).status).toBe(200);
  });

  it('can be opened on a full disk [FC.1]', async () => {
    rmSync(join(folder, 'page-sessions.json'), { force: true });
    // A folder in its place makes every write fail, for root too.
    mkdirSync(join(folder, 'page-sessions.json', 'x'), { recursive: true });
    expect((await call('/api/waiting', await session())).status).toBe(200);
    rmSync(join(folder, 'page-sessions.json'), { recursive: true });
  });

  it('ends with its open streams when it is revoked [FC.1]', async () => {
    const page = await session();
    const stream = await send('/api/events', page);
    stream.on('error', () => {});
    const closed = new Promise((resolve) => stream.once('close', resolve));
    stream.resume();
    expect(dashboard.revoke()).toBe(1);
    await closed;
    expect((await call('/api/waiting', page)).status).toBe(401);
  });
});

describe('the data API', () => {
  it('serves the owner’s token, and others what is shared with their sandbox [FC.3]', async () => {
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
    expect((await call('/api/waiting', bearer(gateway.tokens.owners))).json).toEqual([ITEM]);
    for (const [name, sandbox] of [['alice'], ['boxed', 'lab']] as const) {
      const { token } = gateway.tokens.create(name, sandbox);
      for (const path of READS) {
        const refused = await call(path, bearer(token));
        expect([refused.status, refused.json.error?.code]).toEqual([403, 'SCOPE_REQUIRED']);
      }
      expect((await call('/api/waiting.answer', bearer(token), ANSWER)).status).toBe(403);
      expect((await call('/api/agents', bearer(token))).json).toEqual([]);
      expect(source.viewers.at(-1)).toMatchObject({ address: name, sandboxId: sandbox });
      const stream = await reader(bearer(token), '?read=agents');
      expect((await stream.until('read')).data).toEqual({ key: 'agents', value: [] });
      source.tell(line('secret'));
      expect(stream.names).not.toContain('message');
      stream.leave();
    }
    expect((await call('/api/waiting')).status).toBe(401);
    expect(source.answers).toEqual([]);
  });

  it('names wrong requests, and limits what one may ask for [FC.3]', async () => {
    const page = await session();
    const status = async (path: string, body?: unknown) => (await call(path, page, body)).status;
    expect(await status('/api/waiting', {})).toBe(404);
    expect(await status('/api/waiting.answer')).toBe(404);
    expect(await status('/api/waiting.answer', { id: 'gone' })).toBe(404);
    expect(await status('/api/waiting.answer', [])).toBe(400);
    expect(await status('/api/waiting.answer', { id: 'x'.repeat(1_100_000) })).toBe(413);
    expect(await status('/api/waiting.answer', { id: ITEM.id, acton: 'deny' })).toBe(400);
    expect(await status('/api/messages?page=2')).toBe(400);
    expect(await status('/api/messages?limit=1&limit=2')).toBe(400);
    expect(await status('/api/events?refused=banana')).toBe(400);
    expect(await status('/api/events?page=1')).toBe(400);
    expect(await status('/api/nothing')).toBe(401);
    expect((await call('/api/messages?limit=7&text=1', page)).json).toEqual([{ limit: 7, text: '1' }]);
    for (const key of ['nothing', 'waiting.answer', `messages?text=${'x'.repeat(1_100)}`, 'messages?page=1']) {
      expect(await status(`/api/events?read=${encodeURIComponent(key)}`)).toBe(400);
    }
    const many = Array.from({ length: 17 }, (_, at) => `read=messages%3Flimit%3D${at}`).join('&');
    expect(await status(`/api/events?${many}`)).toBe(400);
  });

  it('describes each of its operations [FC.3]', async () => {
    const described = (await call('/api/openapi.json', await session())).json as unknown as {
      openapi: string;
      paths: Record<string, { get?: { parameters: unknown[] }; post?: object }>;
    };
    expect(described.openapi).toBe('3.1.0');
    expect(Object.keys(described.paths)).toEqual([
      ...OPERATIONS.map(({ name }) => `/api/${name}`),
      ...['/api/session', '/api/events'],
    ]);
    expect(described.paths['/api/messages']?.get?.parameters).toEqual([
      { name: 'limit', in: 'query', required: true, schema: { type: 'integer' } },
      { name: 'text', in: 'query', required: false, schema: { type: 'string' } },
    ]);
    expect(described.paths['/api/waiting.answer']?.post).toBeDefined();
  });
});

describe('the event stream', () => {
  it('begins with what is known, and goes on after the last id that a reader has [FC.4]', async () => {
    const page = await session();
    const first = await reader(page, '?read=waiting');
    const reset = await first.until('reset');
    expect((await first.until('read')).data).toEqual({ key: 'waiting', value: [ITEM] });
    source.tell(line('a'));
    source.tell(line('b'));
    const a = await first.until('message');
    first.leave();
    source.tell(line('c'));
    const second = await reader({ ...page, 'last-event-id': a.id! });
    expect((await second.until('message')).data).toEqual(line('b'));
    expect((await second.until('message')).data).toEqual(line('c'));
    expect(second.names).not.toContain('reset');
    second.leave();
    for (const id of ['', 'nonsense', `${reset.id}9`, 'OTHER-1']) {
      const third = await reader({ ...page, 'last-event-id': id });
      await third.until('reset');
      third.leave();
    }
  });

  it('sends a followed read when it changes, and says when it cannot be read [FC.4]', async () => {
    const page = await session();
    const stream = await reader(page, '?read=waiting&read=agents%3Ftier%3D2');
    const firsts = [(await stream.until('read')).data, (await stream.until('read')).data];
    expect(firsts).toContainEqual({ key: 'waiting', value: [ITEM] });
    expect(firsts).toContainEqual({ key: 'agents?tier=2', value: [{ tier: 2 }] });
    source.items = [];
    expect((await stream.until('read')).data).toEqual({ key: 'waiting', value: [] });
    source.failure = new EclipticError('STORE_FAILED', 'the disk is full');
    await call('/api/waiting.answer', page, ANSWER);
    const error = { code: 'STORE_FAILED', message: 'the disk is full' };
    expect((await stream.until('read')).data).toMatchObject({ error });
    source.failure = undefined;
    await stream.until('read');
    await call('/api/waiting.answer', page, ANSWER);
    const after = [(await stream.until('read')).data, (await stream.until('read')).data];
    expect(after).toContainEqual({ key: 'waiting', value: [] });
    stream.leave();
  });

  it('filters messages for a reader [FC.4]', async () => {
    const page = await session();
    const [venus, refused] = [await reader(page, '?agent=venus'), await reader(page, '?refused=true')];
    await venus.until('reset');
    await refused.until('reset');
    for (const one of [line('a'), line('b', 'venus'), line('c', 'sun', 'TIER_VIOLATION')]) source.tell(one);
    expect((await venus.until('message')).data).toMatchObject({ id: 'b' });
    expect((await refused.until('message')).data).toMatchObject({ id: 'c' });
    expect([venus.names, refused.names].map((names) => names.filter((name) => name === 'message').length)).toEqual([
      1, 1,
    ]);
    venus.leave();
    refused.leave();
  });

  it('shows some of very many messages, and says how many [FC.4]', async () => {
    const stream = await reader(await session());
    await stream.until('reset');
    for (let count = 0; count < 2_000; count++) source.tell(line(`${count}`));
    const { shown, total } = (await stream.until('sampled')).data as { shown: number; total: number };
    expect([total, shown]).toEqual([2_000, 50]);
    expect(stream.names.filter((name) => name === 'message')).toHaveLength(50);
    stream.leave();
  });

  it('has a share of readers for each caller, and one for the owner [FC.4]', async () => {
    const page = await session();
    const visitor = (name: string) => ({ authorization: `Bearer ${gateway.tokens.create(name).token}` });
    const alice = visitor('alice');
    const others = await Promise.all(Array.from({ length: 4 }, () => reader(alice)));
    expect((await call('/api/events', alice)).json.error?.code).toBe('QUEUE_FULL');
    for (let caller = 0; caller < 7; caller++) {
      const headers = visitor(`visitor-${caller}`);
      others.push(...(await Promise.all(Array.from({ length: 4 }, () => reader(headers)))));
    }
    expect((await call('/api/events', visitor('last'))).json.error?.code).toBe('QUEUE_FULL');
    const readers = await Promise.all(Array.from({ length: 32 }, () => reader(page)));
    expect((await call('/api/events', page)).json.error?.code).toBe('QUEUE_FULL');
    readers[0]!.leave();
    await expect.poll(async () => (await send('/api/events', page)).destroy().statusCode).toBe(200);
    for (const one of [...readers, ...others]) one.leave();
  });
});

interface ServerSent {
  readonly id: string | undefined;
  readonly name: string;
  readonly data: unknown;
}

/** Reads the stream event by event. */
async function reader(headers: Record<string, string>, query = '') {
  const message = await send(`/api/events${query}`, headers);
  expect(message.statusCode).toBe(200);
  message.on('error', () => {});
  message.setEncoding('utf8');
  const events: ServerSent[] = [];
  const names: string[] = [];
  let rest = '';
  let arrived = () => {};
  message.on('data', (chunk: string) => {
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
      const [name, data] = [field('event'), field('data')];
      if (name === undefined || data === undefined) continue;
      names.push(name);
      events.push({ id: field('id'), name, data: JSON.parse(data) });
    }
    arrived();
  });
  const until = async (name: string): Promise<ServerSent> => {
    for (;;) {
      const at = events.findIndex((event) => event.name === name);
      if (at >= 0) return events.splice(at, 1)[0]!;
      await new Promise<void>((resolve) => {
        arrived = resolve;
      });
    }
  };
  return { until, names, leave: () => message.destroy() };
}

describe('the page', () => {
  it('is for browsers, allows no code but its own, and fits in no frame [FC.5]', async () => {
    const page = await call('/', { accept: 'text/html,*/*' });
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    const policy = page.headers['content-security-policy'];
    for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", 'trusted-types']) {
      expect(policy).toContain(part);
    }
    expect(policy).not.toContain('unsafe');
    expect(page.headers['x-frame-options']).toBe('DENY');
    expect(page.text).not.toMatch(/<script(?![^>]*src="\/)|https?:\/\//);
    for (const file of ['/page.js', '/charts.js', '/page.css']) expect((await call(file)).status).toBe(200);
    expect((await call('/')).text).toContain('This is an Ecliptic node');
  });
});
