import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AgentCard } from '../mesh/schemas.js';
import { ROSTER_FOLDER } from '../runtime/package.js';
import { PLANETARY_ROSTER } from './planetary-roster.js';

/** The text that tells a model what the role of the roster is, allows and forbids; undefined for any other agent. */
export async function rolePrompt(id: string): Promise<string | undefined> {
  // Only known ids become file names: an agent's id may contain anything.
  if (!PLANETARY_ROSTER.some((role) => role.id === id)) return undefined;
  return readFile(join(ROSTER_FOLDER, `${id}.md`), 'utf8');
}

/** The role of an agent that is not of the roster, from its card. */
export function roleOf({ name, description, tier, capabilities }: AgentCard): string {
  const can = capabilities.map((one) => one.description || one.name).join('; ');
  return [`You are ${name}, an agent of tier ${tier}.`, description, can && `You can: ${can}.`]
    .filter((line) => line !== '')
    .join('\n');
}
