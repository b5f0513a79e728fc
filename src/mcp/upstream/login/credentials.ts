import { join } from 'node:path';
import type { StoredOAuthClientInformation, StoredOAuthTokens } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { JsonFile } from '../../../system/files/private-file.js';

const ClientSchema = z.strictObject({
  /** Where the authorization server was told to send the user back to. */
  redirectUrl: z.string(),
  /** As the authorization server gave it. */
  client: z.looseObject({ client_id: z.string() }),
});

const CredentialsSchema = z.strictObject({
  /** The server that they are for: at another URL they are nobody's. */
  url: z.string(),
  /** Registrations, by the authorization server that knows them. */
  clients: z.record(z.string(), ClientSchema),
  tokens: z.looseObject({ access_token: z.string() }).optional(),
  /** What the user was asked to grant for them. */
  scope: z.string().optional(),
});

const FileSchema = z.strictObject({ version: z.literal(1), servers: z.record(z.string(), CredentialsSchema) });

/** What is kept of a login to one server. */
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

  /** Without a folder they end with the process. */
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
