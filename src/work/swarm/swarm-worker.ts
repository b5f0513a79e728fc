import type { Usage } from '../usage.js';
import type { Emit, Finding, Found, Work } from './swarm-messages.js';

/** One member's running work, and its findings that are not known to be settled. */
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

  /** The work on a lease is done. Its finding stays on disk until the arbiter says that it is settled. */
  worked(lease: number, finding: Finding, usage: Usage | undefined, arbiter: string | undefined): void {
    const subTask = this.#running.get(lease);
    if (subTask === undefined) return;
    this.#running.delete(lease);
    const found: Found = { subTask, finding, ...(usage && { usage }) };
    this.#findings.set(lease, found);
    this.#emit({ type: 'keep-finding', lease, found });
    if (arbiter !== undefined) this.#report(arbiter, lease, found);
  }

  /** The arbiter lists this member's leases: other work is over. Findings are sent again. */
  comply(arbiter: string, settled: number, holds: readonly number[]): void {
    for (const lease of this.#running.keys()) {
      if (lease > settled || holds.includes(lease)) continue;
      this.#running.delete(lease);
      this.#emit({ type: 'stop', lease, reason: 'the sub-task was given to another' });
    }
    for (const [lease, found] of this.#findings) this.#report(arbiter, lease, found);
  }

  #report(arbiter: string, lease: number, found: Found): void {
    this.#emit({ type: 'send', to: arbiter, message: { type: 'found', lease, ...found } });
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
