import { basename } from 'node:path';

/** Agents that are known to speak the Agent Client Protocol, by the program that does. */
export const KNOWN_AGENTS: readonly {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** It fails on files that it reads through its client, so it is to use its own way to them. */
  readonly ownFiles?: boolean;
}[] = [
  { name: 'Claude', command: 'claude-agent-acp', args: [] },
  { name: 'Codex', command: 'codex-acp', args: [] },
  { name: 'Gemini CLI', command: 'gemini', args: ['--acp'], ownFiles: true },
  { name: 'Goose', command: 'goose', args: ['acp'] },
  { name: 'OpenCode', command: 'opencode', args: ['acp'] },
];

/** Does this program read and write files better itself than through its client? */
export function usesOwnFiles(command: string, args: readonly string[]): boolean {
  const words = [command, ...args].map((word) => basename(word).replace(/\.(c?js|cmd|exe)$/, ''));
  return KNOWN_AGENTS.some((known) => known.ownFiles && words.includes(known.command));
}
