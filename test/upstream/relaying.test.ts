import type { CallToolResult } from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CallOptions, NeedsInput } from '../../src/mcp/call.js';
import type { EclipticError } from '../../src/runtime/errors.js';
import { OPERATOR, tool, Upstreaming, until } from './harness.js';

const LISTS = {
  tools: ['echo', 'die', 'fail', 'refuse', 'slow', 'steps', 'ask', 'interview', 'change'].map((name) => tool(name)),
  resources: [{ uri: 'note://one', name: 'one', mimeType: 'text/plain' }],
  templates: [{ uriTemplate: 'note://{name}/text', name: 'notes' }],
  prompts: [{ name: 'greet', arguments: [{ name: 'name', required: true }] }],
};

let here: Upstreaming;

beforeEach(async () => {
  here = await Upstreaming.start();
});

afterEach(() => here.end());

/** The same server behind each kind of connection, and over each protocol. */
const WAYS = {
  'stdio with a protocol of 2025': async () => here.addStdio('up', LISTS),
  'stdio with a protocol of 2025, in a node whose servers are not providers': async () => {
    await here.end();
    here = await Upstreaming.start({ direct: true });
    here.addStdio('up', LISTS);
  },
  'stdio with the protocol of 2026': async () => here.addStdio('up', LISTS, 'stdio-modern'),
  HTTP: async () => here.add('up', { kind: 'http', url: (await here.listen('up', LISTS)).url, headers: {} }),
};

describe.each(Object.entries(WAYS))('an upstream server over %s [UP2]', (way, connect) => {
  const modern = !way.includes('2025');

  beforeEach(async () => {
    await connect();
    await here.running('up');
  });

  it('offers its tools, resources, templates and prompts as its agent’s', async () => {
    expect(here.tools()).toEqual(LISTS.tools.map(({ name }) => `up.${name}`).sort());
    expect(here.status('up')).toMatchObject({
      state: 'running',
      protocol: modern ? '2026-07-28' : '2025-11-25',
      offered: { tool: 9, resource: 1, template: 1, prompt: 1 },
      problems: [],
    });
    const terms = { caller: OPERATOR };
    expect(await here.node.mcp.readResource('note://one', terms)).toMatchObject({
      contents: [{ uri: 'note://one', text: 'at note://one' }],
    });
    expect(await here.node.mcp.readResource('note://two/text', terms)).toMatchObject({
      contents: [{ text: 'at note://two/text' }],
    });
    expect(await here.node.mcp.getPrompt('up.greet', { name: 'you' }, terms)).toMatchObject({
      messages: [{ content: { text: 'hello you' } }],
    });
    const argument = { name: 'name', value: 'al' };
    expect(await here.node.mcp.complete({ kind: 'prompt', name: 'up.greet' }, argument, terms)).toMatchObject({
      completion: { values: ['al-completed'] },
    });
  });

  it('gets arguments and trace context, and no other metadata of the caller [MC10]', async () => {
    const meta = { traceparent: '00-1-2-03', token: 'ecl_secret', 'my.app/session': 'private' };
    const { args, meta: got } = await here.value('up.echo', { a: [1, 'ü'] }, { meta });
    expect(args).toEqual({ a: [1, 'ü'] });
    expect(got).toMatchObject({ traceparent: '00-1-2-03' });
    expect(JSON.stringify(got)).not.toMatch(/ecl_secret|private/);
  });

  it('relays progress and log entries to the call that they belong to', async () => {
    const progress: unknown[] = [];
    const logs: unknown[] = [];
    await here.call('up.steps', {}, { onProgress: (one) => progress.push(one), onLog: (one) => logs.push(one) });
    expect(progress).toEqual([1, 2, 3].map((step) => ({ progress: step, total: 3 })));
    expect(logs).toEqual([{ level: 'info', data: 'halfway' }]);
  });

  it('is told of a cancellation', async () => {
    const abort = new AbortController();
    const call = here.call('up.slow', {}, { signal: abort.signal });
    await until(() => here.log('up').includes('slow'));
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: 'CANCELLED' });
    await until(() => here.log('up').includes('cancelled'));
  });

  it('reports its own error messages, by type', async () => {
    expect(await here.call('up.fail')).toMatchObject({ isError: true, content: [{ text: 'it did not work' }] });
    await expect(here.call('up.refuse')).rejects.toMatchObject({
      code: expect.stringMatching(/^(INVALID_ARGUMENTS|PROVIDER_INVALID_INPUT)$/),
      details: { agent: 'up', server: 'up' },
    });
  });

  it('loses the open call when it dies, which is not repeated, and is restarted [UP4 RS5]', async () => {
    const dying = await here.call('up.die').catch((error: EclipticError) => error);
    expect(dying).toMatchObject({
      code: expect.stringMatching(/^(AGENT_UNAVAILABLE|PROVIDER_CRASHED)$/),
      retryable: false,
      details: { outcome: 'unknown' },
    });
    expect(here.tools()).toContain('up.echo');
    if (way === 'HTTP') return;
    await until(() => here.log('up').filter((line) => line.startsWith('start')).length === 2);
    await here.running('up');
    await here.call('up.echo');
    expect(here.log('up').filter((line) => line === 'die')).toHaveLength(1);
  });

  it('may change its lists while it runs, and notifies of changed resources', async () => {
    const updates: string[] = [];
    here.node.mcp.onResourceUpdate((owner, uri) => updates.push(`${owner} ${uri}`));
    const fewer = LISTS.tools.filter(({ name }) => name !== 'fail');
    here.lists('up', { ...LISTS, tools: fewer });
    // The stream of changes opens a moment after the server is ready.
    await until(() => {
      void here.call('up.change').catch(() => {});
      return !here.tools().includes('up.fail') && updates.includes('up note://one');
    });
    expect(here.tools()).toContain('up.echo');
  });

  // An older protocol's server asks in the middle of a call, and names none.
  it.runIf(!modern)('asks in the middle of a call, and is answered by its caller', async () => {
    const capabilities = { elicitation: { form: {} } };
    const ask = (more: Partial<CallOptions> = {}) =>
      here.call('up.interview', {}, { capabilities, ...more }) as Promise<unknown> as Promise<NeedsInput>;
    const first = await ask();
    expect(first.inputRequests).toMatchObject({ question: { params: { message: 'first?' } } });
    // While the server waits, others use it; a caller that cannot be asked gets an error.
    expect(await here.value('up.echo', { text: 'hi' })).toMatchObject({ args: { text: 'hi' } });
    const yes = { question: { action: 'accept', content: {} } };
    const somebody = { ...OPERATOR, address: 'somebody' };
    const stale = { code: 'INVALID_REQUEST_STATE' };
    await expect(ask({ answers: yes, state: first.requestState!, caller: somebody })).rejects.toMatchObject(stale);
    const second = await ask({ answers: yes, state: first.requestState! });
    expect(second.inputRequests).toMatchObject({ question: { params: { message: 'second?' } } });
    const no = { question: { action: 'decline' } };
    const { content } = (await ask({ answers: no, state: second.requestState! })) as unknown as CallToolResult;
    expect(JSON.parse((content[0] as { text: string }).text)).toEqual([
      { action: 'accept', content: { tone: 'kind' } },
      { action: 'decline' },
    ]);
    await expect(ask({ answers: no, state: second.requestState! })).rejects.toMatchObject(stale);
    await expect(here.call('up.interview')).rejects.toMatchObject({
      code: expect.stringMatching(/^(HANDLER_FAILED|PROVIDER_EXECUTE_FAILED)$/),
    });
  });

  it.runIf(modern)('asks its caller for more, and gets its own state back and no other server’s', async () => {
    here.addStdio('other', { tools: LISTS.tools }, 'stdio-modern');
    await here.running('other');
    const capabilities = { elicitation: {} };
    const first = (await here.call('up.ask', {}, { capabilities })) as unknown as NeedsInput;
    expect(first).toMatchObject({
      resultType: 'input_required',
      inputRequests: { who: { method: 'elicitation/create' } },
    });
    expect(first.requestState).not.toMatch(/^state of/);
    const answers = { who: { action: 'accept', content: { name: 'me' } } };
    const again = { capabilities, answers, state: first.requestState! };
    const { state, answers: got } = await here.value('up.ask', {}, again);
    expect(state).toMatch(/^state of \d+$/);
    expect(got).toEqual(answers);
    const refused = { code: 'INVALID_REQUEST_STATE' };
    await expect(here.call('other.ask', {}, again)).rejects.toMatchObject(refused);
    await expect(here.call('up.ask', {}, { ...again, state: `${again.state}x` })).rejects.toMatchObject(refused);
    const somebody = { ...OPERATOR, address: 'somebody' };
    await expect(here.call('up.ask', {}, { ...again, caller: somebody })).rejects.toMatchObject(refused);
  });
});

describe('an upstream server', () => {
  it('over stdio has a small environment with the configured variables', async () => {
    process.env.OWN_TOKEN = 'not-for-children';
    here.addStdio('up', LISTS, 'stdio', { env: { API_KEY: 'given' } });
    await here.running('up');
    const { env, secret } = await here.value('up.echo');
    delete process.env.OWN_TOKEN;
    expect(secret).toBe('given');
    expect(env).not.toContain('OWN_TOKEN');
  });

  it('over HTTP is sent the configured headers', async () => {
    const { url } = await here.listen('up', LISTS);
    here.add('up', { kind: 'http', url, headers: { 'x-key': 'upstream-key' } });
    await here.running('up');
    const { headers } = await here.value('up.echo', {}, { meta: { authorization: 'Bearer inbound' } });
    expect(headers).toMatchObject({ 'x-key': 'upstream-key' });
    expect(JSON.stringify(headers)).not.toContain('inbound');
  });

  it('over HTTP that disappears is retried until it is back; meanwhile calls fail at once [UP4]', async () => {
    const { url, process: first } = await here.listen('up', LISTS);
    here.add('up', { kind: 'http', url, headers: {} });
    await here.running('up');
    first.kill('SIGKILL');
    await until(() => here.status('up').state === 'backing-off');
    const started = Date.now();
    await expect(here.call('up.echo')).rejects.toMatchObject({
      code: 'PROVIDER_UNAVAILABLE',
      retryable: true,
      details: { outcome: 'not-delivered' },
    });
    expect(Date.now() - started).toBeLessThan(200);
    expect(here.tools()).toContain('up.echo');
    expect(here.status('up').reason).toMatch(/cannot be reached/);
    await here.listen('up', LISTS, Number(url.port));
    await here.running('up');
    await here.call('up.echo');
  });

  it('must return results that fit its tool’s output schema', async () => {
    const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
    const unreadable = { type: 'object', $ref: '#/nowhere' };
    const tools = [
      tool('echo', { outputSchema }),
      tool('fail', { outputSchema }),
      tool('steps', { outputSchema: unreadable }),
    ];
    here.addStdio('up', { tools });
    await here.running('up');
    await expect(here.call('up.echo')).rejects.toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
      details: { agent: 'up', code: 'INVALID_RESULT' },
    });
    expect(await here.call('up.fail')).toMatchObject({ isError: true });
    expect(await here.call('up.steps')).toMatchObject({ content: [{ text: 'done' }] });
  });

  it('may share an agent with another, which keeps the offers that it has', async () => {
    here.addStdio('one', { tools: [tool('same'), tool('mine')] }, 'stdio', { agent: 'shared' });
    await here.running('one');
    here.addStdio('two', { tools: [tool('same'), tool('yours')] }, 'stdio', { agent: 'shared' });
    await here.running('two');
    expect(here.tools()).toEqual(['shared.mine', 'shared.same', 'shared.yours']);
    expect(here.status('two').problems).toEqual(['tool "same" is left out: shared offers one already']);
  });

  it('is under the sandbox of its agent', async () => {
    here.node.agent({ id: 'boxed', sandbox: 'lab' });
    here.addStdio('boxed', LISTS);
    await here.running('boxed');
    const outsider = { address: 'x', node: undefined, tier: 3, sandboxId: 'elsewhere' } as const;
    expect(here.node.mcp.list('tool', outsider)).toEqual([]);
    await expect(here.call('boxed.echo', {}, { caller: outsider })).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
  });
});
