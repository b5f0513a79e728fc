import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { EclipticError } from '../runtime/errors.js';
import { OWNER } from './mailbox/human.js';

/** Names that would pretend to be somebody: people, the system, or everyone. */
const RESERVED: ReadonlySet<string> = new Set([
  OWNER,
  'guest',
  'human',
  'user',
  'system',
  'admin',
  'root',
  'all',
  'me',
]);
/** Characters that a generated name takes of the client's, and of the folder's. */
const MAX_WORD = 32;
const NAME = /^[a-z0-9][a-z0-9_-]{0,47}$/i;

/** The name that somebody asked for, if it can be one. */
export function checkedName(name: string): string {
  if (!NAME.test(name)) {
    throw new EclipticError('USAGE', `--as ${JSON.stringify(name)}: a name has 1 to 48 letters, digits, "-" or "_"`);
  }
  if (RESERVED.has(name.toLowerCase())) throw new EclipticError('USAGE', `--as ${name}: that name is kept for others`);
  return name;
}

/** A name for an agent that brings none: the same for the same client in the same checkout. */
export function nameFor(client: string, checkout: string): string {
  const tail = createHash('sha256').update(`${client}\n${checkout}`).digest('hex').slice(0, 2);
  return `${slug(client) || 'agent'}-${slug(basename(checkout)) || 'here'}-${tail}`;
}

/** The n-th name of those who want the same. */
export function numbered(name: string, n: number): string {
  return n === 1 ? name : `${name}-${n}`;
}

/** A word of a name; a long one ends after a whole part. */
function slug(text: string): string {
  const whole = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (whole.length <= MAX_WORD) return whole;
  const end = whole.lastIndexOf('-', MAX_WORD);
  return whole.slice(0, end > 0 ? end : MAX_WORD);
}
