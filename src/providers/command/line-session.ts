import { Deferred } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import { Allowance, readLines } from '../../system/process/lines.js';
import type { ProviderState, ProviderUpdate } from '../adapter/adapter.js';
import type { ProviderErrorCode } from '../adapter/errors.js';
import type { WorkHandle } from '../host/pending-work.js';
import type { ProcessSession } from '../host/watched-process.js';

/** Lines outside the protocol, such as a banner, are skipped up to this number. */
const MAX_SKIPPED = 1_000;

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: EclipticError) => void;
  readonly onUpdate: ((update: ProviderUpdate) => void) | undefined;
}

interface LineWork {
  readonly correlationId: string;
  readonly input: unknown;
  readonly folder?: string | undefined;
}

type Health = Extract<ProgramLine, { type: 'health' }>;

/** A session with one program over the line protocol. */
export class LineSession implements ProcessSession {
  readonly #broken = new Deferred<EclipticError>();
  readonly #name: string;
  readonly #child: Child;
  readonly #allowance: Allowance;
  readonly #work = new Map<number, Pending>();
  readonly #checks = new Map<number, (health: Health) => void>();
  #ready: Ready | undefined;
  readonly #greeted = new Deferred<Extract<ProgramLine, { type: 'ready' }>>();
  #heard: () => void = () => {};
  #unwritten = '';
  #skipped = 0;
  #last = 0;

  private constructor(runtime: Runtime, name: string, child: Child) {
    this.#name = name;
    this.#child = child;
    this.#allowance = new Allowance(runtime);
    void child.inputClosed.then(() => this.#closed('it takes no more input'));
    void this.#read();
  }

  /** Sends `hello`, and resolves when the program has sent `ready`. */
  static async open(runtime: Runtime, child: Child, hello: Omit<Hello, 'protocol'>): Promise<LineSession> {
    const session = new LineSession(runtime, hello.agent, child);
    session.#write({ type: 'hello', protocol: LINE_PROTOCOL, ...hello });
    const answer = await Promise.race([session.#greeted.promise, session.broken]);
    if (answer instanceof EclipticError) throw answer;
    if (answer.protocol !== LINE_PROTOCOL) {
      const message = `${hello.agent} speaks version ${JSON.stringify(answer.protocol)} of the line protocol, not ${LINE_PROTOCOL}`;
      throw new EclipticError('PROVIDER_PROTOCOL_MISMATCH', message, { ours: LINE_PROTOCOL, theirs: answer.protocol });
    }
    session.#ready = answer.ready;
    return session;
  }

  get broken(): Promise<EclipticError> {
    return this.#broken.promise;
  }

  get ready(): Ready {
    return this.#ready ?? { heartbeat: true };
  }

  /** `folder` is the working folder of this work, where it is not the program's own. */
  execute(work: LineWork, onUpdate?: (update: ProviderUpdate) => void): WorkHandle<unknown> {
    const id = ++this.#last;
    const done = new Promise<unknown>((resolve, reject) => {
      this.#work.set(id, { resolve, reject, onUpdate });
    });
    this.#write({ type: 'execute', id, ...work });
    return { done, cancel: () => this.#write({ type: 'cancel', id }) };
  }

  /** Asks the program for its health. A program without heartbeat counts as healthy while it works. */
  health(): Promise<{ state: ProviderState; message?: string }> {
    if (!this.ready.heartbeat && this.#work.size > 0) return Promise.resolve({ state: 'healthy', message: 'at work' });
    const id = ++this.#last;
    return new Promise((resolve) => {
      this.#checks.set(id, resolve);
      this.#write({ type: 'health', id });
    });
  }

  /** Any line from the program is a sign of life: many may come before the answer. */
  ping(): Promise<unknown> {
    const said = new Promise<void>((resolve) => {
      this.#heard = resolve;
    });
    return Promise.race([said, this.health()]);
  }

  /** Messages of one turn of the event loop are written together. */
  #write(message: object): void {
    if (this.#unwritten === '') process.nextTick(() => this.#flush());
    this.#unwritten += `${JSON.stringify(message)}\n`;
  }

  #flush(): void {
    const lines = this.#unwritten;
    this.#unwritten = '';
    // A program that is gone or does not read is detected by its exit or its silence.
    this.#child.write(lines).catch(() => {});
  }

  async #read(): Promise<void> {
    try {
      await readLines(this.#child.stdout, (line) => {
        const said = readLine(line);
        if (!said) this.#skip(line);
        else this.#take(said);
        return this.#allowance.spend(line.length, said?.type === 'result' || said?.type === 'error' ? 0 : 1);
      });
      await this.#closed('it closed its output');
    } catch (error) {
      this.#broken.resolve(
        error instanceof EclipticError && error.code === 'PROVIDER_CRASHED' ? error : this.#fault(error),
      );
    }
  }

  async #closed(what: string): Promise<void> {
    if (await this.#child.runsOn()) this.#broken.resolve(this.#fault(what));
  }

  #take(line: ProgramLine): void {
    this.#heard();
    switch (line.type) {
      case 'ready':
        this.#greeted.resolve(line);
        return;
      case 'health': {
        const answer = this.#checks.get(line.id);
        this.#checks.delete(line.id);
        answer?.(line);
        return;
      }
      case 'progress':
        this.#work.get(line.id)?.onUpdate?.(line.update);
        return;
      default: {
        const pending = this.#work.get(line.id);
        this.#work.delete(line.id);
        if (line.type === 'result') pending?.resolve(line.result);
        else pending?.reject(new EclipticError(line.code, line.message, { provider: this.#name }));
      }
    }
  }

  #skip(line: string): void {
    if (line.trim() !== '' && ++this.#skipped > MAX_SKIPPED) {
      throw this.#fault(`it wrote more than ${MAX_SKIPPED} lines that are not of the line protocol`);
    }
  }

  #fault(reason: unknown): EclipticError {
    const message = `${this.#name} broke the line protocol: ${describeError(reason)}`;
    return new EclipticError('PROVIDER_CRASHED', message, { provider: this.#name, reason: 'protocol' });
  }
}

/**
 * One JSON object per line, in both directions: `docs/line-protocol.md`. Lines of the node begin with `type`, and then
 * `id` where there is one, so that a shell script can tell them apart by their beginning.
 */
const LINE_PROTOCOL = 1;

interface Hello {
  readonly protocol: typeof LINE_PROTOCOL;
  readonly agent: string;
  readonly folder: string;
}

interface Ready {
  readonly name?: string;
  readonly version?: string;
  /** Can the program answer while it works? Default true. */
  readonly heartbeat: boolean;
}

type ProgramLine =
  | { readonly type: 'ready'; readonly protocol: unknown; readonly ready: Ready }
  | { readonly type: 'health'; readonly id: number; readonly state: ProviderState; readonly message?: string }
  | { readonly type: 'progress'; readonly id: number; readonly update: ProviderUpdate }
  | { readonly type: 'result'; readonly id: number; readonly result: unknown }
  | { readonly type: 'error'; readonly id: number; readonly code: ProviderErrorCode; readonly message: string };

/** The error codes of the line protocol. */
const ERROR_CODES: Readonly<Record<string, ProviderErrorCode>> = {
  failed: 'PROVIDER_EXECUTE_FAILED',
  cancelled: 'PROVIDER_CANCELLED',
  'invalid-input': 'PROVIDER_INVALID_INPUT',
  'not-found': 'PROVIDER_TOOL_NOT_FOUND',
  'rate-limited': 'PROVIDER_RATE_LIMITED',
  unavailable: 'PROVIDER_UNAVAILABLE',
  'credential-missing': 'PROVIDER_CREDENTIAL_MISSING',
  'credential-denied': 'PROVIDER_CREDENTIAL_DENIED',
  denied: 'PROVIDER_POLICY_DENIED',
  timeout: 'PROVIDER_TIMEOUT',
};

const KINDS: ReadonlySet<string> = new Set<ProviderUpdate['kind']>([
  ...(['text', 'progress', 'plan', 'tool-call', 'artifact'] as const),
]);
const STATES: ReadonlySet<string> = new Set<ProviderState>(['healthy', 'degraded', 'unavailable']);

/** Undefined for a line outside the protocol. */
function readLine(line: string): ProgramLine | undefined {
  const value = parse(line);
  if (!value) return undefined;
  const { type, id } = value;
  if (type === 'ready') return { type, protocol: value.protocol, ready: readReady(value) };
  if (typeof id !== 'number') return undefined;
  switch (type) {
    case 'result':
      return { type, id, result: value.result ?? null };
    case 'progress':
      return { type, id, update: readUpdate(value) };
    case 'health': {
      const state = STATES.has(value.state as string) ? (value.state as ProviderState) : 'healthy';
      return { type, id, state, ...(typeof value.message === 'string' && { message: value.message }) };
    }
    case 'error': {
      const known = typeof value.code === 'string' && Object.hasOwn(ERROR_CODES, value.code);
      const code = known ? ERROR_CODES[value.code as string]! : 'PROVIDER_EXECUTE_FAILED';
      return { type, id, code, message: textOf(value.message) || 'the program says that it failed' };
    }
  }
  return undefined;
}

function readReady({ name, version, heartbeat }: Fields): Ready {
  return {
    ...(typeof name === 'string' && { name }),
    ...(typeof version === 'string' && { version }),
    heartbeat: heartbeat !== false,
  };
}

function readUpdate({ kind, text, data }: Fields): ProviderUpdate {
  const known = typeof kind === 'string' && KINDS.has(kind) ? (kind as ProviderUpdate['kind']) : 'progress';
  return { kind: known, text: textOf(text), ...(data !== undefined && { data }) };
}

type Fields = Readonly<Record<string, unknown>>;

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function parse(line: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}
