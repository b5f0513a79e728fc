import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Workspace } from '../../system/files/workspace.js';
import type { Child } from '../../system/process/child.js';
import type { Children } from '../../system/process/children.js';
import type { JailRequest } from '../../system/process/jail-settings.js';
import type { CreateTerminalRequest, TerminalOutputResponse, WaitForTerminalExitResponse } from './sdk.js';

/** Terminals of one agent, running or not. */
const MAX_TERMINALS = 16;
const MAX_OUTPUT_BYTES = 1_048_576;

/** Characters that have a meaning in a shell. */
const SPECIAL = /[^\w@%+=:,./-]/;

/**
 * The subject under which a command is approved. It is unambiguous, so that a rule for one command allows no other: a
 * line for the shell begins with `sh -c`, and environment variables come first.
 */
export function commandLine({ command, args = [], env = [] }: Omit<CreateTerminalRequest, 'sessionId'>): string {
  const word = (text: string) => (text !== '' && !SPECIAL.test(text) ? text : JSON.stringify(text));
  const settings = env.map(({ name, value }) => `${name}=${word(value)}`);
  if (args.length > 0) return [...settings, ...[command, ...args].map(word)].join(' ');
  const simple = command.split(' ').every((part) => !SPECIAL.test(part));
  return [...settings, ...(simple ? [] : ['sh -c']), command].join(' ');
}

/** The commands that an agent runs. Each has a process group, which ends with the agent. */
export class Terminals {
  readonly #runtime: Runtime;
  readonly #children: Children;
  readonly #workspace: Workspace;
  readonly #jail: JailRequest | undefined;
  readonly #terminals = new Map<string, Terminal>();

  /** Commands run in the agent's own jail. */
  constructor(runtime: Runtime, children: Children, workspace: Workspace, jail?: JailRequest) {
    this.#jail = jail;
    this.#runtime = runtime;
    this.#children = children;
    this.#workspace = workspace;
  }

  async create(request: CreateTerminalRequest, workspace = this.#workspace): Promise<string> {
    if (this.#terminals.size >= MAX_TERMINALS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_TERMINALS} terminals are open already; release one`);
    }
    const { command, args, env = [], cwd, outputByteLimit } = request;
    const program = {
      command: '/bin/sh',
      // Both outputs in one, in the order of their writing. A command without arguments is a line for the shell.
      args: args?.length ? ['-c', 'exec "$0" "$@" 2>&1', command, ...args] : ['-c', 'exec 2>&1; eval "$0"', command],
      cwd: await workspace.locate(cwd ?? '.'),
      env: Object.fromEntries(env.map(({ name, value }) => [name, value])),
      name: command,
      jail: this.#jail,
    };
    const terminal = new Terminal(await this.#children.start(program), outputByteLimit ?? MAX_OUTPUT_BYTES);
    const id = this.#runtime.id();
    this.#terminals.set(id, terminal);
    return id;
  }

  get(id: string): Terminal {
    const terminal = this.#terminals.get(id);
    if (terminal) return terminal;
    throw new EclipticError('RESOURCE_NOT_FOUND', `there is no terminal "${id}"`, { terminal: id });
  }

  async release(id: string): Promise<void> {
    const terminal = this.get(id);
    this.#terminals.delete(id);
    await terminal.kill();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#terminals.values()].map((terminal) => terminal.kill()));
    this.#terminals.clear();
  }
}

class Terminal {
  readonly exited: Promise<WaitForTerminalExitResponse>;
  readonly #child: Child;
  readonly #limit: number;
  #kept: Buffer[] = [];
  #bytes = 0;
  #truncated = false;
  #status: WaitForTerminalExitResponse | undefined;

  constructor(child: Child, limit: number) {
    this.#child = child;
    this.#limit = Math.max(0, Math.min(limit, MAX_OUTPUT_BYTES));
    child.stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    this.exited = child.exited.then((exit) => {
      this.#status = exit.kind === 'code' ? { exitCode: exit.code } : { signal: exit.signal };
      return this.#status;
    });
  }

  get output(): TerminalOutputResponse {
    const output = wholeCharacters(Buffer.concat(this.#kept).subarray(-this.#limit || undefined));
    return { output: this.#limit === 0 ? '' : output, truncated: this.#truncated, exitStatus: this.#status ?? null };
  }

  async kill(): Promise<void> {
    await this.#child.stop({ graceMs: 500 });
  }

  /** Keeps the end of the output. */
  #take(chunk: Buffer): void {
    this.#kept.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes <= this.#limit) return;
    this.#truncated = true;
    while (this.#kept.length > 1 && this.#bytes - this.#kept[0]!.length >= this.#limit) {
      this.#bytes -= this.#kept.shift()!.length;
    }
  }
}

/** Decodes UTF-8 that may begin in the middle of a character. */
function wholeCharacters(bytes: Buffer): string {
  let from = 0;
  while (from < Math.min(3, bytes.length) && (bytes[from]! & 0xc0) === 0x80) from++;
  return bytes.toString('utf8', from);
}
