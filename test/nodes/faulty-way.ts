import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { stablePort } from '../ports.js';
import type { Cluster, NodeSettings } from './cluster.js';

/** `stall` holds every byte back, the others those of one direction only; `cut` ends connections and takes none. */
export const FAULTS = ['stall', 'cut', 'stall-forth', 'stall-back'] as const;
export type Fault = (typeof FAULTS)[number];

/** Options of two nodes between which a proxy is the only connection. */
export async function onlyThroughProxy(
  cluster: Cluster,
): Promise<{ proxy: FaultyWay; called: NodeSettings; caller: NodeSettings }> {
  const port = await stablePort();
  const proxy = await FaultyWay.start(port);
  cluster.onEnd(() => proxy.stop());
  // Nodes tell each other where they listen; this stands for a network in which that address leads nowhere.
  const barrier = join(cluster.folder, 'barrier.mjs');
  writeFileSync(
    barrier,
    `import { Socket } from 'node:net';
    const { connect } = Socket.prototype;
    Socket.prototype.connect = function (...args) {
      const options = [args[0]].flat()[0];
      if (Number(options?.port) === ${port}) options.port = 1;
      return connect.apply(this, args);
    };`,
  );
  const env = { NODE_OPTIONS: `--import=${pathToFileURL(barrier).href}` };
  return {
    proxy,
    called: { args: ['--no-dht', '--listen', `127.0.0.1:${port}`] },
    caller: { args: ['--no-dht', '--peer', `ws://127.0.0.1:${proxy.port}`], env },
  };
}

/** A way to a port of this machine that can be made to fail. */
export class FaultyWay {
  readonly port: number;
  readonly #server: Server;
  readonly #pairs = new Set<{ forth: Socket; back: Socket }>();
  /** Every byte that went through, of each direction of each connection, when they are kept. */
  readonly seen: Buffer[][] = [];
  keepsBytes = false;
  #fault: Fault | undefined;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (forth) => this.#accept(forth, target));
  }

  static async start(target: number): Promise<FaultyWay> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FaultyWay(server, target);
  }

  /** The fault of the connection from now on. */
  set fault(fault: Fault | undefined) {
    this.#fault = fault;
    for (const pair of this.#pairs) this.#apply(pair);
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.fault = 'cut';
    await closed;
  }

  #accept(forth: Socket, target: number): void {
    const back = connect({ port: target, host: '127.0.0.1', noDelay: true });
    const pair = { forth, back };
    this.#pairs.add(pair);
    for (const [from, to] of [
      [forth, back],
      [back, forth],
    ] as const) {
      const seen: Buffer[] = [];
      this.seen.push(seen);
      from.on('data', (data) => {
        if (this.keepsBytes) seen.push(data);
        to.write(data);
      });
      from.on('error', () => {});
      from.on('close', () => {
        to.destroy();
        this.#pairs.delete(pair);
      });
    }
    this.#apply(pair);
  }

  #apply({ forth, back }: { forth: Socket; back: Socket }): void {
    if (this.#fault === 'cut') {
      forth.destroy();
      back.destroy();
      return;
    }
    if (this.#fault === 'stall' || this.#fault === 'stall-forth') forth.pause();
    else forth.resume();
    if (this.#fault === 'stall' || this.#fault === 'stall-back') back.pause();
    else back.resume();
  }
}
