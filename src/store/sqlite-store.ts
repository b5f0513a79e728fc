import { Worker } from 'node:worker_threads';
import { describeError, type EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import { fromFault, storeClosed, storeFailed } from './faults.js';
import { toChange, toSelection } from './plan.js';
import { SHAPES, toRow } from './shapes.js';
import type { Figures, Query, Store, Write } from './store.js';
import type { LogName, TableName, Tables, Value } from './tables.js';
import {
  type Call,
  type Counters,
  type Damage,
  decodeOutcomes,
  type EngineOptions,
  encodeCalls,
  type Request,
  type Response,
  type ThreadData,
} from './wire.js';

/** Characters that go to the thread in one message; V8 limits a text to 512 Mi. */
const MAX_CHARS = 16 * 1_048_576;
/** Of one transaction, which cannot be divided. */
const MAX_CALL_CHARS = 128 * 1_048_576;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: EclipticError) => void;
}

const running = new Set<SqliteStore>();

/**
 * Ends every store's thread. A process that exits while a thread is inside SQLite is aborted by the native code, so call
 * this before exiting early.
 */
export async function endStores(): Promise<void> {
  await Promise.all([...running].map((store) => store.close()));
}

/**
 * A store in `store.db` of a data folder, with exclusive use. SQLite runs in a thread, so a sync to disk does not block the
 * event loop; the calls of one turn of the event loop are sent in one message.
 */
export class SqliteStore implements Store {
  readonly #worker: Worker;
  readonly #waiting = new Fifo<Waiting>();
  #calls: Call[] = [];
  /** Set when no more calls are accepted. */
  #end: EclipticError | undefined;
  #closing: Promise<void> | undefined;
  readonly #exited: Promise<void>;

  private constructor(worker: Worker) {
    this.#worker = worker;
    running.add(this);
    this.#exited = new Promise((resolve) => {
      worker.on('error', (error) =>
        this.#fail(storeFailed(`the store's thread failed: ${describeError(error)}`, {}, error)),
      );
      worker.on('messageerror', (error) => this.#fail(storeFailed('an answer of the store was lost', {}, error)));
      worker.on('exit', () => {
        this.#fail(storeFailed("the store's thread has ended"));
        running.delete(this);
        resolve();
      });
    });
  }

  static async open(folder: string, options: EngineOptions = {}): Promise<SqliteStore> {
    const store = new SqliteStore(startWorker({ folder, options }));
    await new Promise<unknown>((resolve, reject) => {
      store.#waiting.push({ resolve, reject });
      store.#worker.on('message', (response: Response) => store.#receive(response));
    }).catch(async (error) => {
      await store.#exited;
      throw error;
    });
    return store;
  }

  async write(writes: readonly Write[]): Promise<void> {
    await this.#ask({ kind: 'write', changes: writes.map(toChange) });
  }

  async read<Name extends TableName>(query: Query<Name>): Promise<Tables[Name][]> {
    const rows = await this.#ask({ kind: 'read', selection: toSelection(query) });
    return (rows as Value[][]).map((values) => toRow<Tables[Name]>(SHAPES[query.from], values));
  }

  async count<Name extends TableName>(query: Omit<Query<Name>, 'orderBy' | 'descending' | 'limit'>): Promise<number> {
    return (await this.#ask({ kind: 'count', selection: toSelection(query as Query<Name>) })) as number;
  }

  async figures(log: LogName): Promise<Figures> {
    return (await this.#ask({ kind: 'figures', log })) as Figures;
  }

  /** Checks all data. Slow, and other calls wait for it. */
  async integrity(): Promise<Damage[]> {
    return (await this.#ask({ kind: 'integrity' })) as Damage[];
  }

  async counters(): Promise<Counters> {
    return (await this.#ask({ kind: 'counters' })) as Counters;
  }

  close(): Promise<void> {
    if (!this.#closing) {
      this.#flush();
      this.#end ??= storeClosed();
      this.#worker.ref();
      this.#worker.postMessage({ close: true } satisfies Request);
      this.#closing = this.#exited;
    }
    return this.#closing;
  }

  #ask(call: Call): Promise<unknown> {
    if (this.#end) return Promise.reject(this.#end);
    if (textOf(call) > MAX_CALL_CHARS) {
      return Promise.reject(storeFailed(`the store takes at most ${MAX_CALL_CHARS} characters in one transaction`));
    }
    return new Promise((resolve, reject) => {
      // The thread keeps the process alive only while calls are pending.
      if (this.#waiting.length === 0) this.#worker.ref();
      this.#waiting.push({ resolve, reject });
      if (this.#calls.push(call) === 1) queueMicrotask(() => this.#flush());
    });
  }

  #flush(): void {
    const calls = this.#calls;
    this.#calls = [];
    for (let start = 0, end = 0, chars = 0; end < calls.length; ) {
      chars += textOf(calls[end++]!);
      if (end < calls.length && chars < MAX_CHARS) continue;
      this.#worker.postMessage(encodeCalls(start === 0 && end === calls.length ? calls : calls.slice(start, end)));
      [start, chars] = [end, 0];
    }
  }

  #receive(response: Response): void {
    if (typeof response === 'string') {
      for (const outcome of decodeOutcomes(response)) {
        const { resolve, reject } = this.#waiting.shift()!;
        if ('error' in outcome) reject(outcome.error);
        else resolve(outcome.value);
      }
    } else if ('opened' in response) {
      this.#waiting.shift()!.resolve(undefined);
    } else {
      // The thread is about to end; the process must stay alive until then.
      if ('refused' in response) this.#waiting.shift()!.reject(fromFault(response.refused));
      return;
    }
    if (this.#waiting.length === 0 && !this.#closing) this.#worker.unref();
  }

  /** Fails all calls: the thread has ended. */
  #fail(error: EclipticError): void {
    this.#end ??= error;
    this.#calls = [];
    for (let waiting = this.#waiting.shift(); waiting; waiting = this.#waiting.shift()) waiting.reject(error);
  }
}

/**
 * The compiled thread is the `.js` file beside this one; from source, as in tests, it starts through a small helper. It
 * does not inherit the options of the process: some, such as those of `node -e`, do not apply to a thread.
 */
function startWorker(workerData: ThreadData): Worker {
  const file = /\.ts$/.test(import.meta.url)
    ? new URL('./sqlite-worker-from-source.mjs', import.meta.url)
    : new URL('./sqlite-worker.js', import.meta.url);
  return new Worker(file, { workerData, execArgv: [] });
}

/** The characters of the texts that a call writes. */
function textOf(call: Call): number {
  if (call.kind !== 'write') return 0;
  let chars = 0;
  for (const change of call.changes) {
    if (!('values' in change)) continue;
    for (const value of change.values) if (typeof value === 'string') chars += value.length;
  }
  return chars;
}
