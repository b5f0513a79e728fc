import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { wait, within } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { MemoryStore } from '../../store/memory-store.js';
import { ActionGate } from '../../system/approvals/action-gate.js';
import { Approvals } from '../../system/approvals/approvals.js';
import { Workspace } from '../../system/files/workspace.js';
import type { Children, Program } from '../../system/process/children.js';
import { AcpAgent } from './acp-agent.js';
import type { AcpDescription } from './description.js';
import { KeptConversations } from './kept-conversations.js';
import { Terminals } from './terminals.js';

export type ProbeResult =
  | { readonly state: 'ready' | 'needs-login'; readonly description: AcpDescription }
  | { readonly state: 'failed'; readonly reason: string };

/** Real agents take seconds to start. */
const PROBE_MS = 30_000;
/** How long a program may take from its closed input to its exit. */
const EXIT_MS = 1_000;

/** Starts an agent briefly, in an empty folder where nothing is allowed, to find out whether it works. */
export async function probeAgent(
  runtime: Runtime,
  children: Children,
  program: Program,
  limitMs = PROBE_MS,
): Promise<ProbeResult> {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-probe-'));
  const approvals = new Approvals(runtime);
  const child = await children.start({ cwd: folder, ...program }).catch((error: EclipticError) => error);
  /** A write may fail before the exit is noticed, and only the exit says why. */
  const causeOf = async (error: unknown) => {
    if (child instanceof EclipticError || (error instanceof EclipticError && error.code !== 'PROCESS_ENDED'))
      return error;
    return within(
      runtime,
      child.exited.then(() => child.failure()),
      EXIT_MS,
      () => error,
    );
  };
  try {
    if (child instanceof EclipticError) return { state: 'failed', reason: child.message };
    const workspace = new Workspace(folder);
    const terminals = new Terminals(runtime, children, workspace);
    const gate = new ActionGate({ approvals, report: () => {} });
    const agent = program.name ?? program.command;
    const kept = new KeptConversations(runtime, new MemoryStore(), agent);
    const about = { agent, workspace, terminals, gate, kept, mcpServers: () => [] };
    const late = wait(runtime, limitMs).then(() => {
      throw new EclipticError('REQUEST_TIMEOUT', `it did not answer within ${limitMs} ms`);
    });
    const gone = child.exited.then(() => {
      throw child.failure();
    });
    return await Promise.race([look(AcpAgent.open(runtime, child, about)), late, gone]);
  } catch (error) {
    return { state: 'failed', reason: describeError(await causeOf(error)) };
  } finally {
    if (!(child instanceof EclipticError)) await child.stop({ graceMs: 500 });
    approvals.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function look(opening: Promise<AcpAgent>): Promise<ProbeResult> {
  const agent = await opening;
  const { description } = agent;
  try {
    await agent.prepare();
    return { state: 'ready', description };
  } catch (error) {
    if (agent.needsLogin) return { state: 'needs-login', description };
    throw error;
  }
}

/** Programs that are known to speak the Agent Client Protocol. */
export const KNOWN_AGENTS: readonly {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The agent fails on files that it reads through its client, so it accesses them itself. */
  readonly ownFiles?: boolean;
}[] = [
  { name: 'Claude', command: 'claude-agent-acp', args: [] },
  { name: 'Codex', command: 'codex-acp', args: [] },
  { name: 'Gemini CLI', command: 'gemini', args: ['--acp'], ownFiles: true },
  { name: 'Goose', command: 'goose', args: ['acp'] },
  { name: 'OpenCode', command: 'opencode', args: ['acp'] },
];

export function usesOwnFiles(command: string, args: readonly string[]): boolean {
  const words = [command, ...args].map((word) => basename(word).replace(/\.(c?js|cmd|exe)$/, ''));
  return KNOWN_AGENTS.some((known) => known.ownFiles && words.includes(known.command));
}
