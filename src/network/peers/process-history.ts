const MAX_PROCESSES = 8;
/** Links of a crashed process that may still be greeted after its successor's. */
const MAX_LATE_LINKS = 2;

/**
 * The processes of one node that were met, the latest last. A process that comes back after another took its place had not
 * ended: two run with one key. Links that a crashed process was opening may still be greeted afterwards, so one return
 * proves nothing.
 */
export class ProcessHistory {
  readonly #met: { readonly id: string; readonly returns: number }[] = [];

  /** Notes a process. Has it come back after another, and certainly so? */
  note(id: string): { readonly cameBack: boolean; readonly isCertain: boolean } {
    const latest = this.#met.at(-1);
    if (latest?.id === id) return { cameBack: latest.returns > 0, isCertain: false };
    const at = this.#met.findIndex((one) => one.id === id);
    const returns = at < 0 ? 0 : this.#met.splice(at, 1)[0]!.returns + 1;
    this.#met.push({ id, returns });
    if (this.#met.length > MAX_PROCESSES) this.#met.shift();
    return { cameBack: returns > 0, isCertain: returns > MAX_LATE_LINKS };
  }
}
