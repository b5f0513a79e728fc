import { isThenable } from '../runtime/callbacks.js';

export interface EventStreamInit<R, E, S> {
  capacity: number;
  /** Expands a compact record into its events. Called only for listeners and for `recent`. */
  expand: (record: R, code: number, sample: S | undefined) => readonly E[];
  /** Called when a listener fails at an event; `again` if it has failed before. */
  onListenerFailed: (error: unknown, event: E, again: boolean) => void;
}

/**
 * The event stream for logs, audit and views. Producers append compact records, which are expanded into events only for
 * listeners and for `recent`, so a stream without listeners costs one store.
 */
export class EventStream<R, E, S = undefined> {
  readonly #expand: EventStreamInit<R, E, S>['expand'];
  readonly #onListenerFailed: EventStreamInit<R, E, S>['onListenerFailed'];
  readonly #ring: R[] = [];
  /** Of the record in the same place: a small number and an object that many records share. */
  readonly #codes: Uint8Array;
  readonly #samples: (S | undefined)[] = [];
  readonly #capacity: number;
  /** Replaced at every change, so that a round of calls uses the listeners that it began with. */
  #listeners: readonly Listener<R, E>[] = [];
  #next = 0;
  #unfiltered = 0;

  constructor(init: EventStreamInit<R, E, S>) {
    this.#capacity = init.capacity;
    this.#codes = new Uint8Array(init.capacity);
    this.#expand = init.expand;
    this.#onListenerFailed = init.onListenerFailed;
  }

  append(record: R): void {
    this.remember(record);
    if (this.#listeners.length > 0) this.#tell(record);
  }

  /**
   * Remembers a record without passing it to listeners. Code and sample are kept beside it, so that an object that exists
   * anyway can be the record.
   */
  remember(record: R, code = 0, sample?: S): void {
    if (this.#capacity === 0) return;
    const next = this.#next;
    this.#ring[next] = record;
    this.#codes[next] = code;
    this.#samples[next] = sample;
    this.#next = next + 1 === this.#capacity ? 0 : next + 1;
  }

  get hasListeners(): boolean {
    return this.#listeners.length > 0;
  }

  get hasUnfilteredListeners(): boolean {
    return this.#unfiltered > 0;
  }

  recent(limit = Number.POSITIVE_INFINITY): E[] {
    const events: E[][] = [];
    let count = 0;
    for (let back = 1; back <= this.#ring.length && count < limit; back++) {
      const at = (this.#next - back + this.#ring.length) % this.#ring.length;
      const expanded = this.#expand(this.#ring[at]!, this.#codes[at]!, this.#samples[at]);
      events.push([...expanded]);
      count += expanded.length;
    }
    const flat = events.reverse().flat();
    return flat.slice(Math.max(0, flat.length - limit));
  }

  /** With `wants`, other records are not expanded for this listener. */
  subscribe(listener: (event: E, record: R) => void, wants?: (record: R) => boolean): () => void {
    const own: Listener<R, E> = { listener, wants, failed: false, active: true };
    this.#listeners = [...this.#listeners, own];
    if (!wants) this.#unfiltered++;
    return () => {
      if (own.active && !wants) this.#unfiltered--;
      own.active = false;
      this.#listeners = this.#listeners.filter((other) => other !== own);
    };
  }

  #tell(record: R): void {
    const listeners = this.#listeners;
    let isWanted = false;
    for (const { wants } of listeners) isWanted ||= !wants || wants(record);
    if (!isWanted) return;
    for (const event of this.#expand(record, 0, undefined)) {
      for (const own of listeners) {
        // An earlier listener may have removed this one.
        if (own.active && (!own.wants || own.wants(record))) this.#call(own, event, record);
      }
    }
  }

  /** As `callGuarded`, without a closure for each call. */
  #call(own: Listener<R, E>, event: E, record: R): void {
    try {
      const returned: unknown = own.listener(event, record);
      if (isThenable(returned)) Promise.resolve(returned).then(undefined, (error) => this.#failed(own, event, error));
    } catch (error) {
      this.#failed(own, event, error);
    }
  }

  #failed(own: Listener<R, E>, event: E, error: unknown): void {
    this.#onListenerFailed(error, event, own.failed);
    own.failed = true;
  }
}

interface Listener<R, E> {
  readonly listener: (event: E, record: R) => void;
  readonly wants: ((record: R) => boolean) | undefined;
  failed: boolean;
  active: boolean;
}
