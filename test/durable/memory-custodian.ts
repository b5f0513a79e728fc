import type { Custody, MailRelay, RelayListener, SealedBatch } from '../../src/mail/relay.js';
import type { Runtime } from '../../src/runtime/runtime.js';

interface Kept {
  readonly position: number;
  readonly to: string;
  readonly from: string;
  readonly id: string;
  readonly body: string;
}

/** A custodian on the virtual clock, which can be out of reach, lose acknowledgements and lose batches. */
export class MemoryCustodian {
  readonly #random: () => number;
  #kept: Kept[] = [];
  #last = 0;
  down = false;
  /** The share of publishes whose acknowledgement is lost, and that of batches that vanish. */
  faults = { unacknowledged: 0, lost: 0 };
  stored = 0;
  lost = 0;
  readonly relays = new Set<MemoryRelay>();

  constructor(random: () => number) {
    this.#random = random;
  }

  relay(runtime: Runtime, key: string): MailRelay {
    return new MemoryRelay(this, runtime, key);
  }

  get last(): number {
    return this.#last;
  }

  store(from: string, { node: to, id, bytes }: SealedBatch, replace: boolean): number | undefined {
    const known = this.#kept.find((batch) => batch.id === id);
    if (!known) {
      if (replace) this.#kept = this.#kept.filter((batch) => batch.to !== to || batch.from !== from);
      const position = ++this.#last;
      this.stored++;
      if (this.#random() >= this.faults.lost) {
        this.#kept.push({ position, to, from, id, body: Buffer.from(bytes).toString() });
      } else this.lost++;
      for (const relay of this.relays) relay.wake();
    }
    return this.#random() < this.faults.unacknowledged ? undefined : (known?.position ?? this.#last);
  }

  next(to: string, after: number): Kept | undefined {
    return this.#kept.find((batch) => batch.to === to && batch.position > after);
  }
}

class MemoryRelay implements MailRelay {
  readonly maxBytes = 1_000_000;
  readonly maxBatches = 50;
  readonly #custodian: MemoryCustodian;
  readonly #runtime: Runtime;
  readonly #key: string;
  #listener: RelayListener | undefined;
  #reader = 0;
  #sealed = 0;
  #wake: (() => void) | undefined;
  #stopped = false;

  constructor(custodian: MemoryCustodian, runtime: Runtime, key: string) {
    this.#custodian = custodian;
    this.#runtime = runtime;
    this.#key = key;
    custodian.relays.add(this);
  }

  start(listener: RelayListener): void {
    this.#listener = listener;
    void this.#open();
  }

  wake(): void {
    this.#wake?.();
  }

  read(after: number): void {
    this.#wake?.();
    void this.#read(++this.#reader, after);
  }

  seal(node: string, body: string): SealedBatch {
    return { node, id: `${this.#runtime.id()} ${++this.#sealed}`, bytes: Buffer.from(body) };
  }

  async publish(batch: SealedBatch, { replace }: { replace: boolean }): Promise<Custody> {
    await this.#pause(5);
    const position = this.#custodian.down ? undefined : this.#custodian.store(this.#key, batch, replace);
    await this.#pause(5);
    if (position === undefined) throw new Error('no acknowledgement');
    return { custodian: 'memory', position };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#custodian.relays.delete(this);
    this.#wake?.();
  }

  async #open(): Promise<void> {
    await this.#pause(20);
    if (this.#stopped) return;
    this.read(await this.#listener!.opened({ id: 1, last: this.#custodian.last }));
  }

  async #read(reader: number, after: number): Promise<void> {
    for (let at = after; reader === this.#reader && !this.#stopped; ) {
      const batch = this.#custodian.down ? undefined : this.#custodian.next(this.#key, at);
      if (!batch) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
          this.#runtime.setTimer(resolve, 1_000);
        });
        await this.#pause(3);
        continue;
      }
      at = batch.position;
      await this.#listener!.take({ node: batch.from, position: batch.position, body: batch.body });
      await this.#pause(1);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#runtime.setTimer(resolve, ms));
  }
}
