import { afterEach, describe, expect, it, vi } from 'vitest';
import { runTool } from '../../src/coding-agents/tools/tools.js';
import { serverConfig } from '../../src/nats/server-config.js';
import { createNode } from '../../src/node/compose.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { temporaryFolder } from '../coding-agents-fixture.js';
import { identify, OWN } from '../lease-mesh.js';
import { NatsServer } from '../nats-server.js';

let endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

async function device(server: NatsServer) {
  const node = await createNode({ network: { nats: { servers: [server.url] } }, store: new MemoryStore() });
  endings.push(() => node.stop());
  const codingAgents = await node.openCodingAgents(temporaryFolder(), { identify });
  return { node, codingAgents };
}

describe('whole nodes with a broker', () => {
  it('decide leases and record swarms there, with the permissions of the generated configuration [NL.12 SL.8]', async () => {
    const server = await NatsServer.start({ syncAlways: true });
    endings.push(() => server.stop());
    const [desk, laptop] = [await device(server), await device(server)];
    const users = [desk, laptop].map(({ node }) => node.brokerAccess!.users().users[0]!);
    await server.configure((place) => serverConfig({ ...place, mesh: 'main', users }));
    const { code } = await vi.waitFor(() => desk.node.network!.invite(OWN), { timeout: 10_000 });
    await laptop.node.network!.join(code);
    let calls = 0;
    const take = async ({ codingAgents }: typeof desk, as: string, paths: string[]) => {
      const known = codingAgents.present.find(({ name }) => name === as);
      const member = known ?? (await codingAgents.attach({ as, client: 'scripted', checkout: '/work' }));
      const call = { number: ++calls, seen: [], signal: new AbortController().signal };
      return (await runTool(member, 'mesh_lease', { action: 'take', paths }, call)).text;
    };
    await vi.waitFor(async () => expect(await take(desk, 'ann', ['src'])).toContain('token'), { timeout: 15_000 });
    await vi.waitFor(async () => expect(await take(laptop, 'bob', ['docs'])).toContain('token'), {
      timeout: 15_000,
    });
    expect(await take(laptop, 'bob', ['src/x'])).toContain('holds src');
    expect(desk.codingAgents.leases.keeperOf('repository')).toBe('NATS bucket ecl_main_leases');
    expect((await laptop.codingAgents.leases.list()).map(({ glob }) => glob).sort()).toEqual(['docs', 'src']);

    laptop.node.agent({ id: 'digger', capabilities: ['dig'] }).onTask(async () => 'a hole');
    const sun = desk.node.agent({ id: 'sun' });
    await vi.waitFor(() => expect(desk.node.registry.findByCapability('dig')).toHaveLength(1), { timeout: 10_000 });
    const run = sun.swarm('dig', { capabilities: ['dig'] });
    expect((await run.result).results).toEqual({ dig: 'a hole' });
    const { machine } = desk.node.swarms.coordinators.get('sun')!.participations.get(run.id)!;
    expect(machine.swarm).toMatchObject({ log: 'broker', seats: [sun.address, `digger@${laptop.node.key}`] });
  }, 60_000);
});
