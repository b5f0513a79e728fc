import type {
  OAuthClientInformationContext,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { EclipticError } from '../../../runtime/errors.js';
import { type CredentialOwner, resolveSetting, type SecretSetting } from '../../../system/secrets/credential-source.js';
import type { Redactor } from '../../../system/secrets/secret.js';
import type { Credentials } from './credentials.js';

/** How a server's login goes, where its user says so. */
export interface OAuthSettings {
  /** A registration that exists already. */
  readonly clientId?: string | undefined;
  readonly clientSecret?: SecretSetting | undefined;
  /** A public document that describes this client (a Client ID Metadata Document). */
  readonly clientMetadataUrl?: string | undefined;
  readonly scope?: string | undefined;
}

export interface AttemptInit {
  readonly settings: OAuthSettings;
  readonly redirectUrl: string;
  /** By which the user's return is recognised; none where nobody is asked to go anywhere. */
  readonly state?: string;
  readonly redactor: Redactor;
  /** Whose credential a client's secret may refer to. */
  readonly owner: CredentialOwner;
  readonly read: () => Credentials;
  readonly write: (credentials: Credentials) => void;
}

/** One login, or one renewal of its tokens, as the SDK wants it: what lasts goes to the credentials. */
export class Attempt implements OAuthClientProvider {
  readonly clientMetadata: OAuthClientMetadata;
  readonly redirectUrl: string;
  readonly clientMetadataUrl?: string;
  readonly #init: AttemptInit;
  #verifier: string | undefined;
  #discovery: OAuthDiscoveryState | undefined;
  /** Where the user is to go. */
  target: URL | undefined;

  constructor(init: AttemptInit) {
    this.#init = init;
    this.redirectUrl = init.redirectUrl;
    const { clientMetadataUrl } = init.settings;
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
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
    const { clientId } = this.#init.settings;
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
    // Whoever is sent somewhere must come back here, and the authorization server knows where that is.
    if (this.#init.state !== undefined) return known?.redirectUrl === this.redirectUrl ? known.client : undefined;
    // Nobody is registered anew behind the user's back.
    if (!known) throw new EclipticError('LOGIN_REQUIRED', `nothing is known of a registration at ${issuer}`);
    return known.client;
  }

  /** Looked up for each use, so that the next has what was set last. */
  async #clientSecret(): Promise<string | undefined> {
    const { settings, owner } = this.#init;
    return settings.clientSecret === undefined ? undefined : resolveSetting(owner, settings.clientSecret);
  }

  saveClientInformation(client: StoredOAuthClientInformation, { issuer }: { issuer: string } = { issuer: '' }): void {
    const { read, write, redactor } = this.#init;
    if ('client_secret' in client && client.client_secret !== undefined) redactor.add(client.client_secret);
    const kept = read();
    write({ ...kept, clients: { ...kept.clients, [issuer]: { redirectUrl: this.redirectUrl, client } } });
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.#init.read().tokens;
  }

  saveTokens(tokens: StoredOAuthTokens, { issuer }: { issuer: string } = { issuer: '' }): void {
    const { redactor, read, write, settings } = this.#init;
    redactor.add(tokens.access_token, tokens.refresh_token ?? '');
    // A registration of the configuration belongs to the authorization server that it was first used with.
    if (settings.clientId !== undefined)
      this.saveClientInformation({ client_id: settings.clientId, issuer }, { issuer });
    const kept = read();
    if (this.target) {
      const scope = this.target.searchParams.get('scope') ?? undefined;
      write({ ...kept, tokens, ...(scope !== undefined && { scope }) });
      return;
    }
    // What is not given anew with a renewal stays as it was.
    const { refresh_token, scope } = kept.tokens ?? {};
    write({ ...kept, tokens: { ...(refresh_token && { refresh_token }), ...(scope && { scope }), ...tokens } });
  }

  redirectToAuthorization(target: URL): void {
    // The user's browser opens it, and it is printed: only what a browser may show a page.
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

  /** Only within one login: the next looks anew who answers for the server. */
  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }

  invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    const kept = this.#init.read();
    if (what === 'all' || what === 'client') this.#init.write({ ...kept, clients: {} });
    if (what === 'all' || what === 'tokens') this.#init.write({ ...this.#init.read(), tokens: undefined });
  }
}
