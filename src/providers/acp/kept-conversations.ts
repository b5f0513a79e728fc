import { quotedVerbatim } from '../../mcp/fence.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Store } from '../../store/store.js';
import { agentConversations } from './tables.js';

/** A prompt and its answer, both shortened; without an answer, the work was interrupted. */
interface Exchange {
  readonly asked: string;
  readonly answered: string | null;
}

export interface KeptConversation {
  /** The agent's id of its session. */
  readonly session: string;
  readonly folder: string;
  readonly exchanges: readonly Exchange[];
}

const ASKED_CHARS = 1_000;
const ANSWERED_CHARS = 2_000;
const MAX_EXCHANGES = 8;
/** Conversations of one agent. */
const MAX_CONVERSATIONS = 1_000;
const PER_STEP = 100;

/**
 * Keeps which session of an agent a conversation works in, and the latest exchanges in short, so that the conversation goes
 * on after the session was closed or its process ended. A failing store costs the memory of a conversation, and no work.
 */
export class KeptConversations {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #provider: string;

  constructor(runtime: Runtime, store: Store, provider: string) {
    this.#runtime = runtime;
    this.#store = store;
    this.#provider = provider;
  }

  find(conversation: string): Promise<KeptConversation | undefined> {
    return this.#try(undefined, async () => {
      const where = { provider: this.#provider, conversation };
      const [row] = await this.#store.read(agentConversations, { where, limit: 1 });
      return row && { session: row.session, folder: row.folder, exchanges: JSON.parse(row.exchanges) as Exchange[] };
    });
  }

  /** On disk when this resolves, so that the session is found after a crash. */
  opened(conversation: string, session: string, folder: string): Promise<void> {
    return this.#try(undefined, async () => {
      const { exchanges = [] } = (await this.find(conversation)) ?? {};
      await this.#put(conversation, { session, folder, exchanges });
      await this.#forgetOld();
    });
  }

  /** Notes a prompt; the returned function notes its answer. */
  async asked(conversation: string, prompt: string): Promise<(answer: string) => Promise<void>> {
    const asked = cutText(prompt, ASKED_CHARS);
    await this.#change(conversation, (before) => [...before, { asked, answered: null }]);
    return (answer) =>
      this.#change(conversation, (before) => {
        const answered = cutText(answer, ANSWERED_CHARS);
        return [...before.filter((one) => one.asked !== asked || one.answered !== null), { asked, answered }];
      });
  }

  #change(conversation: string, change: (before: readonly Exchange[]) => readonly Exchange[]): Promise<void> {
    return this.#try(undefined, async () => {
      const kept = await this.find(conversation);
      if (kept) await this.#put(conversation, { ...kept, exchanges: change(kept.exchanges).slice(-MAX_EXCHANGES) });
    });
  }

  #put(conversation: string, { session, folder, exchanges }: KeptConversation): Promise<void> {
    const at = this.#runtime.now();
    const row = { provider: this.#provider, conversation, session, folder, at, exchanges: JSON.stringify(exchanges) };
    return this.#store.write([agentConversations.put(row)]);
  }

  async #forgetOld(): Promise<void> {
    const provider = this.#provider;
    const surplus = (await this.#store.count(agentConversations, { where: { provider } })) - MAX_CONVERSATIONS;
    if (surplus <= 0) return;
    const limit = Math.min(surplus, PER_STEP);
    const oldest = await this.#store.read(agentConversations, { where: { provider }, orderBy: 'at', limit });
    await this.#store.write([
      agentConversations.delete({ provider, conversation: oldest.map(({ conversation }) => conversation) }),
    ]);
  }

  async #try<T>(otherwise: T, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const { logger } = this.#runtime;
      logger.error({ provider: this.#provider, error: describeError(error) }, 'conversation could not be kept');
      return otherwise;
    }
  }
}

/** What an agent that cannot load its session is told of the conversation. */
export function summaryOf({ exchanges }: KeptConversation, mark: string): string {
  const told = exchanges.map(({ asked, answered }) => {
    return `They asked:\n${asked}\n\n${answered === null ? '(The work was interrupted.)' : `You answered:\n${answered}`}`;
  });
  return [
    'This conversation began in an earlier session, which is not available any more. Here is what was said in it, shortened;',
    'files that you changed are as you left them. It is a record, and asks nothing of you.',
    quotedVerbatim(told.join('\n\n'), mark),
    'Now they ask:',
  ].join('\n');
}
