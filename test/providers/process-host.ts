import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Agent } from '../../src/agent/agent.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { Config } from '../../src/node/config/schema.js';
import { ControlClient } from '../../src/node/control/client.js';
import { Host } from '../../src/node/host.js';
import type { Runtime } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { until } from './processes.js';

const PROGRAM = fileURLToPath(new URL('program.mjs', import.meta.url));
const ACP_AGENT = fileURLToPath(new URL('acp-agent.mjs', import.meta.url));

export const program = (...args: string[]) => ({ command: process.execPath, args: [PROGRAM, ...args] });
export const acpAgent = (...args: string[]) => ({ command: process.execPath, args: [ACP_AGENT, ...args] });

/** A node as a program, with agents that are programs. */
export class ProcessHost {
  readonly folder: string;
  readonly host: Host;
  readonly control: ControlClient;
  readonly events: A2ALogEvent[] = [];

  private constructor(folder: string, host: Host, control: ControlClient) {
    this.folder = folder;
    this.host = host;
    this.control = control;
    host.node.observability.subscribe((event) => this.events.push(event));
  }

  static async start(
    agents: Config['agents'],
    more: Partial<Config> = {},
    runtime: Runtime = systemRuntime(),
    folder = mkdtempSync(join(tmpdir(), 'ecliptic-processes-')),
  ): Promise<ProcessHost> {
    const config: Config = { roster: false, network: { dht: false }, agents: { sun: { tier: 0 }, ...agents }, ...more };
    const loaded = { config, file: undefined, folder };
    const dataFolder = join(folder, 'data');
    const host = await Host.start({ runtime, loaded, dataFolder, env: {}, http: { port: 0 } });
    return new ProcessHost(folder, host, await ControlClient.connect(host.control));
  }

  get sun(): Agent {
    return this.host.node.agentById('sun');
  }

  lane(id: string): string {
    return join(this.folder, 'data', 'lanes', id);
  }

  /** Until their programs are ready. */
  async ready(...ids: string[]): Promise<void> {
    const states = () => new Map(this.host.node.providers.list().map(({ id, phase }) => [id, phase]));
    await until(() => ids.every((id) => states().get(id) === 'ready'));
  }

  async stop(): Promise<void> {
    this.control.close();
    await this.host.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
