import { isLoopbackHost, LOOPBACK_RANGES } from '../a2a/client/credentials.js';
import type { AllowPrivate } from '../system/fetch/target.js';
import type { Values } from './command.js';

export const REMOTE_OPTIONS = {
  token: { type: 'string' },
  'allow-private': { type: 'boolean' },
} as const;

export const REMOTE_HELP: readonly (readonly [string, string])[] = [
  ['--token T', 'a bearer token for the agent (or ECLIPTIC_TOKEN)'],
  ['--allow-private', 'private addresses too; loopback needs no leave when the URL itself names it'],
];

export function isUrl(word: string | undefined): word is string {
  return word !== undefined && /^https?:\/\//i.test(word);
}

/** What of the private network a command may reach: whoever types a loopback address means this machine, and no more. */
export function reachOf(url: string, values: Values): AllowPrivate {
  if (values['allow-private']) return true;
  return URL.canParse(url) && isLoopbackHost(new URL(url).hostname) ? LOOPBACK_RANGES : false;
}

export function tokenOf(
  { token }: Values,
  env: Readonly<Record<string, string | undefined>>,
): { readonly bearer: string } | undefined {
  const bearer = typeof token === 'string' ? token : env.ECLIPTIC_TOKEN;
  return bearer ? { bearer } : undefined;
}
