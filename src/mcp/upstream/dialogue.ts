import type { Client, InputRequest } from '@modelcontextprotocol/client';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { CallTerms, LogEntry, NeedsInput, Progress } from '../call.js';

interface Talking {
  /** Calls whose server waits for the caller's answer. */
  readonly dialogues: Map<string, Dialogue>;
  readonly onlyCall: CallTerms | undefined;
}

/** How long a caller may take to answer while the server waits. */
const PATIENCE_MS = 10 * 60_000;
const QUESTION = 'question';

/**
 * A call to a 2025-era server, which asks for input in the middle of the call and waits. The caller gets the question
 * as a result, as in 2026, and the call stays open until the caller answers.
 */
export class Dialogue implements CallTerms {
  readonly caller: CallTerms['caller'];
  readonly capabilities: CallTerms['capabilities'];
  readonly answers: CallTerms['answers'] = {};
  readonly state = undefined;
  readonly meta: CallTerms['meta'];
  readonly #abort = new AbortController();
  readonly #id: string;
  readonly #runtime: Runtime;
  readonly #connection: Talking;
  #current: CallTerms;
  #patience: Timer | undefined;
  #answer: ((value: unknown) => void) | undefined;
  #settle!: { resolve: (outcome: unknown) => void; reject: (error: unknown) => void };

  constructor(runtime: Runtime, connection: Talking, terms: CallTerms) {
    this.#runtime = runtime;
    this.#connection = connection;
    this.#id = runtime.id();
    this.#current = terms;
    this.caller = terms.caller;
    this.capabilities = terms.capabilities;
    this.meta = terms.meta;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  onProgress(progress: Progress): void {
    this.#current.onProgress(progress);
  }

  onLog(entry: LogEntry): void {
    this.#current.onLog(entry);
  }

  /** Makes the call; resolves to its result or to the first question. */
  begin(send: (terms: CallTerms) => Promise<unknown>): Promise<unknown> {
    return this.#round(this.#current, () => {
      send(this).then(
        (result) => this.#end(() => this.#settle.resolve(result)),
        (error) => this.#end(() => this.#settle.reject(error)),
      );
    });
  }

  /** Continues with the answer to the last question; resolves to the result or to the next question. */
  static resume(connection: Talking, id: string, terms: CallTerms): Promise<unknown> {
    const dialogue = connection.dialogues.get(id);
    return dialogue ? dialogue.#resume(terms) : Promise.reject(stale());
  }

  #resume(terms: CallTerms): Promise<unknown> {
    const give = this.#answer;
    const answer = terms.answers[QUESTION];
    if (!give || answer === undefined) return Promise.reject(stale());
    this.#answer = undefined;
    this.#patience?.cancel();
    return this.#round(terms, () => give(answer));
  }

  /** Asks the caller on behalf of the server. */
  ask(request: InputRequest): Promise<unknown> {
    if (this.#answer || this.signal.aborted) return Promise.reject(notAskable());
    return new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.signal.addEventListener('abort', () => reject(notAskable()), { once: true });
      this.#connection.dialogues.set(this.#id, this);
      this.#patience = this.#runtime.setTimer(() => this.#abort.abort(notAskable()), PATIENCE_MS);
      const question: NeedsInput = {
        resultType: 'input_required',
        inputRequests: { [QUESTION]: request },
        requestState: this.#id,
      };
      this.#settle.resolve(question);
    });
  }

  /** One round, from the caller's request to its result. The caller can cancel only during a round. */
  async #round(terms: CallTerms, go: () => void): Promise<unknown> {
    this.#current = terms;
    const cancel = () => this.#abort.abort(terms.signal.reason);
    if (terms.signal.aborted) cancel();
    terms.signal.addEventListener('abort', cancel);
    try {
      return await new Promise((resolve, reject) => {
        this.#settle = { resolve, reject };
        go();
      });
    } finally {
      terms.signal.removeEventListener('abort', cancel);
    }
  }

  #end(settle: () => void): void {
    this.#patience?.cancel();
    this.#connection.dialogues.delete(this.#id);
    settle();
  }
}

/** Lets a server ask the caller of the only open call; with several, the question cannot be attributed. */
export function answerQuestions(connection: Talking, client: Client): void {
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    const call = connection.onlyCall;
    if (!(call instanceof Dialogue) || !call.capabilities.elicitation) throw notAskable();
    return (await call.ask({ method: 'elicitation/create', params })) as never;
  });
}

function notAskable(): EclipticError {
  return new EclipticError('CAPABILITY_REQUIRED', 'the caller cannot be asked for input');
}

function stale(): EclipticError {
  return new EclipticError('INVALID_REQUEST_STATE', 'the server no longer waits for that answer; start the call again');
}
