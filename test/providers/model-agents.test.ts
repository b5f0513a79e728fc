import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../../src/node/config/load.js';
import type { Config } from '../../src/node/config/schema.js';
import { PLANETARY_ROSTER } from '../../src/roster/planetary-roster.js';
import type { Logger } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { type Completion, type Script, ScriptedModel } from '../scripted-model.js';
import { BIN } from '../source-files.js';
import { acpAgent, ProcessHost } from './process-host.js';
import { until } from './processes.js';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(script: Script): Promise<ScriptedModel> {
  const model = await ScriptedModel.start(script);
  cleanups.push(() => model.stop().catch(() => {}));
  return model;
}

async function start(...init: Parameters<typeof ProcessHost.start>): Promise<ProcessHost> {
  const host = await ProcessHost.start(...init);
  cleanups.push(() => host.stop());
  return host;
}

const stateOf = ({ host }: ProcessHost, id = 'mars') => host.node.registry.requireById(id).status?.state ?? 'ready';
const topics = ({ events }: ProcessHost, topic: string) => events.filter((event) => event.topic === topic);
const userTurns = ({ messages }: Completion) => messages.filter(({ role }) => role === 'user').length;

/** Sends a task over HTTP, and returns the task that it becomes. */
async function send({ host }: ProcessHost, parts: object[], tenant = 'mars') {
  const { url, tokens } = host.gateway;
  const message = { messageId: host.node.key + Math.random(), role: 'ROLE_USER', parts };
  const response = await fetch(`${url}/a2a/rpc`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tokens.owners}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { tenant, message } }),
  });
  const { result } = (await response.json()) as { result: { task: SentTask } };
  return result.task;
}

interface SentTask {
  readonly status: { readonly state: string };
  readonly artifacts?: readonly { readonly parts: readonly { readonly text?: string; readonly data?: unknown }[] }[];
}

describe('an agent with a model', () => {
  it('answers tasks, proposals and requests; only the final answer is the artifact [WK.M1 WK.M2]', async () => {
    const model = await serve(({ messages }) =>
      messages.at(-1)!.role === 'tool'
        ? `It is written. ${'And so on. '.repeat(200)}`
        : { text: 'Let me write that.', calls: [['write_file', { path: 'a.txt', content: 'hello' }]] },
    );
    const host = await start({ mars: { model: model.config, capabilities: ['write'] } });
    await host.ready('mars');
    const answer = `It is written. ${'And so on. '.repeat(200)}`;
    const task = await send(host, [{ text: 'write it' }]);
    expect(task.status.state).toBe('TASK_STATE_COMPLETED');
    expect(task.artifacts).toHaveLength(1);
    expect(task.artifacts![0]!.parts.map(({ text }) => text).join('')).toBe(answer);
    expect(existsSync(join(host.lane('mars'), 'a.txt'))).toBe(true);
    const { sun } = host;
    expect(await sun.request('mars', 'write it')).toBe(answer);
    const proposal = sun.propose({ to: 'mars', taskDescription: 'write it', requiredCapabilities: ['write'] });
    expect(await proposal.result).toBe(answer);
  });

  it('returns data that matches the schema of a request or a task [WK.M3]', async () => {
    const model = await serve(() => '```json\n{"n": 7}\n```');
    const host = await start({ mars: { model: model.config } });
    await host.ready('mars');
    const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
    expect(await host.sun.request('mars', { text: 'how many?', outputSchema, of: 'apples' })).toEqual({ n: 7 });
    expect(model.completions[0]!.messages[1]!.content).toContain('"of": "apples"');
    const { artifacts } = await send(host, [{ text: 'how many?' }, { data: { outputSchema } }]);
    expect(artifacts![0]!.parts).toMatchObject([{ data: { n: 7 } }]);
  });

  it('continues the conversation of a plan’s task at its retry; requests have none [WK.M6]', async () => {
    const model = await serve((_, count) => `answer ${count}`);
    const host = await start({ mars: { model: model.config } });
    await host.ready('mars');
    const attempt = (task: string, more: object = {}) =>
      send(host, [{ text: 'write' }, { data: { run: 'r1', task, attempt: 1, results: {}, ...more } }]);
    await attempt('one');
    await attempt('two');
    await attempt('one', { attempt: 2, feedback: ['too short'] });
    await host.sun.request('mars', { text: 'write', run: 'r1', task: 'one' });
    expect(model.completions.map(userTurns)).toEqual([1, 1, 2, 1]);
    const [, first, answer, retry] = model.completions[2]!.messages;
    expect([first!.content, answer!.content]).toEqual([expect.stringContaining('write'), 'answer 1']);
    expect(retry!.content).toContain('too short');
  });

  it('is denied by the policy, with an event and a row in the audit log [WK.M8]', async () => {
    const model = await serve(({ messages }) =>
      messages.at(-1)!.role === 'tool'
        ? messages.at(-1)!.content!
        : { calls: [['write_file', { path: 'a', content: '' }]] },
    );
    const rules = [{ action: 'fs.write', decision: 'deny' as const }];
    const host = await start({ mars: { model: model.config } }, { policy: rules });
    await host.ready('mars');
    const before = await host.control.call('audit.verify');
    expect(await host.sun.request('mars', 'write a')).toContain('Error PROVIDER_POLICY_DENIED');
    expect(existsSync(join(host.lane('mars'), 'a'))).toBe(false);
    const denied = { sender: 'mars', provider: 'mars', success: false, details: { action: 'fs.write', subject: 'a' } };
    expect(topics(host, 'action.denied')).toMatchObject([denied]);
    expect((await host.control.call('audit.verify')).rows).toBeGreaterThan(before.rows);
  });
});

describe('the key of a model', () => {
  it('is missing or refused: the agent is unavailable, and recovers when it is set [WK.M5 WK.M7]', async () => {
    const model = await serve(() => 'hello');
    model.token = 'sk-right-key-1';
    const host = await start({ mars: { model: { ...model.config, credential: 'openai' } } });
    await until(() => stateOf(host) === 'unavailable');
    const refused = async () => {
      const began = Date.now();
      const error = await host.sun.request('mars', 'hi').catch((thrown: Error) => thrown);
      expect(error).toBeInstanceOf(Error);
      // It does not wait for a worker that only the owner can help.
      expect(Date.now() - began).toBeLessThan(3_000);
      return (error as Error).message;
    };
    expect(await refused()).toContain('openai');
    const set = (value: string) => host.control.call('credentials.set', { provider: 'mars', name: 'openai', value });
    await set('sk-wrong-key-1');
    await until(() => host.host.node.providers.get('mars').message?.includes('401') === true);
    expect(stateOf(host)).toBe('unavailable');
    expect(await refused()).toContain('Incorrect API key');
    await set('sk-right-key-1');
    await until(() => stateOf(host) === 'ready');
    expect(await host.sun.request('mars', 'hi')).toBe('hello');
    // The vendor revokes it.
    model.token = 'sk-right-key-2';
    await expect(host.sun.request('mars', 'hi')).rejects.toMatchObject({ code: 'PROVIDER_CREDENTIAL_MISSING' });
    await until(() => stateOf(host) === 'unavailable');
    await refused();
    await set('sk-right-key-2');
    await until(() => stateOf(host) === 'ready');
    expect(await host.sun.request('mars', 'hi')).toBe('hello');
  });

  it('appears in no error, event, log, progress or description, even if the endpoint quotes it [WK.M7]', async () => {
    const quoting = (keys: readonly string[]) => (_: Completion, count: number) => ({
      status: [500, 429, 400][(count - 1) % 3]!,
      headers: { 'retry-after': '0' },
      body: JSON.stringify({ error: { message: `your keys are ${keys.join(', ')}` } }),
    });
    const [plain, stored, header] = ['sk-plain-key-77', 'sk-stored-key-88', 'sk-header-key-99'];
    const one = await serve(quoting([plain]));
    const two = await serve(quoting([stored, header]));
    const logs: unknown[] = [];
    const log = (...line: unknown[]) => logs.push(line);
    const logger: Logger = { debug: log, info: log, warn: log, error: log };
    const agents = {
      mars: { model: { ...one.config, apiKey: plain } },
      venus: { model: { ...two.config, credential: 'openai', headers: { 'x-key': header } } },
    };
    const host = await start(agents, {}, systemRuntime({ logger }));
    await host.control.call('credentials.set', { provider: 'venus', name: 'openai', value: stored });
    await until(() => stateOf(host) === 'ready' && stateOf(host, 'venus') === 'ready');
    const seen: unknown[] = [logs, host.events];
    for (const id of ['mars', 'venus']) {
      const task = await send(host, [{ text: 'hi' }], id);
      expect(task.status.state).toBe('TASK_STATE_FAILED');
      seen.push(task, host.host.node.providers.describe(id), host.host.node.providers.get(id));
      seen.push(await host.sun.request(id, 'hi').catch(({ message, details }) => ({ message, details })));
    }
    seen.push(await host.control.call('providers'), await host.control.call('agents'));
    const text = JSON.stringify(seen);
    expect(text.match(/your keys are \[secret\]/g)!.length).toBeGreaterThan(8);
    expect(text).toContain('HTTP 429: your keys are [secret], [secret]; trying again');
    for (const key of [plain, stored, header]) expect(text).not.toContain(key);
    const sent = [...one.completions, ...two.completions].map(({ headers }) => headers);
    expect(sent[0]).toMatchObject({ authorization: `Bearer ${plain}` });
    expect(sent.at(-1)).toMatchObject({ authorization: `Bearer ${stored}`, 'x-key': header });
  });
});

describe('several workers of an agent', () => {
  it('that are models stand in for each other: the next task goes to the second, and back [WK.M9]', async () => {
    const [a, b] = [await serve(() => 'from A'), await serve(() => 'from B')];
    const agents = parseConfig(
      JSON.stringify({ agents: { mars: [{ model: { ...a.config, healthMs: 5_000 } }, { model: b.config }] } }),
      'ecliptic.json',
    ).agents;
    const host = await start(agents);
    await host.ready('mars/1', 'mars/2');
    expect(await host.sun.request('mars', 'who?')).toBe('from A');
    await a.stop();
    // Work that was given to the first one is not repeated elsewhere.
    await expect(host.sun.request('mars', 'who?')).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    expect(await host.sun.request('mars', 'who?')).toBe('from B');
    expect(stateOf(host)).toBe('ready');
    expect(topics(host, 'provider.failover.activated').at(-1)).toMatchObject({
      details: { from: 'mars/1', to: 'mars/2' },
    });
    await a.listen();
    await until(() => host.host.node.providers.get('mars/1').state === 'healthy');
    expect(await host.sun.request('mars', 'who?')).toBe('from A');
    expect(b.completions).toHaveLength(1);
  });

  it('may be of different types: a coding agent that is killed is replaced by a model, until it is back [WK.M9]', async () => {
    const model = await serve(() => 'from the model');
    const agents = { mars: { workers: [{ acp: acpAgent() }, { model: model.config }] } } satisfies Config['agents'];
    const host = await start(agents);
    await host.ready('mars/1', 'mars/2');
    expect(await host.sun.request('mars', 'do:say from ACP')).toBe('from ACP ');
    await expect(host.sun.request('mars', 'do:die')).rejects.toMatchObject({ code: 'PROVIDER_CRASHED' });
    expect(await host.sun.request('mars', 'do:say hello')).toBe('from the model');
    const change = { provider: 'mars/2', providerType: 'model', details: { from: 'mars/1', to: 'mars/2' } };
    expect(topics(host, 'provider.failover.activated').at(-1)).toMatchObject(change);
    await until(() => host.host.node.providers.get('mars/1').state === 'healthy');
    expect(await host.sun.request('mars', 'do:say from ACP')).toBe('from ACP ');
  });

  it('are checked in the configuration, each fault with line and column [WK.M9]', () => {
    const text = `{ "agents": { "mars": [
      { "model": { "baseUrl": "ftp://x", "model": "m" } },
      { "exec": "ls", "model": { "baseUrl": "http://x/v1", "model": "m" } },
      { "model": { "baseUrl": "http://x/v1" } },
      { "model": { "baseUrl": "http://x/v1", "model": "m", "apikey": "k" } }
    ], "venus": [] } }`;
    const faults = (() => {
      try {
        return parseConfig(text, 'e.json');
      } catch (error) {
        return (error as { details: { faults: string[] } }).details.faults;
      }
    })();
    expect(faults).toEqual([
      expect.stringMatching(/^e\.json:2:31: agents\.mars\.0\.model\.baseUrl: /),
      expect.stringMatching(/^e\.json:3:7: agents\.mars\.1: needs exactly one of/),
      expect.stringMatching(/^e\.json:4:18: agents\.mars\.2\.model\.model: /),
      expect.stringMatching(/^e\.json:5:60: agents\.mars\.3\.model\.apikey: is not a key/),
      expect.stringMatching(/^e\.json:6:17: agents\.venus: /),
    ]);
  });
});

describe('one model for all roles', () => {
  const roles = PLANETARY_ROSTER.map(({ id }) => id);

  async function folder(config: object): Promise<string> {
    const path = mkdtempSync(join(tmpdir(), 'ecliptic-up-model-'));
    cleanups.push(() => rmSync(path, { recursive: true, force: true }));
    writeFileSync(join(path, 'ecliptic.json'), JSON.stringify(config));
    return path;
  }

  it('works for each role without a worker, and for no other agent [WK.M10]', async () => {
    const model = await serve(({ messages }) => messages[0]!.content!.split('\n')[0]!);
    const own = await serve(() => 'my own');
    const cwd = await folder({
      network: { dht: false },
      model: { baseUrl: 'https://api.example.com/v1', model: 'other', apiKey: 'sk-of-the-file' },
      agents: { mars: { model: own.config }, clerk: { tier: 2 } },
    });
    const data = join(cwd, 'data');
    const args = [BIN, 'up', '--json', '--model', `${model.baseUrl}#test-model`, '--data', data];
    const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
    cleanups.push(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    });
    await once(createInterface({ input: child.stdout! }), 'line');
    const cli = async (...words: string[]) =>
      (await promisify(execFile)(process.execPath, [BIN, ...words, '--data', data], { cwd })).stdout;
    const states = async () => {
      const rows = JSON.parse(await cli('agents', '--json')) as { id: string; state: string }[];
      return new Map(rows.map(({ id, state }) => [id, state]));
    };
    let seen = await states();
    while (roles.some((id) => seen.get(id) !== 'ready')) seen = await states();
    expect(seen.get('clerk')).toBe('unstaffed');
    expect(await cli('request', '--as', 'sun', '--to', 'mars', '"hi"')).toContain('my own');
    expect(await cli('request', '--as', 'sun', '--to', 'saturn', '"hi"')).toMatch(/saturn/i);
    // The key in the file is for the endpoint in the file.
    expect(model.completions.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  }, 60_000);

  it('is checked: --model takes URL#NAME, and config check finds faults [WK.M10]', async () => {
    const cwd = await folder({ model: { baseUrl: 'http://127.0.0.1:1/v1' } });
    const run = (...words: string[]) =>
      promisify(execFile)(process.execPath, [BIN, ...words], { cwd }).then(
        ({ stdout }) => ({ code: 0, said: stdout }),
        ({ code, stderr }: { code: number; stderr: string }) => ({ code, said: stderr }),
      );
    const checked = await run('config', 'check');
    expect(checked.code).not.toBe(0);
    expect(checked.said).toMatch(/ecliptic\.json:1:\d+: model\.model: /);
    const up = await run('up', '--config', join(await folder({}), 'ecliptic.json'), '--model', 'http://127.0.0.1:1/v1');
    expect(up).toMatchObject({ code: 2, said: expect.stringContaining('--model takes URL#NAME') });
  });
});
