import { untilAborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { PromptRequest, StopReason } from './sdk.js';
import type { AcpAnswer, Turn } from './turn.js';

/** Memory that an agent's processes use (unknown on some systems), and their limit. */
export interface MemoryUse {
  readonly usedBytes: number | undefined;
  readonly limitBytes: number;
}

interface SessionPoolInit {
  readonly agent: string;
  readonly open: () => Promise<Conversation>;
  readonly close: (conversation: Conversation) => void;
  readonly memory: () => MemoryUse;
}

/** A session of Claude was measured at 190 MB. */
const SESSION_BYTES = 256 * 1_048_576;
const MAX_SESSIONS = 16;
/** Prompts that may wait for a session, and in each session for their turn. */
const MAX_WAITING = 100;

interface Session {
  readonly opening: Promise<Conversation>;
  /** Prompts that run or wait in it. */
  users: number;
}

interface Waiting {
  readonly key: string;
  readonly go: (session: Session) => void;
}

/**
 * The sessions of one agent process, one per conversation. Idle sessions are closed, least recently used first, when the
 * pool is full or the agent uses half of its memory; a prompt waits while every session is busy.
 */
export class SessionPool {
  readonly #init: SessionPoolInit;
  /** Least recently used first. */
  readonly #byKey = new Map<string, Session>();
  /** Opened by a health check, for the next conversation. */
  #spare: Session | undefined;
  readonly #waiting = new Set<Waiting>();

  constructor(init: SessionPoolInit) {
    this.#init = init;
  }

  get size(): number {
    return this.#byKey.size + (this.#spare ? 1 : 0);
  }

  /** Opens a session for the next conversation where none is open; rejects where the agent opens none. */
  async prepare(): Promise<void> {
    if (this.size === 0) this.#spare = this.#open();
    await this.#spare?.opening;
  }

  /** Does work in the session of a conversation. Rejects at once where the signal aborts before the work begins. */
  async use<T>(key: string, signal: AbortSignal, work: (conversation: Conversation) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const session = (this.#waiting.size === 0 && this.#claim(key)) || (await this.#wait(key, signal));
    try {
      return await work(await untilAborted(session.opening, signal));
    } finally {
      session.users--;
      this.#release();
    }
  }

  /** Undefined where every session is busy with other conversations. */
  #claim(key: string): Session | undefined {
    const session = this.#byKey.get(key) ?? (this.#makeRoom() ? this.#take() : undefined);
    if (!session) return undefined;
    session.users++;
    this.#byKey.delete(key);
    this.#byKey.set(key, session);
    return session;
  }

  #take(): Session {
    const session = this.#spare ?? this.#open();
    this.#spare = undefined;
    return session;
  }

  #open(): Session {
    const session: Session = { opening: this.#init.open(), users: 0 };
    session.opening.catch(() => this.#forget(session));
    return session;
  }

  #forget(session: Session): void {
    if (this.#spare === session) this.#spare = undefined;
    for (const [key, one] of this.#byKey) if (one === session) this.#byKey.delete(key);
  }

  /** Closes idle sessions where there is no room for one more; false where none is idle. */
  #makeRoom(): boolean {
    if (this.#spare) return true;
    const { usedBytes = 0, limitBytes } = this.#init.memory();
    const most = Math.min(MAX_SESSIONS, Math.max(1, Math.floor(limitBytes / SESSION_BYTES)));
    const share = usedBytes / (this.size + 1);
    let excessBytes = usedBytes - limitBytes / 2;
    while ((this.size >= most || excessBytes > 0) && this.#closeIdle()) excessBytes -= share;
    return this.size < most;
  }

  #closeIdle(): boolean {
    for (const [key, { opening, users }] of this.#byKey) {
      if (users > 0) continue;
      this.#byKey.delete(key);
      opening.then(this.#init.close, () => {});
      return true;
    }
    return false;
  }

  #wait(key: string, signal: AbortSignal): Promise<Session> {
    if (this.#waiting.size >= MAX_WAITING) {
      const message = `${MAX_WAITING} prompts wait for a session of ${this.#init.agent} already`;
      return Promise.reject(new EclipticError('QUEUE_FULL', message, { limit: MAX_WAITING }));
    }
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting.delete(waiting);
        reject(signal.reason);
      };
      const waiting: Waiting = {
        key,
        go: (session) => {
          signal.removeEventListener('abort', abort);
          resolve(session);
        },
      };
      this.#waiting.add(waiting);
      signal.addEventListener('abort', abort);
    });
  }

  /** Longest wait first. */
  #release(): void {
    for (const waiting of this.#waiting) {
      const session = this.#claim(waiting.key);
      if (!session) return;
      this.#waiting.delete(waiting);
      waiting.go(session);
    }
  }
}

interface ConversationInit {
  readonly sessionId: string;
  readonly prompt: (prompt: PromptRequest['prompt'], turn: Turn) => Promise<StopReason>;
  readonly cancel: () => void;
}

/** One session of an agent: one turn at a time, in the order of the prompts. */
export class Conversation {
  readonly #init: ConversationInit;
  #turn: Turn | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(init: ConversationInit) {
    this.#init = init;
  }

  get sessionId(): string {
    return this.#init.sessionId;
  }

  get turn(): Turn | undefined {
    return this.#turn;
  }

  take(prompt: PromptRequest['prompt'], turn: Turn): Promise<AcpAnswer> {
    if (this.#waiting >= MAX_WAITING) {
      return Promise.reject(new EclipticError('QUEUE_FULL', `${MAX_WAITING} prompts wait for the agent already`));
    }
    this.#waiting++;
    const before = this.#last;
    const answer = before.then(() => this.#run(prompt, turn));
    this.#last = answer.catch(() => {});
    // A prompt that is cancelled while it waits ends at once: the agent has seen nothing of it.
    return untilAborted(before, turn.signal)
      .then(() => answer)
      .finally(() => this.#waiting--);
  }

  async #run(prompt: PromptRequest['prompt'], turn: Turn): Promise<AcpAnswer> {
    turn.signal.throwIfAborted();
    turn.signal.addEventListener('abort', this.#init.cancel);
    this.#turn = turn;
    try {
      return turn.end(await this.#init.prompt(prompt, turn));
    } finally {
      turn.signal.removeEventListener('abort', this.#init.cancel);
      this.#turn = undefined;
    }
  }
}
