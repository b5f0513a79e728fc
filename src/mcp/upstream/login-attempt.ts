import { join } from 'node:path';
import type {
  AddClientAuthentication,
  OAuthClientInformationContext,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import { JsonFile } from '../../system/files/private-file.js';
import { type CredentialOwner, resolveSetting, type SecretSetting } from '../../system/secrets/credential-source.js';
import type { Redactor } from '../../system/secrets/secret.js';
import { loadClientSdk } from './client-sdk.js';

/** Login settings from the configuration. */
export interface OAuthSettings {
  /** An existing registration. */
  readonly clientId?: string | undefined;
  readonly clientSecret?: SecretSetting | undefined;
  /** The URL of a Client ID Metadata Document. */
  readonly clientMetadataUrl?: string | undefined;
  readonly scope?: string | undefined;
  /** The node logs in as itself, without a user. */
  readonly grant?: 'client_credentials' | undefined;
  /** The client proves itself with this key (PKCS #8, PEM) in place of a secret. */
  readonly privateKey?: SecretSetting | undefined;
  readonly algorithm?: string | undefined;
  /** The only authorization server that may be used. */
  readonly issuer?: string | undefined;
}

export interface AttemptInit {
  readonly settings: OAuthSettings;
  readonly redirectUrl: string;
  /** Recognises the returning user; undefined for a renewal of tokens. */
  readonly state?: string;
  readonly redactor: Redactor;
  /** The owner of the credential that the client's secret may refer to. */
  readonly owner: CredentialOwner;
  readonly read: () => Credentials;
  readonly write: (credentials: Credentials) => void;
}

/** One login, or one renewal of tokens, for the SDK; lasting data goes to the credentials. */
export class Attempt implements OAuthClientProvider {
  readonly clientMetadata: OAuthClientMetadata;
  readonly redirectUrl: string | undefined;
  readonly clientMetadataUrl?: string;
  readonly addClientAuthentication?: AddClientAuthentication;
  readonly prepareTokenRequest?: (scope?: string) => URLSearchParams;
  readonly #init: AttemptInit;
  #verifier: string | undefined;
  #discovery: OAuthDiscoveryState | undefined;
  /** Where to send the user. */
  target: URL | undefined;

  constructor(init: AttemptInit) {
    this.#init = init;
    const { clientMetadataUrl, grant, privateKey, scope: configured } = init.settings;
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
    if (privateKey !== undefined) this.addClientAuthentication = this.#sign;
    if (grant === 'client_credentials') {
      this.redirectUrl = undefined;
      this.clientMetadata = { client_name: 'Ecliptic', redirect_uris: [], grant_types: [grant] };
      this.prepareTokenRequest = (scope = configured) =>
        new URLSearchParams({ grant_type: grant, ...(scope !== undefined && { scope }) });
      return;
    }
    this.redirectUrl = init.redirectUrl;
    this.clientMetadata = {
      client_name: 'Ecliptic',
      redirect_uris: [init.redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    };
  }

  state(): string {
    return this.#init.state ?? '';
  }

  async clientInformation(
    { issuer }: OAuthClientInformationContext = { issuer: '' },
  ): Promise<StoredOAuthClientInformation | undefined> {
    const { clients } = this.#init.read();
    const { clientId, issuer: allowed } = this.#init.settings;
    if (allowed !== undefined && allowed.replace(/\/$/, '') !== issuer.replace(/\/$/, '')) {
      const message = `it wants a login at ${issuer}, and its configuration allows ${allowed} only`;
      throw new EclipticError('LOGIN_FAILED', message, { issuer });
    }
    if (clientId !== undefined) {
      const bound = Object.keys(clients)[0] ?? issuer;
      if (bound !== issuer) {
        const message = `its client id was used with ${bound}, and now it wants a login at ${issuer}; log out first`;
        throw new EclipticError('LOGIN_FAILED', message, { issuer });
      }
      const secret = await this.#clientSecret();
      return { client_id: clientId, ...(secret !== undefined && { client_secret: secret }), issuer };
    }
    const known = Object.hasOwn(clients, issuer) ? clients[issuer] : undefined;
    // For a login, a registration counts only if the authorization server knows this redirect URL.
    if (this.#init.state !== undefined)
      return known && known.redirectUrl === this.redirectUrl ? known.client : undefined;
    // A renewal never registers a client without the user.
    if (!known) throw new EclipticError('LOGIN_REQUIRED', `nothing is known of a registration at ${issuer}`);
    return known.client;
  }

  /** Proves the client with a signed assertion (RFC 7523). */
  readonly #sign: AddClientAuthentication = async (headers, params, url, metadata) => {
    const { settings, owner, redactor } = this.#init;
    const { clientId = '', algorithm: alg = 'ES256' } = settings;
    const { createPrivateKeyJwtAuth } = await loadClientSdk();
    const privateKey = await resolveSetting(owner, settings.privateKey!);
    redactor.add(privateKey);
    await createPrivateKeyJwtAuth({ issuer: clientId, subject: clientId, privateKey, alg })(
      headers,
      params,
      url,
      metadata,
    );
  };

  /** Looked up for each use, so that a new value counts at once. */
  async #clientSecret(): Promise<string | undefined> {
    const { settings, owner } = this.#init;
    return settings.clientSecret === undefined ? undefined : resolveSetting(owner, settings.clientSecret);
  }

  saveClientInformation(client: StoredOAuthClientInformation, { issuer }: { issuer: string } = { issuer: '' }): void {
    const { read, write, redactor } = this.#init;
    if ('client_secret' in client && client.client_secret !== undefined) redactor.add(client.client_secret);
    const kept = read();
    write({ ...kept, clients: { ...kept.clients, [issuer]: { redirectUrl: this.redirectUrl ?? '', client } } });
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.#init.read().tokens;
  }

  saveTokens(tokens: StoredOAuthTokens, { issuer }: { issuer: string } = { issuer: '' }): void {
    const { redactor, read, write, settings } = this.#init;
    redactor.add(tokens.access_token, tokens.refresh_token ?? '');
    // A configured client id is bound to the authorization server that it was first used with.
    if (settings.clientId !== undefined)
      this.saveClientInformation({ client_id: settings.clientId, issuer }, { issuer });
    const kept = read();
    if (this.target) {
      const scope = this.target.searchParams.get('scope') ?? undefined;
      write({ ...kept, tokens, ...(scope !== undefined && { scope }) });
      return;
    }
    // A renewal keeps the refresh token and scope that the response leaves out.
    const { refresh_token, scope } = kept.tokens ?? {};
    write({ ...kept, tokens: { ...(refresh_token && { refresh_token }), ...(scope && { scope }), ...tokens } });
  }

  redirectToAuthorization(target: URL): void {
    // The address is printed and opened in a browser, so only web pages are allowed.
    if (target.protocol !== 'https:' && target.protocol !== 'http:') {
      throw new EclipticError('LOGIN_FAILED', `its login would be at a ${target.protocol} address`);
    }
    this.target = target;
  }

  saveCodeVerifier(verifier: string): void {
    this.#init.redactor.add(verifier);
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier!;
  }

  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state;
  }

  /** Kept within one login only: the next one discovers the authorization server again. */
  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }

  invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    const kept = this.#init.read();
    if (what === 'all' || what === 'client') this.#init.write({ ...kept, clients: {} });
    if (what === 'all' || what === 'tokens') this.#init.write({ ...this.#init.read(), tokens: undefined });
  }
}

const ClientSchema = z.strictObject({
  /** The redirect URL that the authorization server was given. */
  redirectUrl: z.string(),
  /** As the authorization server returned it. */
  client: z.looseObject({ client_id: z.string() }),
});

const CredentialsSchema = z.strictObject({
  /** The server's URL: for another URL the credentials are not used. */
  url: z.string(),
  /** Registrations by authorization server. */
  clients: z.record(z.string(), ClientSchema),
  tokens: z.looseObject({ access_token: z.string() }).optional(),
  /** The scope that the user was asked to grant. */
  scope: z.string().optional(),
});

const FileSchema = z.strictObject({ version: z.literal(1), servers: z.record(z.string(), CredentialsSchema) });

/** The stored login to one server. */
export interface Credentials {
  readonly clients: Readonly<
    Record<string, { readonly redirectUrl: string; readonly client: StoredOAuthClientInformation }>
  >;
  readonly tokens?: StoredOAuthTokens | undefined;
  readonly scope?: string | undefined;
}

const NONE: Credentials = { clients: {} };

/** The logins to upstream servers, in a file that only the owner can read. */
export class CredentialStore {
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  readonly #servers: Map<string, z.infer<typeof CredentialsSchema>>;

  /** Without a folder, logins end with the process. */
  constructor(folder?: string) {
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'logins.json'), FileSchema);
    this.#servers = new Map(Object.entries(this.#file?.load()?.servers ?? {}));
  }

  get(server: string, url: URL): Credentials {
    const kept = this.#servers.get(server);
    return kept?.url === url.href ? (kept as unknown as Credentials) : NONE;
  }

  /** On disk when this returns. */
  set(server: string, url: URL, credentials: Credentials): void {
    this.#servers.set(server, CredentialsSchema.parse({ url: url.href, ...credentials }));
    this.#save();
  }

  forget(server: string): void {
    if (this.#servers.delete(server)) this.#save();
  }

  #save(): void {
    this.#file?.save({ version: 1, servers: Object.fromEntries(this.#servers) });
  }
}
