import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { inCluster, type ProcessNode, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { channelExact, channelFlows, LeaseLoad, MailLoad, repository } from './cluster-load.js';
import { TAMPERINGS, TamperingBroker } from './tampering-broker.js';

vi.setConfig({ testTimeout: SOAK ? 3_600_000 : 60_000, hookTimeout: 60_000 });

const LEDGER = fileURLToPath(new URL('../durable/agents/ledger.ts', import.meta.url));
const LINKS = /^ecl\.main\.l\./;
/** Presence, entries and leases. */
const BUCKETS = /^\$KV\./;
const ANSWERS = /^ecl\.main\.i\./;
const MAIL = /^ecl\.main\.m\./;
const MESSAGES = SOAK ? 100 : 10;
/** Each changed byte ends a link, and nodes then wait before they call again: up to five seconds. */
const TAMPERED_MS = SOAK ? 600_000 : 45_000;

describe('a rogue broker', () => {
  it(
    'delays and drops, and no more: nodes take nothing altered, repeated or forged from it, and recover [NX.3]',
    inCluster(async (cluster) => {
      const server = await cluster.natsServer();
      const rogue = await TamperingBroker.start(server.port);
      cluster.onEnd(() => rogue.stop());
      const module = { ledger: cluster.module(LEDGER), witness: cluster.witness() };
      const settings = {
        args: ['--nats', rogue.url],
        env: { ECLIPTIC_LOG: 'warn' },
        config: {
          roster: false,
          agents: {
            asker: { tier: 0 as const },
            ledger: { tier: 0 as const, module: module.ledger },
            witness: { tier: 0 as const, module: module.witness },
          },
        },
      };
      const [a, b, gone] = await Promise.all(['a', 'b', 'gone'].map((name) => cluster.start(name, settings)));
      for (const guest of [b!, gone!]) await a!.admit(guest, { tiers: [0, 1, 2, 3] });
      for (const node of [a!, b!, gone!])
        await until(async () => (await node.agents()).length === 9, 'all agents are known');
      const mail = [new MailLoad(a!, b!), new MailLoad(b!, gone!, { echo: false })];
      for (const load of mail) load.begin();
      await a!.request('asker', 'witness', { do: 'begin', to: `witness@${b!.key}`, everyMs: 25 });
      const leases = await LeaseLoad.begin([a!, b!], repository(cluster));
      cluster.onEnd(() => leases.end());
      await Promise.all([leases.flows(), mail[0]!.flows()]);
      await gone!.stop();
      for (const node of [a!, b!]) await until(async () => !isThere(await node.stateOf(gone!)), 'the third is gone');
      const watch = new PresenceWatch([a!, b!], gone!);
      for (const tamperings of SOAK ? TAMPERINGS.map((one) => [one]) : [TAMPERINGS]) {
        for (const subjects of [LINKS, BUCKETS, ANSWERS]) {
          Object.assign(rogue, { subjects, tamperings, done: 0 });
          await until(() => rogue.done >= MESSAGES, `${tamperings} of ${subjects}`, TAMPERED_MS);
          rogue.tamperings = [];
          const began = performance.now();
          await untilConnected([a!, b!]);
          await Promise.all([mail[0]!.flows(), leases.flows(), channelFlows(a!)]);
          // The broker decides about leases, so false answers of it count.
          if (subjects === ANSWERS) leases.faults.length = 0;
          expect(leases.faults).toEqual([]);
          const ms = Math.round(performance.now() - began);
          if (SOAK) console.log(`${tamperings} of ${subjects}: traffic again in ${ms} ms`);
        }
      }
      expect(await watch.stop()).toEqual([]);
      Object.assign(rogue, { subjects: MAIL, tamperings: TAMPERINGS, done: 0 });
      await gone!.start();
      await until(() => rogue.done > 0, 'mail was tampered with');
      rogue.tamperings = [];
      await Promise.all([leases, ...mail].map((load) => load.end()));
      await Promise.all(mail.map((load) => load.exact()));
      await channelExact(a!, b!);
      expect(leases.faults).toEqual([]);
    }),
  );
});

function isThere(state: string | undefined): boolean {
  return state === 'connected' || state === 'idle';
}

/** Whether nodes show one that is gone, or nodes and agents that do not exist. */
class PresenceWatch {
  readonly #faults = new Set<string>();
  readonly #running: Promise<void>;
  #isOver = false;

  constructor(nodes: readonly ProcessNode[], gone: ProcessNode) {
    this.#running = this.#run(nodes, gone);
  }

  async stop(): Promise<string[]> {
    this.#isOver = true;
    await this.#running;
    return [...this.#faults];
  }

  async #run(nodes: readonly ProcessNode[], gone: ProcessNode): Promise<void> {
    const keys = new Set([...nodes, gone].map(({ key }) => key));
    while (!this.#isOver) {
      for (const node of nodes) {
        for (const { node: key, name, state } of await node.peers()) {
          const expected = key === gone.key ? gone.name : nodes.find((one) => one.key === key)?.name;
          if (!keys.has(key) || name !== expected) this.#faults.add(`${node.name} shows ${key} as ${name}`);
          if (key === gone.key && isThere(state)) this.#faults.add(`${node.name} shows the third as ${state}`);
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
