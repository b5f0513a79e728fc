import { createSocket } from 'node:dgram';
import DHT from 'hyperdht';
import { describeError, EclipticError } from '../../runtime/errors.js';

/** With fewer nodes than this, peers on a private DHT meet only sometimes. */
export const LEAST_NODES = 4;

/** A private DHT: enough persistent nodes in this process for others to find each other through it. */
export class PrivateDht {
  readonly #nodes: DHT[];
  /** The value for `--bootstrap`. */
  readonly bootstrap: readonly string[];

  private constructor(nodes: DHT[], host: string) {
    this.#nodes = nodes;
    this.bootstrap = nodes.map((node) => `${host}:${node.address().port}`);
  }

  static async start(count: number, host: string, port: number): Promise<PrivateDht> {
    await check(host, port);
    const nodes: DHT[] = [];
    try {
      while (nodes.length < count) {
        const bootstrap = nodes.length === 0 ? [] : [{ host, port: nodes[0]!.address().port }];
        const node = new DHT({
          bootstrap,
          host,
          port: nodes.length === 0 ? port : 0,
          ephemeral: false,
          firewalled: false,
        });
        nodes.push(node);
        await node.fullyBootstrapped();
      }
      if (port !== 0 && nodes[0]!.address().port !== port) {
        throw new EclipticError('ADDRESS_UNUSABLE', `port ${port} of ${host} is taken`, { host, port });
      }
      return new PrivateDht(nodes, host);
    } catch (error) {
      await Promise.all(nodes.map((node) => node.destroy({ force: true })));
      if (error instanceof EclipticError) throw error;
      throw new EclipticError('ADDRESS_UNUSABLE', `cannot run a DHT on ${host}: ${describeError(error)}`, {
        host,
        port,
      });
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.destroy({ force: true })));
  }
}

/** Checks that the port is free: a DHT node that cannot bind would keep the process alive for ever. */
function check(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4');
    socket.once('error', (error) => {
      socket.close();
      reject(
        new EclipticError('ADDRESS_UNUSABLE', `cannot run a DHT on ${host}:${port}: ${error.message}`, { host, port }),
      );
    });
    socket.bind(port, host, () => socket.close(() => resolve()));
  });
}
