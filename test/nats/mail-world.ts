import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { vi } from 'vitest';
import type { Message } from '../../src/agent/message.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { openStore } from '../../src/node/tables.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import type { NatsServer } from '../nats-server.js';

/** A node with its data folder, which is started and stopped like a process. */
export class Station {
  readonly name: string;
  readonly servers: readonly string[];
  readonly events: A2ALogEvent[] = [];
  readonly got: unknown[] = [];
  readonly log: string[] = [];
  folder: string;
  node: EclipticNode | undefined;
  onMessage: (message: Message) => unknown = () => undefined;

  constructor(name: string, folder: string, servers: readonly string[]) {
    this.name = name;
    this.folder = folder;
    this.servers = servers;
  }

  get running(): EclipticNode {
    return this.node!;
  }

  async start(): Promise<EclipticNode> {
    const line = (fields: { err?: unknown }, message: string) =>
      void this.log.push(`${message} ${fields.err ?? ''}`.trim());
    const logger = { debug() {}, info() {}, warn: line, error: line };
    const runtime = systemRuntime({ logger });
    const store = await openStore(this.folder, { runtime });
    const network = { nats: { servers: this.servers }, folder: this.folder, name: this.name };
    const node = await createNode({ runtime, store, network });
    this.node = node;
    node.observability.subscribe((event) => void this.events.push(event));
    node.agent({ id: this.name, tier: 0 }).onMessage(async (message) => {
      await this.onMessage(message);
      this.got.push(message.payload);
    });
    return node;
  }

  async stop(): Promise<void> {
    await this.node?.stop();
    this.node = undefined;
  }

  /** Sends durably to the agent of another station; resolves with the id. */
  async send(to: Station, key: string, payload: unknown): Promise<string> {
    const { messageId } = await this.running.agentById(this.name).send(`${to.name}@${key}`, payload, { durable: true });
    return messageId!;
  }

  async states(id: string): Promise<string[]> {
    return (await this.running.mail!.receipt(id)).story.map(({ state }) => state);
  }

  async copy(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'ecliptic-copy-'));
    await cp(this.folder, folder, { recursive: true });
    return folder;
  }

  get security(): A2ALogEvent[] {
    return this.events.filter(({ type }) => type === 'security');
  }
}

/** Stations on one broker, and their folders. */
export class MailWorld {
  readonly stations: Station[] = [];
  readonly folders: string[] = [];
  readonly server: NatsServer;
  /** All of the cluster. */
  readonly servers: readonly NatsServer[];
  #owner: NatsConnection | undefined;

  constructor(server: NatsServer, ...others: readonly NatsServer[]) {
    this.servers = [server, ...others];
    this.server = server;
  }

  async station(name: string): Promise<Station> {
    const folder = await mkdtemp(join(tmpdir(), `ecliptic-${name}-`));
    this.folders.push(folder);
    const station = new Station(
      name,
      folder,
      this.servers.map(({ url }) => url),
    );
    this.stations.push(station);
    return station;
  }

  /** Two members of one mesh that know each other's agents; both are running. */
  async pair(): Promise<{ ann: Station; bob: Station; annKey: string; bobKey: string }> {
    return this.join(await this.station('ann'), await this.station('bob'));
  }

  async join(ann: Station, bob: Station): Promise<{ ann: Station; bob: Station; annKey: string; bobKey: string }> {
    const [a, b] = [await ann.start(), await bob.start()];
    const { code } = await a.network!.invite();
    await b.network!.join(code);
    await vi.waitFor(
      () => {
        if (!a.registry.getById(`bob@${b.key}`) || !b.registry.getById(`ann@${a.key}`)) throw new Error('not yet');
      },
      { timeout: 20_000 },
    );
    return { ann, bob, annKey: a.key, bobKey: b.key };
  }

  /** A connection of the broker's owner. */
  async owner(): Promise<NatsConnection> {
    this.#owner ??= await connect({ servers: this.servers.map(({ url }) => url) });
    return this.#owner;
  }

  async manager(): Promise<JetStreamManager> {
    return jetstreamManager(await this.owner());
  }

  async end(): Promise<void> {
    await this.#owner?.close();
    for (const station of this.stations) await station.stop();
    for (const folder of this.folders) await rm(folder, { recursive: true, force: true });
    for (const server of this.servers) await server.stop();
  }
}

export async function until(condition: () => boolean | Promise<boolean>, about: string, ms = 20_000): Promise<void> {
  const start = performance.now();
  while (!(await condition())) {
    if (performance.now() - start > ms) throw new Error(`not within ${ms} ms: ${about}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
