import type { Emit } from './swarm-effects.js';
import type { Finding, Work } from './swarm-wire.js';

interface Found {
  readonly subTask: string;
  readonly finding: Finding;
}

/** What one member works on, and what it found and is not sure that it is settled. */
export class SwarmWorker {
  readonly #emit: Emit;
  readonly #running = new Map<number, string>();
  readonly #findings: Map<number, Found>;

  constructor(emit: Emit, findings: ReadonlyMap<number, Found> = new Map()) {
    this.#emit = emit;
    this.#findings = new Map(findings);
  }

  get leases(): number[] {
    return [...this.#running.keys(), ...this.#findings.keys()];
  }

  has(lease: number): boolean {
    return this.#running.has(lease) || this.#findings.has(lease);
  }

  begin(lease: number, work: Work): void {
    if (this.has(lease)) return;
    this.#running.set(lease, work.subTask);
    this.#emit({ type: 'run', lease, work });
  }

  /** The work on a lease is done. It is kept until somebody says that it is settled, across restarts. */
  worked(lease: number, finding: Finding, arbiter: string | undefined): void {
    const subTask = this.#running.get(lease);
    if (subTask === undefined) return;
    this.#running.delete(lease);
    this.#findings.set(lease, { subTask, finding });
    this.#emit({ type: 'keep-finding', lease, subTask, finding });
    if (arbiter !== undefined)
      this.#emit({ type: 'send', to: arbiter, message: { type: 'found', lease, subTask, finding } });
  }

  /** The arbiter says what this member holds: the rest is over. What it may not have heard of it hears again. */
  comply(arbiter: string, settled: number, holds: readonly number[]): void {
    for (const lease of this.#running.keys()) {
      if (lease > settled || holds.includes(lease)) continue;
      this.#running.delete(lease);
      this.#emit({ type: 'stop', lease, reason: 'the sub-task was given to another' });
    }
    for (const [lease, { subTask, finding }] of this.#findings)
      this.#emit({ type: 'send', to: arbiter, message: { type: 'found', lease, subTask, finding } });
  }

  letGo(leases: readonly number[]): void {
    for (const lease of leases) if (this.#findings.delete(lease)) this.#emit({ type: 'drop-finding', lease });
  }

  end(): void {
    for (const lease of this.#running.keys()) this.#emit({ type: 'stop', lease, reason: 'the swarm has ended' });
    this.#running.clear();
    this.letGo([...this.#findings.keys()]);
  }
}
