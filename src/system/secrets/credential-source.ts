import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Redactor, Secret } from './secret.js';

/** Where credentials come from. Asked for each call, so that the next one has what was set last. */
export interface CredentialSource {
  /** Rejects with `CREDENTIAL_MISSING`, `CREDENTIAL_DENIED` or `CREDENTIAL_UNREADABLE`. */
  resolve(provider: string, workspace: string, name: string): Promise<Secret>;
}

/** The workspace of whatever names none. */
export const DEFAULT_WORKSPACE = 'default';
/** The credential that is meant where none is named. */
export const DEFAULT_CREDENTIAL = 'default';

/** What may name a provider, a workspace or a credential. */
export const CredentialNameSchema = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'must have no control characters');

/** Stands in a configuration where a secret is wanted. */
export const CredentialRefSchema = z
  .strictObject({
    credential: CredentialNameSchema.describe('Its name, as in: ecliptic credentials set PROVIDER NAME'),
    scheme: z
      .string()
      .regex(/^[!-~]+$/, 'must be one word')
      .optional()
      .describe('A word to put before it, such as "Bearer".'),
  })
  .describe('A credential of this provider’s, looked up for each use.');

type CredentialRef = Readonly<z.infer<typeof CredentialRefSchema>>;
/** Text as it is, or a credential in its place. */
export type SecretSetting = string | CredentialRef;
export type SecretSettings = Readonly<Record<string, SecretSetting>>;

/** Whose credentials are meant, and what is to keep them out of sight. */
export interface CredentialOwner {
  readonly source: CredentialSource;
  readonly provider: string;
  readonly workspace: string;
  readonly redactor?: Redactor;
}

export function isCredentialRef(setting: unknown): setting is CredentialRef {
  return typeof setting === 'object' && setting !== null && 'credential' in setting;
}

/** What settings say by themselves, and what they leave to credentials. */
export function parted(settings: SecretSettings): {
  plain: Record<string, string>;
  secret: Record<string, CredentialRef>;
} {
  const plain: Record<string, string> = {};
  const secret: Record<string, CredentialRef> = {};
  for (const [key, setting] of Object.entries(settings)) {
    if (isCredentialRef(setting)) secret[key] = setting;
    else plain[key] = setting;
  }
  return { plain, secret };
}

/** What settings give away by themselves. Without its scheme, a header's secret stands alone. */
export function plainSecrets(settings: SecretSettings): string[] {
  return Object.values(parted(settings).plain).flatMap((value) => [value, value.replace(/^\S+ /, '')]);
}

/** The credentials that settings refer to. */
export function credentialsIn(settings: SecretSettings): string[] {
  return Object.values(settings).flatMap((setting) => (isCredentialRef(setting) ? setting.credential : []));
}

/** One setting with what it refers to in its place: for one use, and to be kept nowhere. */
export async function resolveSetting(owner: CredentialOwner, setting: SecretSetting): Promise<string> {
  if (!isCredentialRef(setting)) return setting;
  const { source, provider, workspace, redactor } = owner;
  const value = (await source.resolve(provider, workspace, setting.credential)).reveal();
  redactor?.add(value);
  return setting.scheme === undefined ? value : `${setting.scheme} ${value}`;
}

/** Settings with what they refer to in its place, such as the environment of a child about to be started. */
export async function resolveSettings(
  owner: CredentialOwner,
  settings: SecretSettings,
): Promise<Record<string, string>> {
  const resolved: Record<string, string> = {};
  for (const [key, setting] of Object.entries(settings)) resolved[key] = await resolveSetting(owner, setting);
  return resolved;
}

/** The same for the headers of one request. */
export async function resolveHeaders(
  owner: CredentialOwner,
  settings: SecretSettings,
): Promise<Record<string, string>> {
  const headers = await resolveSettings(owner, settings);
  // What makes requests would show the whole value in its complaint.
  const unfit = Object.keys(headers).find(
    (name) => isCredentialRef(settings[name]) && !HEADER_VALUE.test(headers[name]!),
  );
  if (unfit === undefined) return headers;
  const message = `the credential for the header "${unfit}" of "${owner.provider}" has characters that no header may have`;
  throw new EclipticError('INVALID_CONFIG', message, { provider: owner.provider, header: unfit });
}

const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
