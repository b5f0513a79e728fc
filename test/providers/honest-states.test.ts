import { afterEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import { acpAgent, ProcessHost, program } from './process-host.js';
import { until } from './processes.js';

let running: ProcessHost | undefined;

afterEach(async () => {
  await running?.stop();
  running = undefined;
});

async function start(agents: Config['agents']): Promise<ProcessHost> {
  running = await ProcessHost.start(agents);
  return running;
}

/** How each surface shows the agent `worker`. */
async function shown({ control, host }: ProcessHost) {
  const agents = await control.call('agents');
  const providers = await control.call('providers');
  const { findings } = await control.call('doctor');
  const health = (await (await fetch(`${host.gateway.url}/health`)).json()) as { status: string };
  return {
    agent: agents.find(({ id }) => id === 'worker')!,
    provider: providers.find(({ id }) => id === 'worker')!,
    problem: findings.find(({ level, text }) => level === 'problem' && text.includes('"worker"'))?.text,
    health: health.status,
  };
}

/** Every way to give the agent work, each with the reason why it is refused. */
async function refusals({ sun, host }: ProcessHost): Promise<string[]> {
  const reason = (work: Promise<unknown>) =>
    work.then(
      () => 'it was done',
      (error: Error) => error.message,
    );
  const rpc = { jsonrpc: '2.0', id: 1, method: 'SendMessage' };
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
  const task = async () => {
    const answer = await fetch(`${host.gateway.url}/a2a/rpc`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'A2A-Version': '1.0',
        Authorization: `Bearer ${host.gateway.tokens.owners}`,
      },
      body: JSON.stringify({ ...rpc, params: { tenant: 'worker', message } }),
    });
    return JSON.stringify(await answer.json());
  };
  return [
    await reason(sun.request('worker', 'hello', { timeoutMs: 10_000 })),
    await reason(sun.propose({ to: 'worker', taskDescription: 'hello', deadlineMs: 10_000 }).result),
    await task(),
  ];
}

describe('an agent whose program', () => {
  it('is starting is shown as such, and its work waits until it is ready [T-E5 T-B5]', async () => {
    const host = await start({ worker: { acp: acpAgent('slow', '5200') } });
    expect(await shown(host)).toMatchObject({
      agent: { state: 'starting' },
      provider: { state: 'starting' },
      problem: undefined,
    });
    await new Promise((resolve) => setTimeout(resolve, 4_700));
    // The registry has stopped waiting for it, and it is not up yet.
    expect(await shown(host)).toMatchObject({ agent: { state: 'starting' }, provider: { state: 'starting' } });
    expect(await host.sun.request('worker', 'do:say hello')).toBe('hello ');
    await until(() => host.host.node.registry.requireById('worker').status === undefined);
    expect(await shown(host)).toMatchObject({
      agent: { state: 'ready' },
      provider: { state: 'healthy' },
      health: 'ok',
    });
  });

  it('requires a login at the prompt is unavailable, says so everywhere, and refuses work at once [T-E6 T-E7 T-B5]', async () => {
    const host = await start({ worker: { acp: acpAgent('prompt-login') } });
    await host.ready('worker');
    await expect(host.sun.request('worker', 'hello')).rejects.toMatchObject({ code: 'PROVIDER_CREDENTIAL_MISSING' });
    await until(() => host.host.node.registry.requireById('worker').status?.state === 'unavailable');
    const { agent, provider, problem, health } = await shown(host);
    expect({ state: agent.state, provider: provider.state, health }).toEqual({
      state: 'unavailable',
      provider: 'unavailable',
      health: 'degraded',
    });
    for (const reason of [agent.reason, provider.message, problem, ...(await refusals(host))]) {
      expect(reason).toContain('Please run /login');
    }
  });

  it('is missing or was drained refuses work at once with the reason [T-E7 T-B5]', async () => {
    const host = await start({ worker: { acp: { command: 'no-such-agent' } } });
    await until(() => host.host.node.registry.requireById('worker').status?.state === 'unavailable');
    const { agent, provider, problem, health } = await shown(host);
    expect([agent.state, provider.state, health]).toEqual(['unavailable', 'unavailable', 'degraded']);
    for (const reason of [agent.reason, provider.message, problem, ...(await refusals(host))]) {
      expect(reason).toContain('no-such-agent');
    }
    await running!.stop();
    const well = await start({ worker: { command: program() } });
    await well.ready('worker');
    await well.control.call('provider.drain', { id: 'worker' });
    for (const reason of [(await shown(well)).agent.reason, ...(await refusals(well))]) {
      expect(reason).toContain('is drained');
    }
  });

  it('exits with an uncaught error is reported with that error [T-E12]', async () => {
    const script = 'throw new TypeError("the key is missing")';
    const host = await start({ worker: { command: { command: process.execPath, args: ['-e', script] } } });
    await until(() => host.host.node.providers.list()[0]?.message !== null);
    const { message } = host.host.node.providers.get('worker');
    expect(message).toContain('TypeError: the key is missing');
    expect(message).not.toContain('Node.js v');
  });

  it('answers over ACP with an error is reported with the details of that error [T-E13]', async () => {
    const host = await start({ worker: { acp: acpAgent() } });
    await host.ready('worker');
    await expect(host.sun.request('worker', 'do:break the model is gone')).rejects.toMatchObject({
      message: expect.stringContaining('Internal error: the model is gone'),
    });
  });
});
