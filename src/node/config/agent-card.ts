import type { AgentInit } from '../../agent/agent-init.js';
import type { AgentConfig } from './schema.js';

/** The part of an agent's configuration that is on its card. */
export function cardOf({ name, description, version, tier, capabilities, sandbox }: AgentConfig): Partial<AgentInit> {
  const given = { name, description, version, tier, capabilities, sandbox };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
