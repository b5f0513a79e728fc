import type { ServerResponse } from 'node:http';
import type { McpHttpHandler, Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import type { Entry } from '../../mcp/catalogue.js';
import { createProtocolServer, loadSdk, type Sdk } from '../../mcp/protocol-server.js';
import type { McpService } from '../../mcp/service.js';
import type { ToolTasks } from '../../mcp/tool-tasks.js';
import type { NameStyle } from '../../mcp/wire-names.js';
import type { Party } from '../../mesh/policy.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { drained, type Exchange, type Route, readBody } from '../server/http-server.js';
import { serveQuickly } from './quick-call.js';

/** The signal aborts when the caller disconnects. */
export function toWebRequest({ request, response }: Exchange, body: Buffer | undefined): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const one of Array.isArray(value) ? value : [value ?? '']) headers.append(name, one);
  }
  // A token is for this node only and is not passed on.
  headers.delete('authorization');
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const url = `http://${request.headers.host}${request.url}`;
  return new Request(url, {
    method: request.method ?? 'GET',
    headers,
    signal: gone.signal,
    ...(body && { body: new Uint8Array(body) }),
  });
}

/** With back-pressure. */
export async function answerWith(response: ServerResponse, answer: Response): Promise<void> {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!answer.body) {
    response.end();
    return;
  }
  const reader = answer.body.getReader();
  response.on('close', () => void reader.cancel().catch(() => {}));
  response.flushHeaders();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!response.write(value)) await drained(response);
    }
  } catch {
    // The stream was ended by the other side.
  }
  response.end();
}

export interface McpEndpointInit {
  service: McpService;
  tasks: ToolTasks;
  runtime: Runtime;
  style: NameStyle;
  name: string;
  version: string;
  resourceMetadata?: () => string | undefined;
}

/** Limits for sessions of 2025-era clients, per principal. */
const MAX_SESSIONS = 256;
const SESSION_IDLE_MS = 30 * 60_000;
const SWEEP_MS = 60_000;

/** The handlers of one principal, so that notifications do not reach others. */
interface Audience {
  readonly principal: Party;
  readonly modern: McpHttpHandler;
  readonly sessions: Map<string, Session>;
}

interface Session {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly server: Server;
  usedAt: number;
  /** Open streams on which the client can be asked at any time. */
  listening: number;
}

/**
 * `/mcp`: every agent's tools, resources and prompts, for clients of MCP 2026-07-28 and of 2025. An ordinary tool call
 * of 2026 takes a fast path; everything else goes through the SDK.
 */
export class McpEndpoint implements Route {
  readonly path = '/mcp';
  readonly scope = 'tools';
  readonly resourceMetadata: () => string | undefined;
  readonly #init: McpEndpointInit;
  readonly #audiences = new Map<string, Audience>();
  readonly #stop: (() => void)[];
  #sweep: Timer | undefined;

  constructor(init: McpEndpointInit) {
    this.#init = init;
    this.resourceMetadata = init.resourceMetadata ?? (() => undefined);
    const { service } = init;
    this.#stop = [
      service.catalogue.onChange((kind, entries) => this.#tellOfChange(kind, entries)),
      service.onResourceUpdate((owner, uri) => this.#tellOfUpdate(owner, uri)),
    ];
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, principal } = exchange;
    const body = request.method === 'POST' ? await readBody(request) : undefined;
    if (body && (await serveQuickly(this.#init, exchange, body))) return;
    const sdk = await loadSdk();
    const audience = this.#audience(sdk, principal);
    const web = toWebRequest(exchange, body);
    const legacy = await sdk.isLegacyRequest(web.clone());
    const response = legacy ? await this.#serveLegacy(sdk, audience, web) : await audience.modern.fetch(web);
    await answerWith(exchange.response, response);
  }

  async close(): Promise<void> {
    for (const stop of this.#stop) stop();
    this.#sweep?.cancel();
    for (const { modern, sessions } of this.#audiences.values()) {
      for (const { server } of sessions.values()) await server.close();
      await modern.close();
    }
    this.#audiences.clear();
  }

  #audience(sdk: Sdk, principal: Party): Audience {
    const id = `${principal.address} ${principal.sandboxId ?? ''}`;
    let audience = this.#audiences.get(id);
    if (!audience) {
      const modern = sdk.createMcpHandler(() => this.#server(sdk, principal), { legacy: 'reject' });
      audience = { principal, modern, sessions: new Map() };
      this.#audiences.set(id, audience);
    }
    return audience;
  }

  #server(sdk: Sdk, principal: Party, lasting?: { tell: 'legacy'; listening: () => boolean }): Server {
    return createProtocolServer(sdk, { ...this.#init, principal, ...lasting });
  }

  /** A session belongs to the principal who began it; to others it does not exist. */
  async #serveLegacy(sdk: Sdk, audience: Audience, web: Request): Promise<Response> {
    const { runtime } = this.#init;
    const known = audience.sessions.get(web.headers.get('mcp-session-id') ?? '');
    if (known) known.usedAt = runtime.now();
    if (known && web.method === 'GET') {
      known.listening++;
      web.signal.addEventListener('abort', () => known.listening--);
    }
    if (known || web.headers.has('mcp-session-id')) {
      return known ? known.transport.handleRequest(web) : new Response(null, { status: 404 });
    }
    if (audience.sessions.size >= MAX_SESSIONS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_SESSIONS} sessions of ${audience.principal.address} are open`);
    }
    const listening = () => (audience.sessions.get(transport.sessionId ?? '')?.listening ?? 0) > 0;
    const server = this.#server(sdk, audience.principal, { tell: 'legacy', listening });
    const transport = new sdk.WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => Buffer.from(runtime.bytes(24)).toString('base64url'),
      onsessioninitialized: (id) => {
        audience.sessions.set(id, { transport, server, usedAt: runtime.now(), listening: 0 });
        this.#sweep ??= this.#sweepLater();
      },
      onsessionclosed: (id) => void audience.sessions.delete(id),
    });
    await server.connect(transport);
    const response = await transport.handleRequest(web);
    // A request that began no session leaves nothing behind.
    if (transport.sessionId === undefined) await server.close();
    return response;
  }

  #sweepLater(): Timer {
    const { runtime } = this.#init;
    return runtime.setTimer(() => {
      const oldest = runtime.now() - SESSION_IDLE_MS;
      let open = 0;
      for (const { sessions } of this.#audiences.values()) {
        for (const [id, { server, usedAt }] of sessions) {
          if (usedAt >= oldest) continue;
          sessions.delete(id);
          void server.close();
        }
        open += sessions.size;
      }
      this.#sweep = open > 0 ? this.#sweepLater() : undefined;
    }, SWEEP_MS);
  }

  #tellOfChange(kind: Entry['definition']['kind'], entries: readonly Entry[]): void {
    for (const audience of this.#audiences.values()) {
      if (!this.#init.service.mayUse(audience.principal, entries[0]!.owner)) continue;
      const { notify } = audience.modern;
      if (kind === 'tool') notify.toolsChanged();
      else if (kind === 'prompt') notify.promptsChanged();
      else notify.resourcesChanged();
    }
  }

  #tellOfUpdate(owner: string, uri: string): void {
    for (const { principal, modern } of this.#audiences.values()) {
      if (this.#init.service.mayUse(principal, owner)) modern.notify.resourceUpdated(uri);
    }
  }
}
