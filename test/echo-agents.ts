import { join } from 'node:path';
import type { AgentConfig } from '../src/node/config/schema.js';
import { ROOT } from './source-files.js';

/** An agent module that echoes. */
export const ECHO = join(ROOT, 'test', 'agents', 'echo.mjs');

/** Staffs these agents of the configuration, roles of the roster among them, with a worker that echoes. */
export function echoing(...ids: readonly string[]): Record<string, AgentConfig> {
  return Object.fromEntries(ids.map((id) => [id, { module: ECHO }]));
}
