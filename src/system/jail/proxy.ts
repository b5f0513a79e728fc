import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { causeOf, failed } from '../fetch/fetch-errors.js';
import { parseTarget } from '../fetch/target.js';
import type { InsidePort } from './forwarder.js';
import { authority, NetworkRules } from './network-rules.js';

/** One path of an HTTP server of this node. */
export interface LocalEndpoint {
  readonly port: number;
  readonly path: string;
}

interface ProxyInit {
  /** For logs. */
  readonly name: string;
  readonly allow: readonly string[];
  readonly mesh?: LocalEndpoint | undefined;
  /** Listen on a port of this machine, where jails share its network. */
  readonly overTcp?: boolean;
}

const CONNECT_MS = 10_000;
const MAX_CONNECTIONS = 256;
/** Refused places that are logged, each once. */
const MAX_LOGGED = 100;
/** Headers about one connection only. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te', 'upgrade'];

/** The only way out of one jail: an HTTP proxy with a list of what it connects to. */
export class JailProxy {
  readonly #runtime: Runtime;
  readonly #init: ProxyInit;
  readonly #rules: NetworkRules;
  readonly #server: Server;
  readonly #open = new Set<Duplex>();
  readonly #logged = new Set<string>();
  #folder: string | undefined;

  private constructor(runtime: Runtime, init: ProxyInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#rules = new NetworkRules(init.allow);
    this.#server = createServer((message, answer) => void this.#forward(message, answer));
    this.#server.requestTimeout = 0;
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on('connection', (socket) => this.#keep(socket));
    this.#server.on('connect', (message: IncomingMessage, socket: Socket, head: Buffer) => {
      void this.#tunnel(message, socket, head);
    });
    this.#server.on('clientError', (_error, socket) => socket.destroy());
  }

  static async open(runtime: Runtime, init: ProxyInit): Promise<JailProxy> {
    const proxy = new JailProxy(runtime, init);
    await proxy.#listen();
    return proxy;
  }

  /** Its socket. Only this user can enter the folder. */
  get path(): string {
    return join(this.#folder!, 'proxy.sock');
  }

  /** Its port, where it listens on one. */
  get port(): number | undefined {
    const address = this.#server.address();
    return address !== null && typeof address === 'object' ? (address as AddressInfo).port : undefined;
  }

  /** Ports of this machine that the program finds on the loopback of its jail. */
  get insidePorts(): InsidePort[] {
    const listed = this.#rules.loopback.map(({ host, port }): InsidePort => {
      return { port, target: authority(host, port) };
    });
    const { mesh } = this.#init;
    return mesh && !listed.some(({ port }) => port === mesh.port) ? [...listed, { port: mesh.port }] : listed;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }

  #listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      if (this.#init.overTcp) return void this.#server.listen(0, '127.0.0.1', resolve);
      // Readable for this user only; the path of a socket must be short.
      this.#folder = mkdtempSync(join(tmpdir(), 'ecliptic-jail-'));
      this.#server.listen(this.path, resolve);
    });
  }

  async #tunnel({ url = '' }: IncomingMessage, inside: Socket, head: Buffer): Promise<void> {
    inside.on('error', () => inside.destroy());
    try {
      const { host, port } = parseTarget(`http://${url}`);
      const outside = await this.#connect(host, explicitPort(url, port));
      inside.write('HTTP/1.1 200 Connection established\r\n\r\n');
      outside.write(head);
      outside.pipe(inside);
      inside.pipe(outside);
      inside.on('close', () => outside.destroy());
      outside.on('close', () => inside.destroy());
    } catch (error) {
      const [status, text] = this.#refusal(error);
      inside.end(`HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${text}\n`);
    }
  }

  async #forward(message: IncomingMessage, answer: ServerResponse): Promise<void> {
    try {
      const { host, port, path } = this.#placeOf(message);
      const isMesh = host === undefined;
      const address = isMesh ? '127.0.0.1' : (await this.#rules.resolve(host, port))[0]!;
      const headers = { ...message.headers };
      for (const name of HOP_BY_HOP) delete headers[name];
      const { method } = message;
      const outgoing = request({ host: address, port, path, method, headers, setHost: false, agent: false });
      outgoing.on('response', (response) => {
        answer.writeHead(response.statusCode ?? 502, response.headers);
        response.pipe(answer);
        response.on('error', () => answer.destroy());
      });
      outgoing.on('error', (error) => {
        if (answer.headersSent) answer.destroy();
        else this.#refuse(answer, error);
      });
      answer.on('close', () => outgoing.destroy());
      message.pipe(outgoing);
    } catch (error) {
      this.#refuse(answer, error);
    }
  }

  /** Without a host, the node's own endpoint is meant. */
  #placeOf({ url = '', headers }: IncomingMessage): { host?: string; port: number; path: string } {
    const { mesh } = this.#init;
    const { url: target, host, port } = parseTarget(url.startsWith('/') ? `http://${headers.host}${url}` : url);
    const path = `${target.pathname}${target.search}`;
    if (mesh && port === mesh.port && target.pathname === mesh.path && (host === '127.0.0.1' || host === 'localhost')) {
      return { port, path };
    }
    return { host, port, path };
  }

  async #connect(host: string, port: number): Promise<Socket> {
    const addresses = await this.#rules.resolve(host, port);
    let cause = 'ENOTFOUND';
    for (const address of addresses) {
      const reached = await this.#reach(address, port);
      if (typeof reached !== 'string') return reached;
      cause = reached;
    }
    throw failed({ origin: authority(host, port), cause, sent: false });
  }

  /** A connection, or why there is none. */
  #reach(address: string, port: number): Promise<Socket | string> {
    const socket = connect({ host: address, port, noDelay: true });
    this.#keep(socket);
    return new Promise((resolve) => {
      const settle = (outcome: Socket | string) => {
        timer.cancel();
        resolve(outcome);
      };
      const timer = this.#runtime.setTimer(() => {
        socket.destroy();
        settle('ETIMEDOUT');
      }, CONNECT_MS);
      socket.once('connect', () => settle(socket));
      socket.on('error', (error) => settle(causeOf(error)));
    });
  }

  #keep(socket: Duplex): void {
    this.#open.add(socket);
    socket.on('close', () => this.#open.delete(socket));
  }

  #refuse(answer: ServerResponse, error: unknown): void {
    const [status, text] = this.#refusal(error);
    answer.writeHead(Number.parseInt(status, 10), { 'content-type': 'text/plain', connection: 'close' });
    answer.end(`${text}\n`);
  }

  #refusal(error: unknown): [status: string, text: string] {
    const text = describeError(error);
    const isRule = error instanceof EclipticError && error.code === 'FETCH_REFUSED';
    if (!isRule) return ['502 Bad Gateway', text];
    if (!this.#logged.has(text) && this.#logged.size < MAX_LOGGED) {
      this.#logged.add(text);
      this.#runtime.logger.warn({ provider: this.#init.name, reason: text }, 'jail refused a connection');
    }
    return ['403 Forbidden', text];
  }
}

/** The URL parser drops a port that is the scheme's own. */
function explicitPort(authority: string, parsed: number): number {
  return Number(/:(\d{1,5})$/.exec(authority)?.[1] ?? parsed);
}
