import { execFile } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import {
  allow,
  type Denial,
  deny,
  type GuardedClient,
  type HookAnswer,
  readHook,
  reasonFor,
  type WritingCall,
} from '../coding-agents/leases/guard.js';
import { type GitOperation, gitOperations } from '../coding-agents/radar/git-operations.js';
import { ancestors, passedOn } from '../coding-agents/wake/client-session.js';
import { within } from '../runtime/async.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Invocation } from './command.js';
import { usage } from './output.js';

/** A guard without an answer by then allows the edit: its failure must not stop anyone's work. */
const GUARD_MS = 1_800;
/** A client waits no longer for its hook. */
const HOOK_MS = 1_500;
const MAX_INPUT_BYTES = 1_048_576;

type GuardInvocation = Invocation<unknown, { readonly client?: GuardedClient; readonly 'pre-commit'?: boolean }>;

/** Answers the hook of a client, or git's pre-commit hook. */
export async function guardFiles(invocation: GuardInvocation): Promise<void> {
  const { client, 'pre-commit': preCommit } = invocation.values;
  if (client !== undefined) return end(await atEdit(invocation, client));
  if (!preCommit) throw usage('--client is missing; or give --pre-commit');
  end(await atCommit(invocation));
}

async function atEdit({ call }: GuardInvocation, client: GuardedClient): Promise<HookAnswer> {
  const ask = async () => {
    const edit = readHook(await text(process.stdin), process.cwd());
    if (!edit) return [];
    const operations = edit.command === undefined ? [] : gitOperations(edit.command);
    // Most shell commands concern no other agent, and the node is not asked.
    if (edit.paths.length === 0 && operations.length === 0) return [];
    return deniedBy(call, client, { ...edit, operations }, { proves: edit.paths.length > 0 });
  };
  const denials = await inTime(ask());
  return denials.length === 0 ? allow(client) : deny(client, reasonFor(denials));
}

async function atCommit({ call }: GuardInvocation): Promise<HookAnswer> {
  const git = promisify(execFile);
  const ask = async () => {
    const { stdout: top } = await git('git', ['rev-parse', '--show-toplevel']);
    const folder = top.replace(/\r?\n$/, '');
    const staged = ['diff', '--cached', '--name-only', '--no-renames', '-z'];
    const { stdout } = await git('git', staged, { cwd: folder, maxBuffer: 64 * 1_048_576 });
    const paths = stdout.split('\0').filter(Boolean);
    return paths.length === 0 ? [] : deniedBy(call, 'git', { folder, paths, operations: [] }, { proves: false });
  };
  const denials = await inTime(ask());
  if (denials.length === 0) return { stdout: '', stderr: '', code: 0 };
  const stderr = `${reasonFor(denials)}\nUnstage these files, or commit them anyway with: git commit --no-verify`;
  return { stdout: '', stderr, code: 1 };
}

function deniedBy(
  call: Invocation['call'],
  client: string,
  {
    folder,
    paths,
    operations,
  }: Pick<WritingCall, 'folder' | 'paths'> & { readonly operations: readonly GitOperation[] },
  { proves }: { proves: boolean },
): Promise<Denial[]> {
  return call('guard.ask', { client, folder, paths, operations, ancestors: ancestors(), proves });
}

function inTime(asked: Promise<Denial[]>): Promise<Denial[]> {
  const denials = asked.catch(() => []);
  return within(systemRuntime(), denials, GUARD_MS, () => []);
}

/** Exits at once, whatever still waits. */
function end({ stdout, stderr, code }: HookAnswer): void {
  const written = (stream: NodeJS.WriteStream, words: string) =>
    new Promise<void>((resolve) => (words === '' ? resolve() : void stream.write(`${words}\n`, () => resolve())));
  void Promise.all([written(process.stdout, stdout), written(process.stderr, stderr)]).then(() => process.exit(code));
}

/** Answers a session or end-of-turn hook. The client always reads one JSON object. */
export async function answerHook({
  values: { client, event },
  env,
  call,
}: Invocation<unknown, { readonly client: string; readonly event: string }>): Promise<void> {
  // Loaded here, because the guard, which runs at every edit, does not need it.
  const { hookAnswer, isHook } = await import('../coding-agents/wake/hook-contracts.js');
  if (!isHook(client, event)) throw usage(`${client} has no hook ${event}; see: ecliptic hook --help`);
  const ask = async (): Promise<object> => {
    const payload = JSON.parse(await input()) as unknown;
    const params = { client, event, payload, env: passedOn(env), ancestors: ancestors() };
    const { pointer } = await call('wake.hook', params);
    return hookAnswer(client, pointer ?? undefined);
  };
  const given = ask().catch(() => ({}));
  const answer = await within(systemRuntime(), given, HOOK_MS, () => ({}));
  process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
}

async function input(): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_INPUT_BYTES) return '{}';
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
