import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { EclipticError } from '../runtime/errors.js';
import { storeFailed, toFault } from './faults.js';
import { SqliteEngine } from './sqlite-engine.js';
import { type Call, decodeCalls, encodeOutcomes, type Request, type Response, type ThreadData } from './wire.js';

/** Limits of one transaction in calls and characters, so that the first call does not wait for too long. */
const MAX_GROUP = 2_048;
const MAX_GROUP_CHARS = 16 * 1_048_576;

if (!parentPort) throw storeFailed('this file is the thread of a store and cannot be started directly');
const port = parentPort;

/** Requests that share a transaction. */
class Group {
  readonly #engine: SqliteEngine;
  #calls: Call[] = [];
  #texts: string[] = [];
  #chars = 0;

  constructor(engine: SqliteEngine) {
    this.#engine = engine;
  }

  add(text: string): void {
    for (const call of decodeCalls(text)) this.#calls.push(call);
    this.#texts.push(text);
    this.#chars += text.length;
    if (this.#calls.length >= MAX_GROUP || this.#chars >= MAX_GROUP_CHARS) this.answer();
  }

  answer(): void {
    if (this.#calls.length === 0) return;
    port.postMessage(encodeOutcomes(this.#engine.run(this.#calls, this.#texts)) satisfies Response);
    this.#calls = [];
    this.#texts = [];
    this.#chars = 0;
  }
}

try {
  const { folder, options } = workerData as ThreadData;
  serve(SqliteEngine.open(folder, options));
} catch (error) {
  const refusal = error instanceof EclipticError ? error : storeFailed('the store cannot be opened', {}, error);
  port.postMessage({ refused: toFault(refusal) } satisfies Response);
}

/** Answers calls: all waiting requests go into one transaction with one sync. */
function serve(engine: SqliteEngine): void {
  let isOpen = true;

  const handle = (first: Request): void => {
    const group = new Group(engine);
    for (let request: Request | undefined = first; request; request = nextRequest()) {
      if (typeof request === 'string') {
        group.add(request);
        continue;
      }
      group.answer();
      engine.close();
      isOpen = false;
      port.postMessage({ closed: true } satisfies Response);
      port.close();
      return;
    }
    group.answer();
    engine.tidy();
  };

  port.postMessage({ opened: true } satisfies Response);
  // The check of a large store goes on in small steps between requests.
  while (isOpen && engine.checkSome()) {
    const request = nextRequest();
    if (request) handle(request);
  }
  if (isOpen) port.on('message', handle);
}

function nextRequest(): Request | undefined {
  return receiveMessageOnPort(port)?.message;
}
