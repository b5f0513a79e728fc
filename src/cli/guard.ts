import { execFile } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import {
  allow,
  type Denial,
  deny,
  GUARDED_CLIENTS,
  type GuardedClient,
  type HookAnswer,
  readHook,
  reasonFor,
  type WritingCall,
} from '../coding-agents/leases/guard.js';
import { ancestors } from '../coding-agents/wake/client-session.js';
import { within } from '../runtime/async.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command, Invocation } from './command.js';
import { usage } from './output.js';

export const command: Command = {
  summary: 'stop edits and commits of files that another agent has reserved (a hook; shell commands are not covered)',
  usage: 'guard --client claude-code|codex|gemini|cursor | --pre-commit',
  options: { client: { type: 'string' }, 'pre-commit': { type: 'boolean' } },
  optionHelp: [
    ['--client NAME', 'read that client’s hook from standard input, and answer in its way'],
    ['--pre-commit', 'look at what is staged; ends with 1 when another holds some of it'],
  ],
  examples: [
    'ecliptic guard --client claude-code   # as PreToolUse hook for Edit|Write|MultiEdit|NotebookEdit',
    'ecliptic guard --client codex         # as PreToolUse hook for apply_patch',
    'ecliptic guard --client gemini        # as BeforeTool hook for write_file|replace',
    'ecliptic guard --client cursor        # as preToolUse hook',
    'ecliptic guard --pre-commit           # in .git/hooks/pre-commit',
  ],
  // To git, whatever is not 0 stops the commit; to clients, 2 is a denial, and anything else a hook that does not work.
  failsWith: (args) => (args.includes('--pre-commit') ? 0 : 1),
  async run(invocation) {
    const { client, 'pre-commit': preCommit } = invocation.values;
    const runtime = systemRuntime();
    if (preCommit === true && client === undefined) return end(await atCommit(runtime, invocation));
    const known = GUARDED_CLIENTS.find((one) => one === client);
    if (!known) throw usage(`--client is one of ${GUARDED_CLIENTS.join(', ')}; else say --pre-commit`);
    return end(await atHook(runtime, invocation, known));
  },
};

/** Whoever waits for longer than this may go on: a guard that fails must not stop anybody's work. */
const LIMIT_MS = 1_800;

async function atHook(runtime: Runtime, invocation: Invocation, client: GuardedClient): Promise<HookAnswer> {
  const ask = async () => {
    const call = readHook(await text(process.stdin), process.cwd());
    return call ? whoHolds(invocation, client, call, true) : [];
  };
  const denials = await inTime(runtime, ask());
  return denials.length === 0 ? allow(client) : deny(client, reasonFor(denials));
}

async function atCommit(runtime: Runtime, invocation: Invocation): Promise<HookAnswer> {
  const git = promisify(execFile);
  const ask = async () => {
    const { stdout: top } = await git('git', ['rev-parse', '--show-toplevel']);
    const folder = top.replace(/\r?\n$/, '');
    const staged = ['diff', '--cached', '--name-only', '--no-renames', '-z'];
    const { stdout } = await git('git', staged, { cwd: folder, maxBuffer: 64 * 1_048_576 });
    const paths = stdout.split('\0').filter(Boolean);
    return paths.length === 0 ? [] : whoHolds(invocation, 'git', { folder, paths }, false);
  };
  const denials = await inTime(runtime, ask());
  if (denials.length === 0) return { stdout: '', stderr: '', code: 0 };
  const stderr = `${reasonFor(denials)}\nUnstage these files, or commit them all the same with: git commit --no-verify`;
  return { stdout: '', stderr, code: 1 };
}

async function whoHolds(
  { connect }: Invocation,
  client: string,
  { folder, paths }: WritingCall,
  proves: boolean,
): Promise<Denial[]> {
  const node = await connect();
  return node.call<Denial[]>('guard.ask', { client, folder, paths, ancestors: ancestors(), proves });
}

function inTime(runtime: Runtime, asked: Promise<Denial[]>): Promise<Denial[]> {
  const denials = asked.catch(() => []);
  return within(runtime, denials, LIMIT_MS, () => []);
}

/** Ends at once, whatever still waits. */
function end({ stdout, stderr, code }: HookAnswer): void {
  const leave = () => process.exit(code);
  const said = (stream: NodeJS.WriteStream, words: string) =>
    new Promise<void>((resolve) => (words === '' ? resolve() : void stream.write(`${words}\n`, () => resolve())));
  void Promise.all([said(process.stdout, stdout), said(process.stderr, stderr)]).then(leave);
}
