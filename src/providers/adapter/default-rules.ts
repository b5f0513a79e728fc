import type { ActionRule } from '../../system/approvals/action-gate.js';

/**
 * The rules where the configuration has none: agents may use files of their own folder and look things up, and ask about
 * anything else.
 */
export const DEFAULT_RULES: readonly ActionRule[] = [
  { action: 'fs.read', decision: 'allow' },
  { action: 'fs.write', decision: 'allow' },
  { action: 'tool.read', decision: 'allow' },
  { action: 'tool.call', decision: 'ask' },
  { action: 'terminal.run', decision: 'ask' },
  { action: 'permission.*', decision: 'ask' },
];
