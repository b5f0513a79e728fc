import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, jwtVerify } from 'jose';

interface Grant {
  readonly scope: string;
  readonly challenge?: string;
}

/** An MCP server of the 2025 era that wants a login, and the authorization server for it. */
export class GuardedServer {
  readonly accessTokens = new Map<string, Grant>();
  readonly refreshTokens = new Map<string, Grant>();
  /** Everything secret that was ever given out. */
  readonly secrets: string[] = [];
  /** The requests, as method and path. */
  /** The clients that asked for tokens: `id:secret`. */
  readonly clients: string[] = [];
  readonly requests: string[] = [];
  /** The public key of the client that logs in as itself. */
  clientKey: CryptoKey | undefined;
  /** The scope that a call of the tool needs. */
  toolScope = 'read';
  readonly #codes = new Map<string, Grant>();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(): Promise<GuardedServer> {
    const made = new GuardedServer();
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { pathname, searchParams } = new URL(request.url!, this.origin);
    this.requests.push(`${request.method} ${pathname}`);
    let body = '';
    for await (const chunk of request) body += chunk;
    const json = (status: number, value: object, headers = {}) =>
      response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(value));
    switch (pathname) {
      case '/mcp':
        return this.#serveMcp(request, body, json);
      case '/.well-known/oauth-protected-resource/mcp':
        return json(200, { resource: this.url, authorization_servers: [this.origin], scopes_supported: ['read'] });
      case '/.well-known/oauth-authorization-server':
        return json(200, {
          issuer: this.origin,
          authorization_endpoint: `${this.origin}/authorize`,
          token_endpoint: `${this.origin}/token`,
          registration_endpoint: `${this.origin}/register`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
          authorization_response_iss_parameter_supported: true,
        });
      case '/register': {
        const secret = this.#secret('client');
        return json(201, { ...JSON.parse(body), client_id: 'one', client_secret: secret });
      }
      case '/authorize': {
        const code = this.#secret('code');
        this.#codes.set(code, {
          scope: searchParams.get('scope') ?? '',
          challenge: searchParams.get('code_challenge') ?? '',
        });
        const back = new URL(searchParams.get('redirect_uri')!);
        back.search = String(new URLSearchParams({ code, state: searchParams.get('state')!, iss: this.origin }));
        return response.writeHead(302, { Location: back.href }).end();
      }
      case '/token':
        if (body.includes('grant_type=client_credentials')) return this.#grantOwn(new URLSearchParams(body), json);
        this.clients.push(clientIn(request, new URLSearchParams(body)));
        return this.#grant(new URLSearchParams(body), json);
      default:
        return json(404, {});
    }
  }

  /** For a client that proves itself with a signed assertion. */
  async #grantOwn(asked: URLSearchParams, json: (status: number, value: object) => unknown): Promise<unknown> {
    try {
      const assertion = asked.get('client_assertion') ?? '';
      const { payload } = await jwtVerify(assertion, this.clientKey!, { audience: this.origin });
      if (payload.iss !== payload.sub) throw new Error('an assertion of somebody else');
      this.clients.push(`${payload.sub} for ${asked.get('scope')}`);
    } catch {
      return json(401, { error: 'invalid_client', error_description: 'the assertion is not good' });
    }
    const access_token = this.#secret('access');
    this.accessTokens.set(access_token, { scope: asked.get('scope') ?? '' });
    return json(200, { access_token, token_type: 'Bearer', expires_in: 3_600 });
  }

  #grant(asked: URLSearchParams, json: (status: number, value: object) => unknown): unknown {
    const code = asked.get('code');
    const grants = code === null ? this.refreshTokens : this.#codes;
    const key = code ?? asked.get('refresh_token') ?? '';
    const grant = grants.get(key);
    grants.delete(key);
    const proof = createHash('sha256')
      .update(asked.get('code_verifier') ?? '')
      .digest('base64url');
    if (!grant || asked.get('resource') !== this.url || (code !== null && proof !== grant.challenge)) {
      return json(400, { error: 'invalid_grant', error_description: `${key} is not good` });
    }
    const access_token = this.#secret('access');
    const refresh_token = this.#secret('refresh');
    this.accessTokens.set(access_token, grant);
    this.refreshTokens.set(refresh_token, { scope: grant.scope });
    return json(200, { access_token, refresh_token, token_type: 'Bearer', expires_in: 3_600, scope: grant.scope });
  }

  #serveMcp(
    request: IncomingMessage,
    body: string,
    json: (status: number, value: object, headers?: object) => unknown,
  ): unknown {
    const metadata = `resource_metadata="${this.origin}/.well-known/oauth-protected-resource/mcp"`;
    const grant = this.accessTokens.get(request.headers.authorization?.slice('Bearer '.length) ?? '');
    if (!grant) return json(401, {}, { 'WWW-Authenticate': `Bearer ${metadata}, scope="read"` });
    if (request.method !== 'POST') return json(405, {});
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) return json(202, {});
    const answer = (result: object) => json(200, { jsonrpc: '2.0', id, result });
    switch (method) {
      case 'initialize':
        return answer({
          protocolVersion: params.protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: 'guarded', version: '1' },
        });
      case 'tools/list':
        return answer({ tools: [{ name: 'look', description: 'looks', inputSchema: { type: 'object' } }] });
      case 'tools/call':
        if (grant.scope.split(' ').includes(this.toolScope))
          return answer({ content: [{ type: 'text', text: 'seen' }] });
        return json(
          403,
          {},
          {
            'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${this.toolScope}", ${metadata}`,
          },
        );
      default:
        return json(200, { jsonrpc: '2.0', id, error: { code: -32_601, message: 'unknown' } });
    }
  }

  #secret(kind: string): string {
    const secret = `${kind}-${randomBytes(12).toString('hex')}`;
    this.secrets.push(secret);
    return secret;
  }
}

function clientIn({ headers }: IncomingMessage, asked: URLSearchParams): string {
  const basic = headers.authorization?.replace(/^Basic /, '');
  if (basic !== undefined) return Buffer.from(basic, 'base64').toString();
  return `${asked.get('client_id')}:${asked.get('client_secret')}`;
}
