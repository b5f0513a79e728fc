import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import {
  type AddressInfo,
  createServer as createSocketServer,
  type Socket,
  type Server as SocketServer,
} from 'node:net';

export interface ForeignServer {
  readonly port: number;
  /** `127.0.0.1:PORT`, for a list of allowed places. */
  readonly place: string;
  readonly origin: string;
  readonly requests: IncomingMessage[];
  /** Every connection that was ever made. */
  readonly sockets: Socket[];
}

interface Where {
  readonly host?: string;
  readonly port?: number;
  readonly tls?: { readonly cert: string; readonly key: string };
}

/** Real servers on this machine, as strangers would run them. */
export class ForeignServers {
  readonly #servers: SocketServer[] = [];
  readonly #sockets = new Set<Socket>();

  http(answer: RequestListener, where: Where = {}): Promise<ForeignServer> {
    const requests: IncomingMessage[] = [];
    const listener: RequestListener = (request, response) => {
      requests.push(request);
      answer(request, response);
    };
    const server: Server = where.tls ? createSecureServer(where.tls, listener) : createServer(listener);
    return this.#listen(server, requests, where);
  }

  /** A server that sends arbitrary bytes, HTTP or not. */
  raw(speak: (socket: Socket) => void): Promise<ForeignServer> {
    return this.#listen(createSocketServer(speak), [], {});
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers.splice(0)) await new Promise((resolve) => server.close(resolve));
  }

  async #listen(server: SocketServer, requests: IncomingMessage[], where: Where): Promise<ForeignServer> {
    const sockets: Socket[] = [];
    this.#servers.push(server);
    server.on('connection', (socket: Socket) => {
      sockets.push(socket);
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    const host = where.host ?? '127.0.0.1';
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(where.port ?? 0, host, resolve);
    });
    const { port } = server.address() as AddressInfo;
    const place = `${host}:${port}`;
    return { port, place, origin: `${where.tls ? 'https' : 'http'}://${place}`, requests, sockets };
  }
}
