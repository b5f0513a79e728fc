import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import type { Approval } from '../../src/system/approvals/approval-queue.js';
import { acpAgent, ProcessHost, program } from './process-host.js';
import { lives, until } from './processes.js';

let running: ProcessHost | undefined;

afterEach(async () => {
  await running?.stop();
  running = undefined;
});

async function start(agents: Config['agents'], more: Partial<Config> = {}): Promise<ProcessHost> {
  running = await ProcessHost.start(agents, more);
  await running.ready(...Object.keys(agents ?? {}).filter((id) => agents![id]!.acp ?? agents![id]!.command));
  return running;
}

import { BIN } from '../source-files.js';

describe('an agent that is a program', () => {
  it('answers requests, and reports failures', async () => {
    const { sun } = await start({ worker: { command: program() } });
    expect(await sun.request('worker', { do: 'sum', upTo: 10 })).toBe(55);
    await expect(sun.request('worker', { do: 'fail', code: 'not-found', message: 'where?' })).rejects.toMatchObject({
      code: 'PROVIDER_TOOL_NOT_FOUND',
      message: 'where?',
    });
    await expect(sun.request('worker', { do: 'kill' })).rejects.toMatchObject({ code: 'PROVIDER_CRASHED' });
  });

  it('has its own lane, which can be closed without affecting others, and reopened [FR-025-008 T-E15]', async () => {
    const { sun, control } = await start({
      one: { command: program() },
      two: { command: program() },
      three: { command: program(), lane: 'two' },
    });
    const rows = await control.call('lanes');
    expect(rows.map(({ lane, providers }) => [lane, providers.map(({ provider }) => provider)])).toEqual([
      ['one', ['one']],
      ['two', expect.arrayContaining(['two', 'three'])],
    ]);
    const pids = rows.flatMap(({ providers }) => providers.map(({ pid }) => pid!));
    expect(pids.every(lives)).toBe(true);
    const work = sun.request('two', { do: 'hang' }).catch((error) => error);
    const others = sun.request('one', { do: 'after', ms: 200, value: 'fine' });
    await until(() => running!.host.node.providers.get('two').inFlight === 1);
    await control.call('lanes.close', { lane: 'two' });
    expect(await work).toMatchObject({ code: 'PROVIDER_TERMINATED' });
    expect(await others).toBe('fine');
    expect(await sun.request('one', { do: 'pid' })).toBe(rows[0]!.providers[0]!.pid);
    expect(rows[1]!.providers.filter(({ pid }) => lives(pid!))).toEqual([]);
    const closed = { state: 'unavailable', reason: expect.stringContaining('ecliptic lane open two') };
    expect(running!.host.node.registry.requireById('two').status).toMatchObject(closed);
    await expect(sun.request('three', { value: 3 })).rejects.toMatchObject({
      code: 'PROVIDER_UNAVAILABLE',
      message: expect.stringContaining('lane "two" is closed'),
    });
    await control.call('lanes.open', { lane: 'two' });
    expect(running!.host.node.registry.requireById('two').status?.state ?? 'ready').toBe('ready');
    expect(pids).not.toContain(await sun.request('two', { do: 'pid' }));
    expect(await sun.request('three', { value: 3 })).toBe(3);
  });

  it('is shown as failed when it cannot be started, without affecting others', async () => {
    const { host, sun } = await ProcessHost.start({
      broken: { command: program('die') },
      well: { command: program() },
    }).then((started) => {
      running = started;
      return started;
    });
    await running!.ready('well');
    expect(await sun.request('well', { value: 1 })).toBe(1);
    await until(() => host.node.providers.list().some(({ id, message }) => id === 'broken' && message !== null));
    expect(host.node.providers.get('broken').state).toBe('unavailable');
    expect(host.node.providers.get('broken').message).toContain('code 3');
  });
});

describe('an agent over the Agent Client Protocol, as a member of the mesh', () => {
  it('answers requests with prompts, under the thread’s id [FR-025-003]', async () => {
    const { sun, events, control } = await start({ mars: { acp: acpAgent() } });
    expect(await sun.request('mars', 'do:say hello sun')).toBe('hello sun ');
    const done = events.find(({ topic }) => topic === 'provider.execute.completed');
    expect(done).toMatchObject({ provider: 'mars', providerType: 'acp', sender: 'mars', success: true });
    const thread = done!.correlationId!;
    const messages = await control.call('thread', { id: thread });
    expect(messages.map(({ type }) => type)).toEqual(['request', 'response']);
    expect(await control.call('thread.events', { id: thread })).toMatchObject([
      { topic: 'provider.execute.completed', correlationId: thread },
    ]);
  });

  it('works on tasks, and streams its text', async () => {
    const { host } = await start({ mars: { acp: acpAgent() } });
    const { url, tokens } = host.gateway;
    const response = await fetch(`${url}/a2a/rpc`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.owners}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SendStreamingMessage',
        params: {
          tenant: 'mars',
          message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'do:plan a,b\ndo:say one two' }] },
        },
      }),
    });
    const told = await response.text();
    expect(told).toContain('[ ] a\\n[ ] b');
    expect(told).toMatch(/"text":"one "[\s\S]*"text":"two "[\s\S]*TASK_STATE_COMPLETED/);
  });

  it('gets the files of a task, and answers a proposal with one text [T-E2 T-E8]', async () => {
    const { host, sun } = await start({
      mars: { acp: acpAgent(), capabilities: ['say'] },
      worker: { command: program('mirror') },
    });
    const { url, tokens } = host.gateway;
    const raw = Buffer.from('# Notes').toString('base64');
    const files = [
      { url: 'https://example.org/plan.pdf', mediaType: 'application/pdf' },
      { raw, filename: 'notes.md', mediaType: 'text/markdown' },
    ];
    const ask = async (tenant: string) => {
      const message = { messageId: tenant, role: 'ROLE_USER', parts: [{ text: 'do:blocks' }, ...files] };
      const response = await fetch(`${url}/a2a/rpc`, {
        method: 'POST',
        headers: { authorization: `Bearer ${tokens.owners}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { tenant, message } }),
      });
      return response.text();
    };
    const toAcp = await ask('mars');
    expect(toAcp).toContain('https://example.org/plan.pdf');
    expect(toAcp).toContain('# Notes');
    const toProgram = await ask('worker');
    expect(toProgram).toContain('https://example.org/plan.pdf');
    expect(toProgram).toContain(raw);
    const proposal = sun.propose({ to: 'mars', taskDescription: 'do:say all is well', requiredCapabilities: ['say'] });
    expect(await proposal.result).toBe('all is well ');
  });

  it('is woken by its mail, which counts as read when the prompt is done', async () => {
    const { sun, lane } = await start({ mars: { acp: acpAgent() } }).then((one) => ({
      sun: one.sun,
      lane: one.lane('mars'),
    }));
    await sun.send('mars', `do:write ${lane}/plain.txt plain`);
    const { messageId } = await sun.send('mars', `do:write ${lane}/durable.txt durable`, { durable: true });
    const receipt = () => running!.control.call('receipt', { id: messageId! });
    for (let state = ''; state !== 'done'; ) ({ state } = await receipt());
    expect(readFileSync(join(lane, 'plain.txt'), 'utf8')).toBe('plain');
    expect(readFileSync(join(lane, 'durable.txt'), 'utf8')).toBe('durable');
  });

  it('gets the mesh’s tools under its own name', async () => {
    const { sun, host } = await start({ mars: { acp: acpAgent() }, venus: {} });
    const callers: string[] = [];
    host.node.agentById('venus').tool('greet', {}, (_, call) => {
      callers.push(call.caller);
      return 'hello from venus';
    });
    expect(await sun.request('mars', 'do:servers')).toBe('http');
    expect(await sun.request('mars', 'do:tools')).toContain('venus__greet');
    expect(await sun.request('mars', 'do:call venus__greet {}')).toContain('hello from venus');
    expect(callers).toEqual(['mars']);
  });

  it('gets a program to start where it cannot use MCP over HTTP', async () => {
    const { sun, host } = await start({ mars: { acp: acpAgent('good', 'no-http') }, venus: {} });
    host.node.agentById('venus').tool('greet', {}, () => 'hello from venus');
    expect(await sun.request('mars', 'do:servers')).toBe('stdio');
    expect(await sun.request('mars', 'do:call venus__greet {}')).toContain('hello from venus');
  });

  it('asks the operator, and gets the answer from the terminal [FR-025-012 T-E17 T-B9]', async () => {
    const { sun, folder, control } = await start({ mars: { acp: acpAgent() } });
    const ecliptic = async (...words: string[]) => {
      const args = [BIN, ...words, '--data', join(folder, 'data')];
      return (await promisify(execFile)(process.execPath, args)).stdout;
    };
    const answer = sun.request('mars', 'do:ask Edit a.txt', { timeoutMs: 60_000 });
    let waiting: readonly Approval[] = [];
    while (waiting.length === 0) waiting = await control.call('approvals');
    expect(await ecliptic('approvals')).toMatch(/( {2}\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d){2} +mars asks: Edit a\.txt/);
    expect(await ecliptic('approvals', 'allow-once', waiting[0]!.id)).toContain('allowed, this once');
    expect(await answer).toBe('once');
    expect(await control.call('approvals')).toEqual([]);
    expect(await ecliptic('lanes')).toMatch(/mars +mars +running/);
    const shown = await ecliptic('provider', 'show', 'mars');
    expect(shown).toMatch(/^mars is healthy\.$/m);
    expect(shown).toMatch(/^ +state +healthy$/m);
    expect(shown).toMatch(/^ +process state +running$/m);
  });

  it('in a sandbox can neither list, message, call nor read outside it [IT5 R10.3]', async () => {
    const { sun, host } = await start(
      {
        // Without a jail, which would not even let it reach other paths of the node.
        mars: { acp: acpAgent(), sandbox: 'lab', jail: false },
        mate: { sandbox: 'lab', tier: 2 },
        free: { tier: 2 },
      },
      { sandbox: { enforced: true, allow: { lab: ['sun'] } } },
    );
    const heard: string[] = [];
    for (const id of ['mate', 'free']) {
      host.node
        .agentById(id)
        .tool('secret', {}, () => `the secret of ${id}`)
        .resource({ uri: `memory://${id}`, name: 'secret', mimeType: 'text/plain' }, () => `the file of ${id}`)
        .onRequest(() => {
          heard.push(id);
          return `the answer of ${id}`;
        });
    }
    expect(host.node.registry.requireById('mars').sandboxId).toBe('lab');
    const tools = JSON.parse(await sun.request<string>('mars', 'do:tools')) as string[];
    expect(tools).toContain('mate__secret');
    expect(tools.filter((name) => name.startsWith('free'))).toEqual([]);
    expect(await sun.request('mars', 'do:call mate__secret {}')).toContain('the secret of mate');
    expect(await sun.request('mars', 'do:call free__secret {}')).not.toContain('the secret of free');
    expect(await sun.request('mars', 'do:resource memory://mate')).toContain('the file of mate');
    expect(await sun.request('mars', 'do:resource memory://free')).toContain('refused');
    expect(await sun.request('mars', 'do:message mate')).toContain('the answer of mate');
    expect(await sun.request('mars', 'do:message free')).not.toContain('the answer of free');
    expect(heard).toEqual(['mate']);
    const token = await sun.request<string>('mars', 'do:token');
    expect(token).toMatch(/^Bearer ecl_/);
    await expect(host.node.agentById('mars').request('free', 'hello')).rejects.toMatchObject({
      code: 'SANDBOX_VIOLATION',
    });
    // The token stays in the sandbox when its agent is gone.
    host.node.agentById('mars').leave();
    const client = new Client({ name: 'left behind', version: '1.0.0' });
    const requestInit = { headers: { authorization: token } };
    await client.connect(new StreamableHTTPClientTransport(new URL(host.gateway.mcpUrl), { requestInit }));
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual([
      ...['ecliptic__status', 'ecliptic__story', 'ecliptic__waiting'],
      'mate__describe',
      'mate__secret',
      'sun__describe',
    ]);
    await client.close();
  });
});
