import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../nats-server.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { channelExact, channelFlows, LeaseLoad, MailLoad, repository, SwarmLoad } from './cluster-load.js';
import { type ServerLink, ServerNetwork } from './server-network.js';

vi.setConfig({ hookTimeout: 60_000 });

const ROUNDS = Number(process.env.ECLIPTIC_ROUNDS ?? (SOAK ? 20 : 1));
const LEDGER = fileURLToPath(new URL('../durable/agents/ledger.ts', import.meta.url));
const WORKER = fileURLToPath(new URL('../swarm/agents/worker.ts', import.meta.url));
const MAIL_STREAM = 'ecl_main_mail';

/** What happens to a server: it is killed, cut off from everything, or cut off from the other servers only. */
type Fault = 'kill' | readonly ServerLink[];

describe('a cluster of three NATS servers', () => {
  it(
    `loses and repeats nothing while its servers are killed and cut off under load, over ${ROUNDS} rounds [NX.6 NX.10 NM.16 NL.7]`,
    inCluster(async (cluster) => {
      const network = await ServerNetwork.open(3);
      cluster.onEnd(() => network.close());
      const servers = await NatsServer.cluster(3, { syncAlways: true }, network.places);
      for (const server of servers) cluster.onEnd(() => server.stop());
      const [a, b, c, late] = await nodesOf(cluster, network, servers);
      const present = [a, b, c];
      const mail = [new MailLoad(a, b), new MailLoad(b, c), new MailLoad(c, a)];
      const relayed = new MailLoad(a, late, { echo: false });
      await a.request('asker', 'witness', { do: 'begin', to: `witness@${b.key}`, everyMs: 25 });
      for (const load of [...mail, relayed]) load.begin();
      const leases = await LeaseLoad.begin(present, repository(cluster));
      cluster.onEnd(() => leases.end());
      await Promise.all([leases, ...mail].map((load) => load.flows()));
      for (let round = 0; round < ROUNDS; round++) {
        await late.stop();
        for (const [victim, fault] of faults(servers, round)) {
          const swarm = await SwarmLoad.start(present);
          const began = performance.now();
          const times: Record<string, number> = {};
          const timed = async (what: string, done: Promise<unknown>) => {
            await done;
            times[what] = Math.round(performance.now() - began);
          };
          const at = servers.indexOf(victim);
          if (fault === 'kill') await victim.kill();
          else network.cut(at, fault);
          await Promise.all([
            timed('leases', leases.flows()),
            timed('mail', Promise.all(mail.map((load) => load.flows()))),
            timed('channel', channelFlows(a)),
            timed('relayed', relayed.relayed()),
            timed('swarm', swarm.exact()),
          ]);
          if (fault === 'kill') await victim.start();
          else network.heal(at, fault);
          expect(leases.faults).toEqual([]);
          if (SOAK) console.log(`round ${round + 1}, ${victim.name} ${fault}, ms: ${JSON.stringify(times)}`);
        }
        await late.start();
        await relayed.handled();
      }
      await Promise.all([leases, relayed, ...mail].map((load) => load.end()));
      await Promise.all([relayed, ...mail].map((load) => load.exact()));
      expect(leases.faults).toEqual([]);
      await untilConnected(present);
      await channelExact(a, b);
      expect((await a.run('doctor')).stdout).toMatch(/nats: .* other members connected to it: 3/);
      for (const node of present) expect(node.log).not.toMatch(/tamper|forged|is damaged/i);
      const sent = [relayed, ...mail].reduce((sum, load) => sum + load.sent, 0);
      if (SOAK) console.log(`cluster: ${sent} durable messages, ${leases.grants} leases in ${ROUNDS} rounds`);
    }),
    90_000 + ROUNDS * 180_000,
  );
});

/** The leader of the mail stream dies first; the next one is cut off. A long run does more. */
function* faults(servers: readonly NatsServer[], round: number): Generator<[NatsServer, Fault]> {
  const leader = () => NatsServer.leaderOf(servers, MAIL_STREAM)!;
  const first = leader();
  yield [first, 'kill'];
  if (SOAK) for (const other of servers.filter((server) => server !== first)) yield [other, 'kill'];
  yield [SOAK ? servers[round % 3]! : leader(), ['clients', 'routes']];
  if (SOAK) yield [leader(), ['routes']];
}

/** Three nodes that stay, and one that is away while servers fail. */
async function nodesOf(
  cluster: Cluster,
  network: ServerNetwork,
  servers: readonly NatsServer[],
): Promise<[ProcessNode, ProcessNode, ProcessNode, ProcessNode]> {
  const modules = { witness: cluster.witness(), ledger: cluster.module(LEDGER), worker: cluster.module(WORKER) };
  const settings = (name: string) => ({
    args: ['--nats', servers.map(({ url }) => url).join(',')],
    within: network.within,
    env: { ECLIPTIC_LOG: 'warn' },
    config: {
      roster: false,
      agents: {
        asker: { tier: 0 as const },
        ledger: { tier: 0 as const, module: modules.ledger },
        ...(name !== 'late' && {
          witness: { tier: 0 as const, module: modules.witness },
          [`worker-${name}`]: { tier: 2 as const, module: modules.worker, capabilities: ['work'] },
        }),
      },
    },
  });
  const names = ['a', 'b', 'c', 'late'];
  const nodes = await Promise.all(names.map((name) => cluster.start(name, settings(name))));
  const [host, ...guests] = nodes;
  const agents = 4 * 3 + 2;
  for (const guest of guests) await host!.admit(guest, { tiers: [0, 1, 2, 3] });
  for (const node of nodes) await until(async () => (await node.agents()).length === agents, 'all agents are known');
  return nodes as [ProcessNode, ProcessNode, ProcessNode, ProcessNode];
}
