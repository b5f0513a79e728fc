import { Fifo } from '../../runtime/fifo.js';
import type { ProposalSide } from './proposal-side.js';
import { ReceivedTask } from './received-task.js';
import type { SentProposal } from './sent-proposal.js';

/** Finished proposals that are remembered, to answer repeated messages about them. */
const MAX_FINISHED = 100;
const MAX_FINISHED_BYTES = 16 * 1_048_576;

/** The proposals that one agent made and got: all that are open, and the latest of those that are over. */
export class ProposalTable {
  openSent = 0;
  openReceived = 0;
  readonly #sent = new Map<string, SentProposal>();
  /** By id; proposals of other proposers with the same id are linked to it. */
  readonly #received = new Map<string, ReceivedTask>();
  /** The oldest first. */
  readonly #finished = new Fifo<ProposalSide>();
  #finishedBytes = 0;

  get sent(): readonly SentProposal[] {
    return [...this.#sent.values()];
  }

  get received(): readonly ReceivedTask[] {
    const found: ReceivedTask[] = [];
    for (const first of this.#received.values()) {
      for (let task: ReceivedTask | undefined = first; task; task = task.namesake) found.push(task);
    }
    return found;
  }

  get open(): readonly (SentProposal | ReceivedTask)[] {
    return [...this.sent, ...this.received].filter(({ over }) => !over);
  }

  sentBy(id: string): SentProposal | undefined {
    return this.#sent.get(id);
  }

  /** Proposers choose the ids, so an id counts only together with its proposer. */
  receivedFrom(peer: string, id: string): ReceivedTask | undefined {
    let task = this.#received.get(id);
    while (task && task.peer !== peer) task = task.namesake;
    return task;
  }

  /** The latest with that id, of any proposer. */
  receivedBy(id: string): ReceivedTask | undefined {
    return this.#received.get(id);
  }

  add(entry: SentProposal | ReceivedTask): void {
    if (entry.side === 'sent') {
      this.#sent.set(entry.id, entry);
      this.openSent++;
    } else {
      entry.namesake = this.#received.get(entry.id);
      this.#received.set(entry.id, entry);
      this.openReceived++;
    }
  }

  /** False if it was closed before. */
  close(entry: ProposalSide): boolean {
    if (entry.over) return false;
    entry.over = true;
    if (entry.side === 'sent') this.openSent--;
    else this.openReceived--;
    this.#finished.push(entry);
    this.#finishedBytes += entry.weight;
    while (this.#finished.length > MAX_FINISHED || this.#finishedBytes > MAX_FINISHED_BYTES) this.#forgetOldest();
    return true;
  }

  #forgetOldest(): void {
    const oldest = this.#finished.shift()!;
    this.#finishedBytes -= oldest.weight;
    if (oldest instanceof ReceivedTask) this.#forgetReceived(oldest);
    else this.#sent.delete(oldest.id);
  }

  #forgetReceived(task: ReceivedTask): void {
    const first = this.#received.get(task.id)!;
    if (first !== task) {
      let before = first;
      while (before.namesake !== task) before = before.namesake!;
      before.namesake = task.namesake;
    } else if (task.namesake) this.#received.set(task.id, task.namesake);
    else this.#received.delete(task.id);
  }
}
