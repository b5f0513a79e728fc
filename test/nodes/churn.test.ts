import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EVERY_TIER, type Grant } from '../../src/network/membership/certificate.js';
import { Identity } from '../../src/network/membership/identity.js';
import { inviteId, proveInvite } from '../../src/network/membership/invite.js';
import { Membership } from '../../src/network/membership/membership.js';
import { MembershipFile } from '../../src/network/membership/membership-file.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { ECHO } from '../echo-agents.js';
import { Cluster, type ProcessNode, SOAK, until, untilConnected } from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const GRANT: Grant = { tiers: [...EVERY_TIER], invite: true };
/** Everyone sees everyone again within this time. */
const RECOVERY_MS = 45_000;
/** Two that start at once meet within this time after both are up. */
const MEETING_MS = 2_000;

let cluster: Cluster;

beforeEach(() => {
  cluster = new Cluster();
});

afterEach(() => cluster.end());

describe('nodes on a DHT that are killed and started again at random', () => {
  const { count, events, withinMs, rounds } = SOAK
    ? { count: 10, events: 30, withinMs: 10_000, rounds: 5 }
    : { count: 5, events: 8, withinMs: 5_000, rounds: 1 };

  it(
    'see each other and all agents again soon after the last kill',
    async () => {
      const nodes = members(count, 'node', await cluster.dht());
      await Promise.all(nodes.map((node) => node.start()));
      await everyoneSeesEveryone(nodes);
      for (let round = 1; round <= rounds; round++) {
        const random = randomFrom(round);
        const starts: Promise<unknown>[] = [];
        for (let event = 0; event < events; event++) {
          const node = nodes[Math.floor(random() * nodes.length)]!;
          // One may well be killed before it is up.
          if (node.running) await node.crash();
          else starts.push(node.start().catch(() => {}));
          await delay(2 * (withinMs / events) * random());
        }
        await Promise.all(starts);
        await Promise.all(nodes.filter((node) => !node.running).map((node) => node.start()));
        const calmAt = performance.now();
        await everyoneSeesEveryone(nodes);
        if (SOAK) console.log(`round ${round}: all together after ${Math.round(performance.now() - calmAt)} ms`);
      }
      const [first] = nodes;
      for (const { key } of nodes.slice(1)) {
        expect(await first!.request('agent', `agent@${key}`, key)).toMatchObject({ echo: key });
      }
    },
    SOAK ? 900_000 : 90_000,
  );
});

describe('two members that are started at the same moment', () => {
  const count = SOAK ? 20 : 5;

  it(
    `meet within ${MEETING_MS} ms of being up, in each of ${count} pairs [IT3]`,
    async () => {
      const bootstrap = await cluster.dht();
      const took: number[] = [];
      for (let index = 0; index < count; index++) {
        const pair = members(2, `pair${index}-`, bootstrap);
        await Promise.all(pair.map((node) => node.start()));
        await untilConnected(pair);
        const readyAt = Math.max(...pair.map((node) => node.readyAt));
        const rows = await Promise.all(pair.map((node) => node.peers()));
        took.push(Math.max(...rows.map(([row]) => row!.since)) - readyAt);
        await Promise.all(pair.map((node) => node.stop()));
      }
      if (SOAK) console.log(`pairs met after ${took.sort((a, b) => a - b).join(', ')} ms`);
      expect(took.filter((ms) => ms > MEETING_MS)).toEqual([]);
    },
    SOAK ? 300_000 : 90_000,
  );
});

/** Nodes that are members of one mesh before they are ever started. */
function members(count: number, prefix: string, bootstrap: string): ProcessNode[] {
  const runtime = systemRuntime();
  const settings = {
    args: ['--bootstrap', bootstrap],
    config: { roster: false, agents: { agent: { tier: 0 as const, module: ECHO } } },
  };
  const nodes = Array.from({ length: count }, (_, index) => cluster.node(`${prefix}${index}`, settings));
  const memberships = nodes.map(({ data }) => {
    const identity = Identity.keptIn(data, runtime);
    return { identity, membership: new Membership({ runtime, identity, store: new MembershipFile(data) }) };
  });
  const [founder, ...guests] = memberships;
  founder!.membership.create(nodes[0]!.name, [bootstrap]);
  guests.forEach(({ identity, membership }, index) => {
    const secret = founder!.membership.invite(GRANT, 60_000);
    const handshake = { hash: runtime.bytes(32), initiator: false, remoteKey: identity.key };
    const proof = proveInvite(secret, 'guest', handshake.hash);
    const name = nodes[index + 1]!.name;
    membership.adopt(founder!.membership.admit(inviteId(secret), proof, name, handshake).welcome, []);
  });
  return nodes;
}

async function everyoneSeesEveryone(nodes: readonly ProcessNode[]): Promise<void> {
  const deadline = performance.now() + RECOVERY_MS;
  const left = () => Math.max(0, deadline - performance.now());
  await untilConnected(nodes, RECOVERY_MS);
  for (const node of nodes) {
    const complete = async () => {
      const rows = await node.agents();
      return rows.length === nodes.length && rows.every(({ state }) => state === 'ready');
    };
    await until(complete, `${node.name} knows every agent`, left());
  }
}

/** The same numbers for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed * 2_654_435_761;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
