import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from 'vitest';
import { CallLimits } from '../../src/a2a/client/call-limits.js';
import type { StreamedEvent } from '../../src/a2a/client/transports.js';
import type { MeshTransport } from '../../src/a2a/mesh/mesh-transport.js';
import { textOf } from '../../src/a2a/protocol/simple.js';
import type { StreamResponse } from '../../src/a2a/protocol/types.js';
import { finish, inCluster, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { onlyThroughProxy } from '../nodes/faulty-way.js';
import { stablePort } from '../ports.js';
import { EdgeNodes, until as untilTrue } from './edge-nodes.js';
import { collect } from './task-node.js';

const LONG = new URL('./agents/long-steps.ts', import.meta.url).pathname;
const ROUNDS = SOAK ? 50 : 2;

describe('a streamed task over the mesh', () => {
  it(
    'goes on without loss or doubles when the node of its agent is killed [MB.3]',
    { timeout: 60_000 + ROUNDS * 20_000 },
    inCluster(async (cluster) => {
      const args = ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`];
      const config = { roster: false, agents: { stubborn: { module: LONG } } } as const;
      const back = await cluster.start('back', { args, config });
      const front = await cluster.inProcess({ listen: { host: '127.0.0.1', port: 0 }, dht: false });
      front.agent({ id: 'sun', tier: 3 });
      const { code } = await back.call<{ code: string }>('invite');
      await front.network.join(code);
      for (let round = 0; round < ROUNDS; round++) {
        const address = `stubborn@${back.key}`;
        await untilTrue(() => front.registry.entry(address) !== undefined);
        const transport = front.a2aTransport({ node: back.key, agent: 'stubborn' }, 'sun');
        const seen: StreamedEvent[] = [];
        const message = { messageId: `round-${round}`, role: 'ROLE_USER', parts: [{ text: 'work' }] };
        const limits = new CallLimits(front.runtime, {}, { silenceMs: 60_000 });
        let killed: Promise<unknown> | undefined;
        for await (const event of transport.stream('SendStreamingMessage', { message }, { limits })) {
          seen.push(event);
          if (seen.length === 3 + round) killed = back.crash().then(() => back.start());
        }
        await killed;
        const [taskId] = seen[0]!.id.split(':');
        expect(seen.map(({ id }) => id)).toEqual(seen.map((_, index) => `${taskId}:${index + 1}`));
        expect(seen.at(-1)!.event).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } });
        expect(await all(transport, taskId!, limits)).toEqual(seen);
        limits.release();
      }
    }),
  );

  it(
    'goes on without loss or doubles when the link is cut again and again, between two processes [MB.3]',
    { timeout: 90_000 },
    inCluster(async (cluster) => {
      const { proxy, called, caller } = await onlyThroughProxy(cluster);
      const config = { roster: false, agents: { stubborn: { module: LONG } } } as const;
      const [back, front] = await Promise.all([
        cluster.start('back', { ...called, config }),
        cluster.start('front', { ...caller, config: { roster: false } }),
      ]);
      await back.admit(front);
      await untilConnected([back, front]);
      const to = `stubborn@${back.key}`;
      await until(async () => (await front.agents()).some(({ node }) => node === back.key), 'the agent is known');
      const words = ['task', 'send', to, 'work', '--a2a', '--json', '--data', front.data];
      const child = cluster.launch(words, front.home);
      const ended = finish(child);
      const events: StreamResponse[] = [];
      let cuts = 0;
      for await (const line of createInterface(child.stdout!)) {
        events.push(JSON.parse(line) as StreamResponse);
        if (events.length % 8 !== 4 || cuts === 3) continue;
        cuts++;
        proxy.fault = 'cut';
        setTimeout(() => {
          proxy.fault = undefined;
        }, 300);
      }
      expect((await ended).code).toBe(0);
      expect(cuts).toBe(3);
      const steps = events.flatMap((event) =>
        'artifactUpdate' in event ? [textOf(event.artifactUpdate.artifact.parts)] : [],
      );
      expect(steps).toEqual(Array.from({ length: 30 }, (_, index) => `${index + 1} `));
    }),
  );
});

/** Every event of a task, read afterwards. */
function all(transport: MeshTransport, id: string, limits: CallLimits): Promise<StreamedEvent[]> {
  const terms = { limits, headers: { 'last-event-id': `${id}:0` } };
  return collect(transport.stream('SubscribeToTask', { id }, terms));
}

describe('a client over the mesh', () => {
  const nodes = new EdgeNodes();

  afterEach(() => nodes.stopAll());

  it('gets the card from the node whose key has signed it, and speaks for one of its own agents [MB.1]', async () => {
    const back = await nodes.add();
    const front = await nodes.add({ invite: {}, agents: false });
    front.node.agent({ id: 'sun', tier: 3 });
    const client = await front.node.a2a(`echo@${back.key}`, { as: 'sun' });
    expect(client.card).toMatchObject({
      name: 'ECHO',
      supportedInterfaces: [
        { url: `ecliptic:${back.key}`, protocolBinding: 'urn:ecliptic:a2a:mesh:1', tenant: 'echo' },
      ],
    });
    expect(client.card).not.toHaveProperty('securitySchemes');
    await expect(front.node.a2a(`echo@${back.key}`, { as: 'mars' })).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    await expect(front.node.a2a(`nobody@${back.key}`)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    // The worker learns who asks.
    let asker = '';
    back.node.agent({ id: 'curious' }).onTask((task) => {
      asker = task.asker;
      return task.text;
    });
    await untilTrue(() => front.node.registry.entry(`curious@${back.key}`) !== undefined);
    await (await front.node.a2a(`curious@${back.key}`, { as: 'sun' })).send({ message: 'x' });
    expect(asker).toBe(`sun@${front.key}`);
  });

  it('reaches the agents of its own node in the same way, and waits no longer than it is told for one that is away [MB.2]', async () => {
    const back = await nodes.add();
    const own = await back.node.a2a('echo');
    expect(await own.send({ message: 'here' })).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
    const front = await nodes.add({ invite: {}, agents: false });
    const client = await front.node.a2a(`echo@${back.key}`, { awayMs: 100 });
    await nodes.stop(back);
    await expect(client.send({ message: 'away' })).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' });
  });
});
