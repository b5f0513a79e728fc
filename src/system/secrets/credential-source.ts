import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Redactor, Secret } from './secret.js';

/** Resolves credentials. Called for each use, so that the next use has the latest value. */
export interface CredentialSource {
  /** Rejects with `CREDENTIAL_MISSING`, `CREDENTIAL_DENIED` or `CREDENTIAL_UNREADABLE`. */
  resolve(provider: string, workspace: string, name: string): Promise<Secret>;
}

/** The workspace where none is named. */
export const DEFAULT_WORKSPACE = 'default';
/** The credential where none is named. */
export const DEFAULT_CREDENTIAL = 'default';

/** Names of providers, workspaces and credentials. */
export const CredentialNameSchema = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'must have no control characters');

/** Stands for a secret in the configuration. */
export const CredentialRefSchema = z
  .strictObject({
    credential: CredentialNameSchema.describe('Its name, as in: ecliptic credential set PROVIDER NAME'),
    scheme: z
      .string()
      .regex(/^[!-~]+$/, 'must be one word')
      .optional()
      .describe('A prefix, such as "Bearer".'),
  })
  .describe('A credential of this provider, looked up for each use.');

type CredentialRef = Readonly<z.infer<typeof CredentialRefSchema>>;
/** A text, or a reference to a credential. */
export type SecretSetting = string | CredentialRef;
export type SecretSettings = Readonly<Record<string, SecretSetting>>;

/** Resolves the credentials of one provider, and registers their values with the redactor. */
export interface CredentialOwner {
  readonly source: CredentialSource;
  readonly provider: string;
  readonly workspace: string;
  readonly redactor?: Redactor;
}

export function isCredentialRef(setting: unknown): setting is CredentialRef {
  return typeof setting === 'object' && setting !== null && 'credential' in setting;
}

/** Settings split into plain texts and references to credentials. */
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

/** The plain values in settings, also without the scheme of a header. */
export function plainSecrets(settings: SecretSettings): string[] {
  return Object.values(parted(settings).plain).flatMap((value) => [value, value.replace(/^\S+ /, '')]);
}

/** The names of the referenced credentials. */
export function credentialsIn(settings: SecretSettings): string[] {
  return Object.values(settings).flatMap((setting) => (isCredentialRef(setting) ? setting.credential : []));
}

/** The value of a setting, for one use; callers must not keep it. */
export async function resolveSetting(owner: CredentialOwner, setting: SecretSetting): Promise<string> {
  if (!isCredentialRef(setting)) return setting;
  const { source, provider, workspace, redactor } = owner;
  const value = (await source.resolve(provider, workspace, setting.credential)).reveal();
  redactor?.add(value);
  return setting.scheme === undefined ? value : `${setting.scheme} ${value}`;
}

/** The values of settings, such as the environment of a child process. */
export async function resolveSettings(
  owner: CredentialOwner,
  settings: SecretSettings,
): Promise<Record<string, string>> {
  const resolved: Record<string, string> = {};
  for (const [key, setting] of Object.entries(settings)) resolved[key] = await resolveSetting(owner, setting);
  return resolved;
}

/** The values of settings that are the headers of one request. */
export async function resolveHeaders(
  owner: CredentialOwner,
  settings: SecretSettings,
): Promise<Record<string, string>> {
  const headers = await resolveSettings(owner, settings);
  // The HTTP client's own error would contain the value.
  const unfit = Object.keys(headers).find(
    (name) => isCredentialRef(settings[name]) && !HEADER_VALUE.test(headers[name]!),
  );
  if (unfit === undefined) return headers;
  const message = `the credential for the header "${unfit}" of "${owner.provider}" has characters that no header may have`;
  throw new EclipticError('INVALID_CONFIG', message, { provider: owner.provider, header: unfit });
}

const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
