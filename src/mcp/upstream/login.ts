import type { AuthProvider, FetchLike } from '@modelcontextprotocol/client';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { addressKind, parseIpAddress } from '../../system/fetch/address.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { parseTarget } from '../../system/fetch/target.js';
import type { CredentialOwner } from '../../system/secrets/credential-source.js';
import type { Redactor } from '../../system/secrets/secret.js';
import { type ClientSdk, loadClientSdk } from './client-sdk.js';
import { Attempt, type CredentialStore, type Credentials, type OAuthSettings } from './login-attempt.js';

export interface LoginComponents {
  runtime: Runtime;
  store: CredentialStore;
  redactor: Redactor;
  /** The owner of the credential that the client's secret may refer to. */
  owner: CredentialOwner;
}

export interface LoginInit {
  readonly server: string;
  readonly url: URL;
  readonly settings: OAuthSettings;
  /** The URL that users return to. */
  readonly redirectUrl: () => string;
}

/** The demands of a server that refused a request. */
interface Challenge {
  readonly scope?: string | undefined;
  readonly resourceMetadataUrl?: URL | undefined;
}

/** A login whose user was sent to the authorization server. */
export interface Begun {
  readonly target: URL;
  readonly state: string;
  /** Takes the query that the user returned with. */
  finish(query: URLSearchParams): Promise<void>;
}

/**
 * The login to one server (OAuth 2.1). Requests carry its token, which is renewed when the server rejects it. Where
 * renewal fails, a user has to log in, and no requests are sent meanwhile.
 */
export class Login implements AuthProvider {
  readonly #components: LoginComponents;
  readonly #init: LoginInit;
  #challenge: Challenge = {};
  #renewing: Promise<void> | undefined;
  /** A request was refused for lack of scope since the last login. */
  #wanting: string | undefined;

  constructor(components: LoginComponents, init: LoginInit) {
    this.#components = components;
    this.#init = init;
    const { tokens, clients } = this.#credentials;
    const secrets = Object.values(clients).map(({ client }) => ('client_secret' in client ? client.client_secret : ''));
    const { clientSecret, privateKey } = init.settings;
    for (const secret of [tokens?.access_token, tokens?.refresh_token, ...secrets, clientSecret, privateKey]) {
      if (typeof secret === 'string' && secret !== '') components.redactor.add(secret);
    }
  }

  /** A user has logged in. */
  get isKnown(): boolean {
    return this.#credentials.tokens !== undefined;
  }

  get complaint(): string | undefined {
    return this.#wanting === undefined ? undefined : `${this.#wanting}; log in with: ${this.#command}`;
  }

  async token(): Promise<string | undefined> {
    return this.#credentials.tokens?.access_token;
  }

  /** The server rejected a request's token, or its lack of one. */
  async onUnauthorized({ response }: { response: Response }): Promise<void> {
    const sdk = await loadClientSdk();
    const { scope, resourceMetadataUrl } = sdk.extractWWWAuthenticateParams(response);
    this.#challenge = { scope, resourceMetadataUrl };
    if (!this.#isOwn && this.#credentials.tokens?.refresh_token === undefined)
      throw this.#required('its user has to log in');
    this.#renewing ??= this.#renew(sdk).finally(() => {
      this.#renewing = undefined;
    });
    await this.#renewing;
  }

  /** The node logs in as itself, so no user is needed. */
  get #isOwn(): boolean {
    return this.#init.settings.grant !== undefined;
  }

  /** The error for a failure that concerns the login; undefined for others. */
  explain(sdk: ClientSdk, error: unknown): EclipticError | undefined {
    if (error instanceof sdk.InsufficientScopeError) return this.#insufficient(sdk, error);
    if (error instanceof sdk.SdkHttpError && error.status === 401)
      return this.#required('it rejects the token of its login');
    return undefined;
  }

  /** Begins a login; the caller sends the user to `target`. */
  async begin(state: string): Promise<Begun> {
    if (this.#isOwn) {
      const { server } = this.#init;
      const message = `the node logs in to MCP server "${server}" with its own credentials, without a user`;
      throw new EclipticError('LOGIN_FAILED', message, { server });
    }
    const sdk = await loadClientSdk();
    const attempt = this.#attempt(state);
    const { tokens } = this.#credentials;
    const { scope: wanted, resourceMetadataUrl } = this.#challenge;
    const { scope: configured } = this.#init.settings;
    // A further login keeps the scope of the earlier one.
    const scope = sdk.computeScopeUnion(configured, ...(wanted === undefined ? [] : [tokens?.scope, wanted]));
    const options = {
      serverUrl: this.#init.url,
      fetchFn: this.#fetch,
      ...(scope !== undefined && { scope }),
      ...(resourceMetadataUrl && { resourceMetadataUrl }),
    };
    await this.#try(() => sdk.auth(attempt, { ...options, forceReauthorization: true }));
    return {
      target: attempt.target!,
      state,
      finish: (query) =>
        this.#try(async () => {
          const iss = query.get('iss') ?? undefined;
          const { authorizationServerMetadata: metadata } = attempt.discoveryState() ?? {};
          // Check the issuer before trusting anything else in the response.
          sdk.validateAuthorizationResponseIssuer({
            iss,
            expectedIssuer: metadata?.issuer,
            issParameterSupported: metadata?.authorization_response_iss_parameter_supported === true,
          });
          const code = query.get('code');
          if (code === null) throw this.#refused(query);
          this.#components.redactor.add(code);
          await sdk.auth(attempt, { ...options, authorizationCode: code, ...(iss !== undefined && { iss }) });
          this.#challenge = {};
          this.#wanting = undefined;
        }),
    };
  }

  forget(): void {
    this.#components.store.forget(this.#init.server);
    this.#challenge = {};
    this.#wanting = undefined;
  }

  /** Renews the tokens without a user; where that fails, only a login helps. */
  async #renew(sdk: ClientSdk): Promise<void> {
    const { resourceMetadataUrl } = this.#challenge;
    const scope = this.#isOwn ? sdk.computeScopeUnion(this.#init.settings.scope, this.#challenge.scope) : undefined;
    const attempt = this.#attempt();
    const result = await sdk
      .auth(attempt, {
        serverUrl: this.#init.url,
        fetchFn: this.#fetch,
        ...(scope !== undefined && { scope }),
        ...(resourceMetadataUrl && { resourceMetadataUrl }),
      })
      .catch((error: unknown) => {
        if (this.#isOwn) throw this.#notAdmitted(this.#clean(error));
        throw this.#required(`its token could not be renewed (${this.#clean(error)})`);
      });
    if (result !== 'AUTHORIZED') throw this.#required('its login has expired');
  }

  /** Never asks again for a scope that was requested already: the user would go in circles. */
  #insufficient(
    sdk: ClientSdk,
    { requiredScope, resourceMetadataUrl }: InstanceType<ClientSdk['InsufficientScopeError']>,
  ): EclipticError {
    const { scope, tokens } = this.#credentials;
    const { server } = this.#init;
    const had = sdk.computeScopeUnion(scope, tokens?.scope);
    if (requiredScope === undefined || !sdk.isStrictScopeSuperset(requiredScope, had)) {
      const message = `MCP server "${server}": it refuses this even with the scope that it asked for`;
      return new EclipticError('TOKEN_REQUIRED', message, { server, scope: requiredScope });
    }
    this.#challenge = { scope: requiredScope, resourceMetadataUrl };
    this.#wanting = `it wants a further scope (${requiredScope})`;
    return this.#required(this.#wanting);
  }

  #attempt(state?: string): Attempt {
    const { store, redactor, owner } = this.#components;
    const { server, url, settings, redirectUrl } = this.#init;
    return new Attempt({
      settings,
      // A renewal redirects to nowhere, and may run before the redirect URL exists.
      redirectUrl: state === undefined ? url.href : redirectUrl(),
      ...(state !== undefined && { state }),
      redactor,
      owner,
      read: () => this.#credentials,
      write: (credentials) => store.set(server, url, credentials),
    });
  }

  #refused(query: URLSearchParams): EclipticError {
    const { server } = this.#init;
    const said = query.get('error') ?? 'nothing';
    return new EclipticError('LOGIN_FAILED', `the authorization server says ${cutText(said, 128)}`, { server });
  }

  async #try<T>(work: () => Promise<T>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { server } = this.#init;
      const message = `the login to MCP server "${server}" failed: ${this.#clean(error)}`;
      throw new EclipticError('LOGIN_FAILED', message, { server });
    }
  }

  /** No user can help: the configuration, or the authorization server, must change. */
  #notAdmitted(reason: string): EclipticError {
    const { server } = this.#init;
    const message = `MCP server "${server}": the node could not log in with its client credentials: ${reason}`;
    return new EclipticError('LOGIN_FAILED', message, { server });
  }

  #required(reason: string): EclipticError {
    const { server } = this.#init;
    if (this.#isOwn) return this.#notAdmitted(reason);
    const message = `MCP server "${server}": ${reason}; log in with: ${this.#command}`;
    return new EclipticError('LOGIN_REQUIRED', message, { server });
  }

  get #command(): string {
    const { server } = this.#init;
    return `ecliptic tools login ${/^[\w@./-]+$/.test(server) ? server : JSON.stringify(server)}`;
  }

  get #credentials(): Credentials {
    return this.#components.store.get(this.#init.server, this.#init.url);
  }

  get #fetch(): ReturnType<typeof oauthFetch> {
    return oauthFetch(this.#components.runtime, this.#init.url, this.#components.redactor);
  }

  #clean(error: unknown): string {
    return this.#components.redactor.clean(describeError(error));
  }
}

const NO_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/**
 * Fetches the addresses of a server's login. The server names these addresses, so a server on the Internet cannot
 * direct requests into the private network; and they get none of the server's headers.
 */
export function oauthFetch(runtime: Runtime, server: URL, redactor: Redactor): FetchLike {
  const allowPrivate = isInside(server);
  return async (url, init = {}) => {
    const method = init.method ?? 'GET';
    const answer = await guardedFetch(runtime, url, {
      method,
      headers: Object.fromEntries(new Headers(init.headers)),
      ...(init.body != null && { body: String(init.body) }),
      ...(init.signal && { signal: init.signal }),
      // A code or a secret must not follow a redirect.
      ...(method !== 'GET' && { redirects: 0 }),
      allowPrivate,
    });
    const { status } = answer;
    const headers = new Headers([...answer.headers]);
    // The error text is shown to the user, and may repeat what was sent.
    const body = status < 400 ? answer.body : redactor.clean(answer.body.toString());
    return new Response(NO_BODY.has(status) ? null : new Uint8Array(Buffer.from(body)), { status, headers });
  };
}

function isInside(server: URL): boolean {
  const { host, isLocalName } = parseTarget(server);
  const address = parseIpAddress(host);
  return isLocalName || (address !== undefined && addressKind(address) !== undefined);
}
