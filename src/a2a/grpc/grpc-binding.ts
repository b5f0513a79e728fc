import { once } from 'node:events';
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from 'node:net';
import type {
  Server,
  ServerCredentials,
  ServerUnaryCall,
  ServerWritableStream,
  sendUnaryData,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { CallerAuth } from '../../http/auth/caller-auth.js';
import { MAX_BODY_BYTES } from '../../http/server/http-server.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { descriptorLimit, RefusedConnections } from '../../system/process/descriptors.js';
import { A2AServiceDefinition, fromProto, type GrpcPackages, loadGrpc } from '../client/grpc-service.js';
import { EXTENSIONS_HEADER, writeExtensions } from '../protocol/headers.js';
import { isStreaming, METHODS, type Method } from '../protocol/json-rpc.js';
import { type BindingComponents, metadataIn } from '../server/json-rpc-binding.js';
import { type Outcome, type RequestTerms, tenantIn } from '../server/operations.js';
import { readEnvelope, requireNewest, VERSION } from '../server/request-context.js';

export interface GrpcInit {
  /** 0 for any free port. */
  port: number;
  /** Required unless the host is loopback. */
  tls?:
    | {
        cert: string;
        key: string /** Callers must have a certificate of one of these authorities. */;
        clientCa?: string;
      }
    | undefined;
}

export interface GrpcBindingComponents extends BindingComponents {
  callerAuth: CallerAuth;
}

type UnaryCall = ServerUnaryCall<object, object>;
type StreamCall = ServerWritableStream<object, object>;
type Call = UnaryCall | StreamCall;

/** Open calls per connection. */
const MAX_STREAMS = 1_000;
const MAX_CONNECTIONS = 1_024;
/** The share of the process's descriptors. */
const DESCRIPTOR_PART = 1 / 8;

function secured({ grpc }: GrpcPackages, { cert, key, clientCa }: NonNullable<GrpcInit['tls']>): ServerCredentials {
  const pair = { cert_chain: Buffer.from(cert), private_key: Buffer.from(key) };
  const authorities = clientCa === undefined ? null : Buffer.from(clientCa);
  return grpc.ServerCredentials.createSsl(authorities, [pair], clientCa !== undefined);
}

/** A2A over gRPC: the same operations, with the token in the metadata. */
export class GrpcBinding {
  #address = '';
  readonly #components: GrpcBindingComponents;
  readonly #definition: A2AServiceDefinition;
  readonly #server: Server;
  readonly #listener: NetServer;
  readonly #sockets = new Set<Socket>();

  private constructor(
    components: GrpcBindingComponents,
    definition: A2AServiceDefinition,
    server: Server,
    listener: NetServer,
  ) {
    this.#components = components;
    this.#definition = definition;
    this.#server = server;
    this.#listener = listener;
    this.#limitConnections();
  }

  static async serve(components: GrpcBindingComponents, host: string, { port, tls }: GrpcInit): Promise<GrpcBinding> {
    const packages = await loadGrpc();
    const { Server, ServerCredentials } = packages.grpc;
    const server = new Server({
      'grpc.max_receive_message_length': MAX_BODY_BYTES,
      'grpc.max_concurrent_streams': MAX_STREAMS,
    });
    const credentials = tls ? secured(packages, tls) : ServerCredentials.createInsecure();
    const name = host.includes(':') ? `[${host}]` : host;
    // The library accepts any number of connections, so they are accepted here and passed on.
    const injector = server.createConnectionInjector(credentials);
    const listener = createServer((socket) => injector.injectConnection(socket));
    const definition = new A2AServiceDefinition(packages);
    const binding = new GrpcBinding(components, definition, server, listener);
    server.addService(definition.service, binding.#handlers());
    await new Promise<void>((resolve, reject) => {
      listener.once('error', (error) => {
        const message = `cannot serve gRPC at ${name}:${port}: ${describeError(error)}`;
        reject(new EclipticError('ADDRESS_UNUSABLE', message, { host, port }, error));
      });
      listener.listen(port, host, resolve);
    });
    binding.#address = `${name}:${(listener.address() as AddressInfo).port}`;
    return binding;
  }

  /** `host:port`, as on cards. */
  get address(): string {
    return this.#address;
  }

  close(): void {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#server.forceShutdown();
  }

  #limitConnections(): void {
    const refused = new RefusedConnections(this.#components.runtime, 'grpc');
    const most = Math.min(MAX_CONNECTIONS, Math.floor(descriptorLimit() * DESCRIPTOR_PART));
    this.#listener.maxConnections = most;
    this.#listener.on('drop', () => refused.note(`${most} connections are open`));
    this.#listener.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  #handlers(): UntypedServiceImplementation {
    const handlers = METHODS.map((method) => [
      method,
      isStreaming(method)
        ? (call: StreamCall) => void this.#stream(method, call)
        : (call: UnaryCall, answer: sendUnaryData<object>) => void this.#answer(method, call, answer),
    ]);
    return Object.fromEntries(handlers);
  }

  async #answer(method: Method, call: UnaryCall, answer: sendUnaryData<object>): Promise<void> {
    try {
      const trailer: Record<string, string> = {};
      const announce = (name: string, value: string) => {
        trailer[name.toLowerCase()] = value;
      };
      const outcome = await this.#perform(method, call, announce);
      answer(null, 'result' in outcome ? (outcome.result as object) : {}, this.#definition.metadata(trailer));
    } catch (error) {
      answer(this.#definition.errorOf(error));
    }
  }

  /** With back-pressure, until the stream ends or the reader leaves. */
  async #stream(method: Method, call: StreamCall): Promise<void> {
    try {
      const outcome = await this.#perform(method, call);
      if (!('stream' in outcome)) return;
      const { events } = outcome.stream;
      const gone = new AbortController();
      const leave = () => {
        gone.abort();
        void events.return?.();
      };
      call.on('cancelled', leave);
      call.on('close', leave);
      if (call.cancelled) leave();
      for (;;) {
        const next = await events.next();
        if (next.done || gone.signal.aborted) break;
        if (!call.write(next.value.event)) await once(call, 'drain', { signal: gone.signal }).catch(() => {});
      }
      call.end();
    } catch (error) {
      call.emit('error', this.#definition.errorOf(error));
    }
  }

  async #perform(method: Method, call: Call, announce?: RequestTerms['announce']): Promise<Outcome> {
    const { operations, extensionsOf, callerAuth } = this.#components;
    const header = (name: string) => call.metadata.get(name)[0]?.toString();
    const { principal, token } = await callerAuth.admit(header('authorization'), 'tasks');
    if (token !== undefined) this.#endWith(token, call);
    requireNewest(header(VERSION), 'gRPC');
    const onGone = (callback: () => void) => {
      call.on('cancelled', callback);
      return () => call.off('cancelled', callback);
    };
    const said = { header, principal, onGone };
    const params = fromProto(call.request);
    const { terms, active } = readEnvelope(said, extensionsOf(tenantIn(params)), metadataIn(params));
    const named = active.length > 0 ? { [EXTENSIONS_HEADER.toLowerCase()]: writeExtensions(active) } : {};
    call.sendMetadata(this.#definition.metadata({ [VERSION]: '1.0', ...named }));
    return operations.perform(method, params, { ...terms, announce });
  }

  /** A call ends when its token is revoked. */
  #endWith(token: string, call: Call): void {
    const revoked = new EclipticError('TOKEN_REQUIRED', 'the token was revoked');
    const stop = this.#components.callerAuth.note(token, () => {
      if ('write' in call) call.emit('error', this.#definition.errorOf(revoked));
      call.emit('cancelled', revoked.message);
    });
    call.on('close', stop);
    call.on('finish', stop);
  }
}
