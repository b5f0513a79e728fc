import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CallToolResult } from '@modelcontextprotocol/server';
import { OPERATOR } from '../../src/http/auth/caller-auth.js';
import type { CallOptions } from '../../src/mcp/call.js';
import { Logins } from '../../src/mcp/upstream/logins.js';
import { Pins } from '../../src/mcp/upstream/pins.js';
import type { UpstreamStatus } from '../../src/mcp/upstream/upstream.js';
import { Upstreams } from '../../src/mcp/upstream/upstreams.js';
import { reportCredentials } from '../../src/mesh/audit/audit-log.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { Lanes } from '../../src/providers/host/lanes.js';
import { type MCPServerInit, MCPServers } from '../../src/providers/mcp/mcp-servers.js';
import { CredentialConsent } from '../../src/providers/registry/credentials.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Approvals } from '../../src/system/approvals/approvals.js';
import { Children } from '../../src/system/process/children.js';
import { MemoryWatch } from '../../src/system/process/memory-watch.js';
import { Credentials } from '../../src/system/secrets/credentials.js';

export const runtime = systemRuntime();
/** The redirect address after a login; no server listens there. */
const CALLBACK = 'http://127.0.0.1:3000/oauth/callback';
const SERVER = fileURLToPath(new URL('server.mjs', import.meta.url));

export interface Lists {
  tools?: readonly object[];
  resources?: readonly object[];
  templates?: readonly object[];
  prompts?: readonly object[];
}

export const tool = (name: string, more: object = {}) => ({
  name,
  description: `what ${name} does`,
  inputSchema: { type: 'object' },
  ...more,
});

export { OPERATOR };

/** A node with upstream servers that are real processes. */
export class Upstreaming {
  readonly folder = mkdtempSync(join(tmpdir(), 'ecliptic-upstream-'));
  readonly events: A2ALogEvent[] = [];
  readonly node: EclipticNode;
  children!: Children;
  approvals!: Approvals;
  upstreams!: Upstreams;
  logins!: Logins;
  credentials!: Credentials;
  lanes!: Lanes;
  #servers!: MCPServers;
  readonly #direct: boolean;
  readonly #processes: ChildProcess[] = [];

  private constructor(node: EclipticNode, direct: boolean) {
    this.node = node;
    this.#direct = direct;
    node.observability.subscribe((event) => this.events.push(event));
  }

  /** `direct`: like a program that embeds a node and has no provider registry for its servers. */
  static async start({ direct = false } = {}): Promise<Upstreaming> {
    const made = new Upstreaming(await createNode(), direct);
    await made.open();
    return made;
  }

  /** Opens the stored data of the folder, as a starting node does. */
  async open(): Promise<void> {
    const { folder, node } = this;
    this.children = await Children.open(runtime, { folder: join(folder, 'children') });
    this.approvals = new Approvals(runtime, { folder });
    const { mcp: service, observability } = node;
    this.logins = new Logins(runtime, { folder, redirectUrl: () => CALLBACK });
    this.credentials = new Credentials({ runtime, report: reportCredentials(runtime, observability) }, { folder });
    const { children, approvals, logins, credentials } = this;
    this.upstreams = new Upstreams({
      runtime,
      service,
      observability,
      children,
      approvals,
      logins,
      credentials,
      pins: new Pins({ folder }),
    });
    this.lanes = new Lanes(join(folder, 'lanes'));
    const { upstreams, lanes } = this;
    const { providers, providerEvents: events } = node;
    const memory = new MemoryWatch(runtime);
    const consent = new CredentialConsent({ approvals, isForeign: () => true });
    this.#servers = new MCPServers({
      runtime,
      children,
      memory,
      providers,
      events,
      lanes,
      upstreams,
      consent,
      agent: () => undefined,
    });
  }

  async close(): Promise<void> {
    for (const { id } of this.node.providers.list()) await this.node.providers.unregister(id);
    await this.lanes.closeAll();
    await this.upstreams.close();
    await this.children.close();
    this.approvals.close();
  }

  async end(): Promise<void> {
    await this.close();
    await this.node.stop();
    for (const process of this.#processes) process.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Sets the lists of a server from now on. */
  lists(name: string, lists: Lists): string {
    const file = join(this.folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(lists));
    return file;
  }

  /** The notes of a server. */
  log(name: string): string[] {
    const file = join(this.folder, `${name}.json.log`);
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  }

  /** A server over stdio. */
  addStdio(name: string, lists: Lists, mode = 'stdio', more: Partial<MCPServerInit> & { env?: object } = {}): void {
    const { env, ...rest } = more;
    const args = [SERVER, this.lists(name, lists), mode];
    this.add(name, { kind: 'stdio', command: process.execPath, args, env: { ...env } as Record<string, string> }, rest);
  }

  /** A program that claims to be a server. */
  addProgram(name: string, code: string, more: Partial<MCPServerInit> = {}): void {
    this.add(name, { kind: 'stdio', command: process.execPath, args: ['-e', code], env: {} }, more);
  }

  add(name: string, endpoint: MCPServerInit['endpoint'], more: Partial<MCPServerInit> = {}): void {
    const agent = more.agent ?? name;
    if (!this.node.agents.some(({ id }) => id === agent)) this.node.agent({ id: agent });
    const init = { name, agent, endpoint, ...more };
    if (this.#direct) this.upstreams.add(init);
    else this.#servers.add(init);
  }

  /** Starts the server as a process of its own, which listens at a port. */
  async listen(name: string, lists: Lists, port = 0): Promise<{ url: URL; process: ChildProcess }> {
    const child = spawn(process.execPath, [SERVER, this.lists(name, lists), 'http', String(port)]);
    this.#processes.push(child);
    const line = await new Promise<string>((resolve) => child.stdout.once('data', (data) => resolve(String(data))));
    return { url: new URL(`http://127.0.0.1:${line.trim()}/mcp`), process: child };
  }

  status(name: string): UpstreamStatus {
    return this.upstreams.statuses.find((status) => status.name === name)!;
  }

  async running(...names: string[]): Promise<void> {
    await until(() => names.every((name) => this.status(name).state === 'running'));
  }

  tools(): string[] {
    return this.node.mcp.list('tool', OPERATOR).map(({ fullName }) => fullName);
  }

  call(name: string, args: Record<string, unknown> = {}, options: Partial<CallOptions> = {}): Promise<CallToolResult> {
    return this.node.mcp.callTool(name, args, { caller: OPERATOR, ...options }) as Promise<CallToolResult>;
  }

  /** The first text of a call's result, parsed as JSON. */
  async value(name: string, args: Record<string, unknown> = {}, options: Partial<CallOptions> = {}): Promise<never> {
    const { content } = await this.call(name, args, options);
    return JSON.parse((content[0] as { text: string }).text) as never;
  }

  security(): A2ALogEvent[] {
    return this.events.filter(({ type }) => type === 'security');
  }
}

export async function until(condition: () => boolean, ms = 20_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`it did not come to pass within ${ms} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
