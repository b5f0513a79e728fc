import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { A2AObservability } from '../../src/mesh/observability.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { ProviderAdapter } from '../../src/providers/adapter/adapter.js';
import { ProviderEvents } from '../../src/providers/adapter/events.js';
import { CommandAdapter } from '../../src/providers/command/command-adapter.js';
import { type LaneRow, Lanes } from '../../src/providers/host/lanes.js';
import type { ProcessConfig } from '../../src/providers/host/process-adapter.js';
import { ProviderRegistry } from '../../src/providers/registry/registry.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Children } from '../../src/system/process/children.js';
import { MemoryWatch } from '../../src/system/process/memory-watch.js';
import { openFiles, processesWith, until } from './processes.js';

const PROGRAM = fileURLToPath(new URL('program.mjs', import.meta.url));
const runtime = systemRuntime();
const credentials = { resolve: () => Promise.reject(new Error('there are none')) };

/** Duration of one work item of the other lane, items in progress at once, and items in each phase. */
export interface Load {
  readonly workMs: number;
  readonly streams: number;
  readonly each: number;
}

/** Two providers in two lanes, real processes both: one to be harmed, one that must not notice. */
export class TwoLanes {
  readonly providers: ProviderRegistry;
  readonly events: A2ALogEvent[] = [];
  readonly baseline: number[] = [];
  readonly meanwhile: number[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'ecliptic-chaos-'));
  readonly #adapters = new Map<string, CommandAdapter>();
  readonly #filesBefore = openFiles();
  readonly #load: Load;
  #children!: Children;
  #lanes!: Lanes;
  #count = 0;

  private constructor(load: Load) {
    this.#load = load;
    const observability = new A2AObservability();
    observability.subscribe((event) => this.events.push(event));
    this.providers = new ProviderRegistry({ runtime, events: new ProviderEvents(runtime, observability) });
  }

  static async start(load: Load, harmed: Partial<ProcessConfig> = {}): Promise<TwoLanes> {
    const two = new TwoLanes(load);
    two.#children = await Children.open(runtime, { folder: join(two.#folder, 'children') });
    two.#lanes = new Lanes(join(two.#folder, 'lanes'));
    await two.#register('a', 'lane-1', {
      limits: { heartbeatMs: 100, memoryMb: 250 },
      restart: { firstDelayMs: 1, maxDelayMs: 5, maxCrashes: Number.POSITIVE_INFINITY },
      ...harmed,
    });
    await two.#register('b', 'lane-2', {});
    // The first checks of both are over.
    await until(() => ['a', 'b'].every((id) => two.providers.get(id).state === 'healthy'));
    return two;
  }

  get a(): CommandAdapter {
    return this.#adapters.get('a')!;
  }

  lane(id: string): LaneRow {
    return this.#lanes.rows.find(({ lane }) => lane === id)!;
  }

  /** Is the harmed one back? */
  async recovered(): Promise<void> {
    await until(() => this.lane('lane-1').providers[0]?.state === 'running');
  }

  /** Gives lane A harmful work; resolves with its outcome. */
  harm(input: object, onUpdate?: (update: { data?: unknown }) => void): Promise<unknown> {
    const route = { type: 'command', capabilities: ['a'] };
    const terms = onUpdate ? { onUpdate } : {};
    return this.providers.execute(route, input, `a-${++this.#count}`, terms).catch((error: unknown) => error);
  }

  /** Has lane B work, with the right results, and notes how long each piece took. */
  async work(times: number[]): Promise<void> {
    const { workMs, streams, each } = this.#load;
    const stream = async () => {
      for (let n = 0; n < each; n++) {
        const value = ++this.#count;
        const began = performance.now();
        const input = { do: 'after', ms: workMs, value };
        const result = await this.providers.execute({ type: 'command', capabilities: ['b'] }, input, `b-${value}`);
        if (result !== value) throw new Error(`lane B answered ${result} instead of ${value}`);
        times.push(performance.now() - began);
      }
    };
    await Promise.all(Array.from({ length: streams }, stream));
  }

  /** The health events of lane B since its first check. */
  troubles(): A2ALogEvent[] {
    return this.events.filter(({ provider, topic }) => provider === 'b' && topic === 'provider.health.changed');
  }

  /** Stops everything, and returns the processes that are left. */
  async end(): Promise<{ orphans: number[]; files: number }> {
    await this.providers.close();
    await this.#lanes.closeAll();
    await this.#children.close();
    const orphans = processesWith(this.#folder);
    rmSync(this.#folder, { recursive: true, force: true });
    return { orphans, files: openFiles() - this.#filesBefore };
  }

  async #register(id: string, lane: string, more: Partial<ProcessConfig>): Promise<void> {
    const memory = new MemoryWatch(runtime, 50);
    const parts = { runtime, children: this.#children, memory, credentials, lane: this.#lanes.open(lane) };
    const adapter = new CommandAdapter(id, parts, 'default');
    this.#adapters.set(id, adapter);
    const config: ProcessConfig = { command: process.execPath, args: [PROGRAM], ...more };
    const about = { workspaceId: 'default', concurrencyLimit: 100, capabilities: [id], laneId: lane };
    await this.providers.register({ id, type: 'command', config, ...about }, adapter as ProviderAdapter);
  }
}

export function p99(times: readonly number[]): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0;
}
