import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { type Agent, createNode, openStore } from 'ecliptic';
import { compareClock, cpuRound, isWanted, type Report } from './compare.js';
import { NatsServer } from './nats-server.js';
import { sized } from './settings.js';

const SUITE = 'durable';
const PAYLOAD = { text: 'x'.repeat(245) };
/** Bytes of one message in the outbox. */
const MESSAGE_BYTES = 390;
/** Messages of a round. All of them stay in the outbox, which has a limit. */
const ROUND = sized(9_000, 1_000);
/** Messages without acknowledgement at a time. */
const WINDOW = sized(3_000, 500);

/**
 * Durable messages for an absent node until the broker has them, against bare acknowledged publishes of the same size. First
 * with a server that syncs what it acknowledges, as the sender's own store does; then with one that does not.
 */
export async function runNatsMail(report: Report): Promise<void> {
  for (const synced of [true, false]) {
    const name = `nats-mail/bare-jetstream${synced ? '' : ', not synced'}`;
    if (!isWanted(SUITE, name)) continue;
    const broker = await NatsServer.start({ synced });
    try {
      const relay = await Relay.start(broker.url);
      const bare = await barePublishes(broker.url);
      try {
        const micros = () => broker.cpuMicros();
        const ours = () => cpuRound((count) => relay.run(count), ROUND, micros);
        const theirs = () => cpuRound(bare.run, synced ? ROUND / 10 : ROUND, micros);
        report.comparison(await compareClock(SUITE, name, ours, theirs, { unit: 'msg/s', allCpu: true }));
      } finally {
        await bare.stop();
        await relay.stop();
      }
    } finally {
      await broker.stop();
    }
  }
}

/** A sender, and a recipient that has left. */
class Relay {
  readonly #agent: Agent;
  readonly #to: string;
  readonly #stop: () => Promise<void>;
  #sent = 0;
  #relayed = 0;
  #onRelayed = () => {};

  private constructor(agent: Agent, to: string, stop: () => Promise<void>) {
    this.#agent = agent;
    this.#to = to;
    this.#stop = stop;
  }

  static async start(url: string): Promise<Relay> {
    const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
    const network = { nats: { servers: [url] } };
    const node = await createNode({ store: await openStore(folder), network });
    const sun = node.agent({ id: 'sun', tier: 0 });
    const other = await createNode({ network });
    other.agent({ id: 'moon', tier: 0 });
    const { code } = await node.network!.invite();
    await other.network!.join(code);
    while (!node.registry.getById('moon')) await new Promise((resolve) => setTimeout(resolve, 5));
    await other.stop();
    const relay = new Relay(sun, `moon@${other.key}`, async () => {
      await node.stop();
      await rm(folder, { recursive: true, force: true });
    });
    node.observability.subscribe((event) => {
      if (event.type !== 'receipt' || event.receiptState !== 'relayed') return;
      relay.#relayed++;
      relay.#onRelayed();
    });
    await relay.run(1_000);
    return relay;
  }

  /** Ends when the broker has all of them, and the sender's disk knows. */
  run(count: number): Promise<void> {
    const goal = this.#sent + count;
    return new Promise((resolve) => {
      this.#onRelayed = () => {
        while (this.#sent < goal && this.#sent - this.#relayed < WINDOW) {
          this.#sent++;
          void this.#agent.send(this.#to, PAYLOAD, { durable: true });
        }
        if (this.#relayed >= goal) resolve();
      };
      this.#onRelayed();
    });
  }

  stop(): Promise<void> {
    return this.#stop();
  }
}

async function barePublishes(url: string) {
  const connection = await connect({ servers: [url] });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: 'bare', subjects: ['bare.*'] });
  const client = jetstream(connection);
  const bytes = new Uint8Array(MESSAGE_BYTES).fill(120);
  let number = 0;
  const run = (count: number) =>
    new Promise<void>((resolve, reject) => {
      let [left, open] = [count, 0];
      const next = () => {
        for (; left > 0 && open < WINDOW; left--, open++) {
          client.publish('bare.a', bytes, { msgID: String(++number) }).then(() => {
            open--;
            next();
          }, reject);
        }
        if (left === 0 && open === 0) resolve();
      };
      next();
    });
  return { run, stop: () => connection.close() };
}
