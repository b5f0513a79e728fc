import { Fifo } from '../../runtime/fifo.js';
import type { ReceivedTask } from './received-task.js';
import { SentProposal } from './sent-proposal.js';

/** Finished proposals that are remembered, for whoever asks again. */
const MAX_FINISHED = 100;
const MAX_FINISHED_BYTES = 16 * 1_048_576;

type Entry = SentProposal | ReceivedTask;

/** The proposals that one agent made and got: all that are open, and the latest of those that are over. */
export class ProposalTable {
  readonly #sent = new Map<string, SentProposal>();
  /** By id; those of other proposers with the same id hang on it. */
  readonly #received = new Map<string, ReceivedTask>();
  #openSent = 0;
  #openReceived = 0;
  /** Those that are over, oldest first. */
  readonly #finished = new Fifo<Entry>();
  #finishedBytes = 0;

  get openSent(): number {
    return this.#openSent;
  }

  get openReceived(): number {
    return this.#openReceived;
  }

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

  get open(): readonly Entry[] {
    return [...this.sent, ...this.received].filter(({ over }) => !over);
  }

  sentBy(id: string): SentProposal | undefined {
    return this.#sent.get(id);
  }

  /** Proposers choose the ids: one counts only together with whose it is. */
  receivedFrom(peer: string, id: string): ReceivedTask | undefined {
    let task = this.#received.get(id);
    while (task && task.peer !== peer) task = task.namesake;
    return task;
  }

  /** The latest with that id, whoever's it is. */
  receivedBy(id: string): ReceivedTask | undefined {
    return this.#received.get(id);
  }

  add(entry: Entry): void {
    if (entry instanceof SentProposal) {
      this.#sent.set(entry.id, entry);
      this.#openSent++;
    } else {
      entry.namesake = this.#received.get(entry.id);
      this.#received.set(entry.id, entry);
      this.#openReceived++;
    }
  }

  /** Nothing more happens to it; false when that was so before. */
  close(entry: Entry): boolean {
    if (entry.over) return false;
    entry.over = true;
    if (entry instanceof SentProposal) this.#openSent--;
    else this.#openReceived--;
    this.#finished.push(entry);
    this.#finishedBytes += entry.weight;
    while (this.#finished.length > MAX_FINISHED || this.#finishedBytes > MAX_FINISHED_BYTES) this.#forgetOldest();
    return true;
  }

  #forgetOldest(): void {
    const oldest = this.#finished.shift()!;
    this.#finishedBytes -= oldest.weight;
    if (oldest instanceof SentProposal) this.#sent.delete(oldest.id);
    else this.#forgetReceived(oldest);
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
