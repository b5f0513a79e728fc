import type { Client, ClientReadableStream, Metadata, ServiceError } from '@grpc/grpc-js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { AllowList, isLoopback, parseTarget, resolveTarget, systemResolve } from '../../system/fetch/target.js';
import type { Method } from '../protocol/json-rpc.js';
import { takeStreamResponse } from '../protocol/read-responses.js';
import type { CallLimits } from './call-limits.js';
import { A2AServiceDefinition, fromProto, type GrpcPackages, loadGrpc, toProto } from './grpc-service.js';
import { type Reach, remoteError } from './remote-endpoint.js';
import type { StreamedEvent, Terms, Transport } from './transports.js';

/** A certificate of the caller, where the agent asks for one. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

export interface GrpcTransportInit extends Reach {
  /** `host:port`, as on cards; with `https://`, TLS is used in any case. */
  readonly url: string;
  readonly tenant: string | undefined;
  readonly headers: () => Promise<Readonly<Record<string, string>>>;
  readonly certificate?: ClientCertificate | undefined;
}

const MAX_ANSWER_BYTES = 16 * 1_048_576;
/** For the connection, and for requests that need no work of the agent. */
const CONNECT_MS = 10_000;
const QUICK_MS = 30_000;

/** The HTTP statuses that the errors of gRPC stand for. */
const STATUSES: Readonly<Record<number, number>> = {
  3: 400,
  5: 404,
  7: 403,
  8: 429,
  12: 501,
  16: 401,
};
const CANCELLED = 1;
const DEADLINE_EXCEEDED = 4;
const UNAVAILABLE = 14;

type Unary = (
  params: object,
  metadata: Metadata,
  options: { deadline: number },
  done: (error: ServiceError | null, result?: object) => void,
) => { cancel(): void };
type Streaming = (params: object, metadata: Metadata) => ClientReadableStream<object>;
interface Connected {
  readonly client: Client;
  readonly definition: A2AServiceDefinition;
  readonly states: GrpcPackages['grpc']['connectivityState'];
}

/** A2A over gRPC, with TLS except on this machine. */
export class GrpcTransport implements Transport {
  readonly #runtime: Runtime;
  readonly #init: GrpcTransportInit;
  #connected: Promise<Connected> | undefined;
  #closed = false;

  constructor(runtime: Runtime, init: GrpcTransportInit) {
    this.#runtime = runtime;
    this.#init = init;
  }

  offers(): boolean {
    return true;
  }

  async call(method: Method, params: object, terms: Terms): Promise<unknown> {
    const { client, definition } = await this.#connect(terms.limits);
    const metadata = definition.metadata(await this.#headers(terms));
    const deadline = terms.slow ? Number.POSITIVE_INFINITY : this.#runtime.now() + QUICK_MS;
    const ask = (client as unknown as Record<Method, Unary>)[method].bind(client);
    const result = await new Promise<object>((resolve, reject) => {
      const done = (error: ServiceError | null, answer?: object) => {
        terms.limits.signal.removeEventListener('abort', cancel);
        if (error) reject(terms.limits.reason ?? this.#errorOf(error, definition));
        else resolve(answer ?? {});
      };
      const call = ask(this.#addressed(params), metadata, { deadline }, done);
      const cancel = () => call.cancel();
      if (terms.limits.signal.aborted) cancel();
      else terms.limits.signal.addEventListener('abort', cancel);
    });
    return fromProto(result);
  }

  async *stream(method: Method, params: object, terms: Terms): AsyncGenerator<StreamedEvent> {
    const { client, definition } = await this.#connect(terms.limits);
    const metadata = definition.metadata(await this.#headers(terms));
    const ask = (client as unknown as Record<Method, Streaming>)[method].bind(client);
    const events = ask(this.#addressed(params), metadata);
    // An error that comes after the reader has left is of no interest.
    events.on('error', () => {});
    const cancel = () => events.cancel();
    terms.limits.signal.addEventListener('abort', cancel);
    if (terms.limits.signal.aborted) cancel();
    try {
      for await (const event of events) yield { event: takeStreamResponse(fromProto(event)), id: '' };
    } catch (error) {
      const isOfCall = typeof (error as ServiceError).code === 'number';
      throw terms.limits.reason ?? (isOfCall ? this.#errorOf(error as ServiceError, definition) : error);
    } finally {
      terms.limits.signal.removeEventListener('abort', cancel);
      events.cancel();
    }
  }

  close(): void {
    this.#closed = true;
    void this.#connected?.then(({ client }) => client.close()).catch(() => {});
  }

  #addressed(params: object): object {
    const { tenant } = this.#init;
    return toProto(tenant === undefined ? params : { ...params, tenant }) as object;
  }

  async #headers({ headers }: Terms): Promise<Record<string, string>> {
    const all = { ...(await this.#init.headers()), ...headers };
    return Object.fromEntries(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value]));
  }

  /** A connection that fails is certainly not the end of a request. */
  async #connect(limits: CallLimits): Promise<Connected> {
    if (this.#closed) throw new EclipticError('CANCELLED', 'the client is closed');
    this.#connected ??= this.#open();
    const connected = this.#connected;
    try {
      const opened = await limits.race(connected);
      await limits.race(this.#ready(opened));
      return opened;
    } catch (error) {
      // The next request tries another connection.
      if (!limits.reason && this.#connected === connected) {
        this.#connected = undefined;
        void connected.then(({ client }) => client.close()).catch(() => {});
      }
      throw error;
    }
  }

  /** Fails as soon as an attempt to connect has failed. */
  async #ready({ client, states }: Connected): Promise<void> {
    const channel = client.getChannel();
    const deadline = this.#runtime.now() + CONNECT_MS;
    for (;;) {
      const state = channel.getConnectivityState(true);
      if (state === states.READY) return;
      if (state === states.TRANSIENT_FAILURE || state === states.SHUTDOWN) break;
      const late = await new Promise<unknown>((resolve) => channel.watchConnectivityState(state, deadline, resolve));
      if (late) break;
    }
    throw this.#failed('FETCH_FAILED', 'no connection', false);
  }

  async #open(): Promise<Connected> {
    const packages = await loadGrpc();
    const { makeGenericClientConstructor, credentials } = packages.grpc;
    const { url, allowPrivate, ca, resolve = systemResolve, certificate } = this.#init;
    const hasScheme = /^[a-z]+:\/\//i.test(url);
    const target = parseTarget(
      hasScheme ? url.replace(/^grpcs?:/i, (s) => (s.length > 5 ? 'https:' : 'http:')) : `http://${url}`,
    );
    // The address is resolved and checked once; a name must not lead elsewhere later.
    const [address = ''] = await resolveTarget(target, new AllowList(allowPrivate), resolve);
    const secure = target.secure || certificate !== undefined || ca !== undefined || !isLoopback(target.host);
    const roots = ca === undefined ? null : Buffer.from([ca].flat().join('\n'));
    const key = certificate ? Buffer.from(certificate.key) : null;
    const chain = certificate ? Buffer.from(certificate.cert) : null;
    const channel = secure ? credentials.createSsl(roots, key, chain) : credentials.createInsecure();
    const definition = new A2AServiceDefinition(packages);
    const Constructor = makeGenericClientConstructor(definition.clientService, 'A2AService');
    const place = `${address.includes(':') ? `[${address}]` : address}:${target.port}`;
    const client = new Constructor(place, channel, {
      'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
      'grpc.enable_retries': 0,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_http_proxy': 0,
      'grpc.default_authority': target.url.host,
      ...(secure && { 'grpc.ssl_target_name_override': target.host }),
    });
    return { client, definition, states: packages.grpc.connectivityState };
  }

  #errorOf(error: ServiceError, definition: A2AServiceDefinition): EclipticError {
    const { code, details: message } = error;
    const details = definition.detailsOf(error.metadata);
    if (details.length === 0 && (code === UNAVAILABLE || code === CANCELLED)) {
      return this.#failed('FETCH_FAILED', 'the connection broke', true);
    }
    if (details.length === 0 && code === DEADLINE_EXCEEDED) return this.#failed('FETCH_TIMEOUT', 'no answer', true);
    const status = STATUSES[code] ?? (code === UNAVAILABLE ? 503 : undefined);
    return remoteError({ message, details }, { origin: this.#init.url, ...(status !== undefined && { status }) });
  }

  #failed(code: 'FETCH_FAILED' | 'FETCH_TIMEOUT', what: string, sent: boolean): EclipticError {
    const { url: origin } = this.#init;
    return new EclipticError(code, `${origin} cannot be reached over gRPC: ${what}`, { origin, sent });
  }
}

/** Are the optional packages there? */
export async function speaksGrpc(): Promise<boolean> {
  return loadGrpc().then(
    () => true,
    () => false,
  );
}
