/** Agents that are known to speak the Agent Client Protocol, by the program that does. */
export const KNOWN_AGENTS: readonly {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}[] = [
  { name: 'Claude', command: 'claude-agent-acp', args: [] },
  { name: 'Codex', command: 'codex-acp', args: [] },
  { name: 'Gemini CLI', command: 'gemini', args: ['--acp'] },
  { name: 'Goose', command: 'goose', args: ['acp'] },
  { name: 'OpenCode', command: 'opencode', args: ['acp'] },
];
