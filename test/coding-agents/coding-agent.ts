import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../child-environment.js';
import type { Cluster } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';

const CLIENT_BETWEEN = fileURLToPath(new URL('./client-between.mjs', import.meta.url));

interface Response {
  readonly id: number;
  readonly method?: string;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

interface ToolResult {
  readonly content: readonly { readonly text: string }[];
  readonly structuredContent?: Record<string, unknown>;
  readonly isError?: boolean;
}

/** A scripted coding agent: it starts `ecliptic mcp` as its MCP server and calls its tools. */
export class CodingAgent {
  readonly #cluster: Cluster;
  readonly #args: readonly string[];
  /** Where it works. */
  readonly #folder: string;
  readonly #env: Record<string, string>;
  readonly #client: { name: string; version: string };
  readonly #waiting = new Map<number, (response: Response | undefined) => void>();
  /** Whether the client is a process of its own, which can be killed. */
  readonly #apart: boolean;
  #child: ChildProcess | undefined;
  #server = 0;
  #id = 0;
  stderr = '';
  /** Notifications of the server. */
  readonly told: string[] = [];

  constructor(
    cluster: Cluster,
    args: readonly string[],
    env: Record<string, string> = {},
    client = { name: 'scripted', version: '1' },
    apart = false,
    folder = cluster.folder,
  ) {
    this.#folder = folder;
    this.#cluster = cluster;
    this.#args = args;
    this.#env = env;
    this.#client = client;
    this.#apart = apart;
  }

  static async start(
    cluster: Cluster,
    args: readonly string[],
    env?: Record<string, string>,
    client?: { name: string; version: string },
    folder?: string,
  ): Promise<CodingAgent> {
    const agent = new CodingAgent(cluster, args, env, client, false, folder);
    await agent.start();
    return agent;
  }

  /** One whose client is a process of its own. */
  static async startApart(cluster: Cluster, args: readonly string[]): Promise<CodingAgent> {
    const agent = new CodingAgent(cluster, args, undefined, undefined, true);
    await agent.start();
    return agent;
  }

  get running(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Starts the server, and initialises the session. */
  async start(): Promise<void> {
    const { folder } = this.#cluster;
    const words = [...(this.#apart ? [CLIENT_BETWEEN] : []), BIN, 'mcp', ...this.#args];
    const child = spawn(process.execPath, words, {
      cwd: this.#folder,
      env: childEnvironment(folder, { TMPDIR: folder, PORT: '0', ...this.#env }),
      stdio: ['pipe', 'pipe', 'pipe', ...(this.#apart ? (['ipc'] as const) : [])],
    });
    this.#server = this.#apart ? ((await once(child, 'message'))[0] as number) : child.pid!;
    this.#child = child;
    this.#cluster.onEnd(() => this.crash());
    child.stdin!.on('error', () => {});
    child.stderr!.on('data', (text) => {
      this.stderr += text;
    });
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const response = JSON.parse(line) as Response;
      if (response.method !== undefined) this.told.push(response.method);
      this.#waiting.get(response.id)?.(response);
      this.#waiting.delete(response.id);
    });
    child.once('close', () => {
      if (this.#child !== child) return;
      for (const settle of this.#waiting.values()) settle(undefined);
      this.#waiting.clear();
    });
    await this.ask('initialize', { protocolVersion: '2025-11-25', clientInfo: this.#client });
  }

  /** One request; undefined when the server ended before it answered. */
  ask(method: string, params: object = {}): Promise<Response | undefined> {
    return new Promise((resolve) => {
      if (!this.running) return resolve(undefined);
      const id = ++this.#id;
      this.#waiting.set(id, resolve);
      this.#child!.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    });
  }

  /** Calls a tool; undefined when the server ended before it answered. */
  async try(name: string, args: object = {}): Promise<ToolResult | undefined> {
    const response = await this.ask('tools/call', { name, arguments: args });
    if (response?.error) throw new Error(response.error.message);
    return response?.result as unknown as ToolResult | undefined;
  }

  /** Calls a tool that must succeed, and returns its text. */
  async call(name: string, args: object = {}): Promise<string> {
    const result = await this.try(name, args);
    if (!result || result.isError) throw new Error(`${name}: ${result?.content[0]?.text ?? 'the server ended'}`);
    return result.content.map(({ text }) => text).join('\n');
  }

  /** Closes its end, as a client does that is done. */
  async leave(): Promise<void> {
    const child = this.#child!;
    const exited = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
    child.stdin!.end();
    await exited;
  }

  /** Kills the server. */
  crash(): Promise<void> {
    return this.#end(() => process.kill(this.#server, 'SIGKILL'));
  }

  /** Kills the client, which has to be a process of its own; resolves when its server has gone too. */
  crashClient(): Promise<void> {
    return this.#end((child) => child.kill('SIGKILL'));
  }

  async #end(kill: (child: ChildProcess) => void): Promise<void> {
    const child = this.#child;
    if (!child || !this.running) return;
    const closed = once(child, 'close');
    kill(child);
    await closed;
  }
}
