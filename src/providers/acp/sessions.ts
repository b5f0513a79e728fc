import type { Usage } from '../../agent/usage.js';
import { untilAborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Workspace } from '../../system/files/workspace.js';
import type { PromptRequest, PromptUsage, SessionUpdate, StopReason } from './sdk.js';
import type { AcpAnswer, SessionState, Turn } from './turn.js';

/** Memory that an agent's processes use (unknown on some systems), and their limit. */
export interface MemoryUse {
  readonly usedBytes: number | undefined;
  readonly limitBytes: number;
}

interface SessionPoolInit {
  readonly agent: string;
  /**
   * Opens the session of a conversation, in a folder or in the agent's own; or one for any later conversation, which
   * `spare` may be.
   */
  readonly open: (key?: string, spare?: Promise<Conversation>, folder?: string) => Promise<Conversation>;
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
  readonly folder: string | undefined;
  readonly go: (session: Session) => void;
}

/**
 * The sessions of one agent process, one per conversation. Idle sessions are closed, least recently used first, when the
 * pool is full or the agent uses half of its memory; a prompt waits while every session is busy.
 */
export class SessionPool {
  readonly #init: SessionPoolInit;
  /** Least recently used first. */
  readonly #byName = new Map<string, Session>();
  /** Opened by a health check, for the next conversation. */
  #spare: Session | undefined;
  readonly #waiting = new Set<Waiting>();

  constructor(init: SessionPoolInit) {
    this.#init = init;
  }

  get size(): number {
    return this.#byName.size + (this.#spare ? 1 : 0);
  }

  /** Opens a session for the next conversation where none is open; rejects where the agent opens none. */
  async prepare(): Promise<void> {
    if (this.size === 0) this.#spare = this.#open();
    await this.#spare?.opening;
  }

  /** Does work in the session of a conversation. Rejects at once where the signal aborts before the work begins. */
  async use<T>(
    key: string,
    signal: AbortSignal,
    work: (conversation: Conversation) => Promise<T>,
    folder?: string,
  ): Promise<T> {
    signal.throwIfAborted();
    const session = (this.#waiting.size === 0 && this.#claim(key, folder)) || (await this.#wait(key, folder, signal));
    try {
      return await work(await untilAborted(session.opening, signal));
    } finally {
      session.users--;
      this.#release();
    }
  }

  /** Undefined where every session is busy with other conversations. */
  #claim(key: string, folder: string | undefined): Session | undefined {
    const name = nameOf(key, folder);
    const session = this.#byName.get(name) ?? (this.#makeRoom() ? this.#take(key, folder) : undefined);
    if (!session) return undefined;
    session.users++;
    this.#byName.delete(name);
    this.#byName.set(name, session);
    return session;
  }

  #take(key: string, folder: string | undefined): Session {
    const spare = this.#spare?.opening;
    this.#spare = undefined;
    if (folder === undefined) return this.#open(key, spare);
    // It was opened in the agent's own folder.
    spare?.then(this.#init.close, () => {});
    return this.#open(key, undefined, folder);
  }

  #open(key?: string, spare?: Promise<Conversation>, folder?: string): Session {
    const session: Session = { opening: this.#init.open(key, spare, folder), users: 0 };
    session.opening.catch(() => this.#forget(session));
    return session;
  }

  #forget(session: Session): void {
    if (this.#spare === session) this.#spare = undefined;
    for (const [name, one] of this.#byName) if (one === session) this.#byName.delete(name);
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
    for (const [name, { opening, users }] of this.#byName) {
      if (users > 0) continue;
      this.#byName.delete(name);
      opening.then(this.#init.close, () => {});
      return true;
    }
    return false;
  }

  #wait(key: string, folder: string | undefined, signal: AbortSignal): Promise<Session> {
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
        folder,
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
      const session = this.#claim(waiting.key, waiting.folder);
      if (!session) return;
      this.#waiting.delete(waiting);
      waiting.go(session);
    }
  }
}

/** A session stays in the folder that it was opened in. */
function nameOf(key: string, folder: string | undefined): string {
  return folder === undefined ? key : `${folder}\n${key}`;
}

/** How a conversation came to its session, and what the agent is told first where the session is not the one before. */
export interface Origin {
  readonly state: SessionState;
  /** Why the session of before is not used. */
  readonly reason?: string;
  readonly preface?: string;
}

/** How a turn ended, and what it cost as far as the agent tells. */
interface Prompted {
  readonly stopReason: StopReason;
  readonly usage?: PromptUsage | null | undefined;
}

/** Notes a prompt, and gives the function that notes its answer. */
type Keep = () => Promise<(answer: string) => Promise<void>>;

interface ConversationInit {
  readonly sessionId: string;
  /** The files that it may use, where they are not those of its agent. */
  readonly workspace?: Workspace | undefined;
  readonly prompt: (prompt: PromptRequest['prompt'], turn: Turn) => Promise<Prompted>;
  readonly cancel: () => void;
}

/** One session of an agent: one turn at a time, in the order of the prompts. */
export class Conversation {
  readonly #init: ConversationInit;
  #origin: Origin = { state: 'new' };
  #turn: Turn | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** The cost of the session in US dollars: agents tell the sum of its turns. */
  #costUsd: number | undefined;

  constructor(init: ConversationInit) {
    this.#init = init;
  }

  get sessionId(): string {
    return this.#init.sessionId;
  }

  get workspace(): Workspace | undefined {
    return this.#init.workspace;
  }

  get turn(): Turn | undefined {
    return this.#turn;
  }

  /** The agent tells something of this session. */
  hear(update: SessionUpdate): void {
    if (update.sessionUpdate === 'usage_update' && update.cost?.currency === 'USD') this.#costUsd = update.cost.amount;
    this.#turn?.take(update);
  }

  /** Said with the first turn. */
  set origin(origin: Origin) {
    this.#origin = origin;
  }

  take(prompt: PromptRequest['prompt'], turn: Turn, keep?: Keep): Promise<AcpAnswer> {
    if (this.#waiting >= MAX_WAITING) {
      return Promise.reject(new EclipticError('QUEUE_FULL', `${MAX_WAITING} prompts wait for the agent already`));
    }
    this.#waiting++;
    const before = this.#last;
    const answer = before.then(() => this.#run(prompt, turn, keep));
    this.#last = answer.catch(() => {});
    // A prompt that is cancelled while it waits ends at once: the agent has seen nothing of it.
    return untilAborted(before, turn.signal)
      .then(() => answer)
      .finally(() => this.#waiting--);
  }

  async #run(prompt: PromptRequest['prompt'], turn: Turn, keep?: Keep): Promise<AcpAnswer> {
    turn.signal.throwIfAborted();
    turn.signal.addEventListener('abort', this.#init.cancel);
    this.#turn = turn;
    const { preface, ...origin } = this.#origin;
    this.#origin = { state: 'continued' };
    try {
      turn.inSession({ id: this.sessionId, ...origin });
      const keepAnswer = await keep?.();
      turn.signal.throwIfAborted();
      const blocks = preface === undefined ? prompt : [{ type: 'text' as const, text: preface }, ...prompt];
      const costBefore = this.#costUsd ?? 0;
      const { stopReason, usage } = await this.#init.prompt(blocks, turn);
      const costUsd = this.#costUsd === undefined ? undefined : this.#costUsd - costBefore;
      if (usage || costUsd !== undefined) turn.used(usageOf(usage ?? {}, costUsd));
      const answer = turn.end(stopReason);
      await keepAnswer?.(answer.text);
      return answer;
    } finally {
      turn.signal.removeEventListener('abort', this.#init.cancel);
      this.#turn = undefined;
    }
  }
}

function usageOf(
  { inputTokens, outputTokens, cachedReadTokens, cachedWriteTokens }: PromptUsage,
  costUsd?: number,
): Usage {
  const sum = (...counts: readonly (number | undefined)[]) => counts.reduce<number>((a, b) => a + (Number(b) || 0), 0);
  return {
    inputTokens: sum(inputTokens, cachedReadTokens, cachedWriteTokens),
    outputTokens: sum(outputTokens),
    modelCalls: 0,
    // An agent that begins its sum again, with another process, tells less than before.
    ...(costUsd !== undefined && { costUsd: Math.max(0, costUsd) }),
  };
}
