import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { LetterRow } from '../../store/tables.js';
import type { OpenLetter } from './member-mail.js';

export const LETTERS_KEPT_MS = 30 * 86_400_000;
/** Letters of one member that a search looks at, latest first. */
const SEARCHED = 2_000;
const PAGE = 500;

/** The messages that members wrote and were shown, for mesh_lookup. */
export class LetterLog {
  readonly #runtime: Runtime;
  readonly #store: Store;

  constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
  }

  /** Records a message that a member was shown. */
  async note(member: string, { held, from, letter }: OpenLetter): Promise<void> {
    const { id, correlationId } = held.envelope;
    const { needs, hops, text } = letter;
    await this.#put({ member, id, peer: from, sent: 0, thread: correlationId ?? null, needs, hops, text });
  }

  /** Records a message that a member wrote. */
  async noteSent(row: Omit<LetterRow, 'at' | 'sent'>): Promise<void> {
    await this.#put({ ...row, sent: 1 });
  }

  async find(member: string, id: string): Promise<LetterRow | undefined> {
    const [row] = await this.#store.read({ from: 'letters', where: { member, id } });
    return row;
  }

  thread(member: string, thread: string, limit: number): Promise<LetterRow[]> {
    return this.#store.read({ from: 'letters', where: { member, thread }, orderBy: 'at', limit });
  }

  /** The latest letters whose text, peer or id contains all words of the query. */
  async search(member: string, query: string, limit: number): Promise<LetterRow[]> {
    const latest = { from: 'letters', where: { member }, orderBy: 'at', descending: true, limit: SEARCHED } as const;
    const words = query.toLowerCase().split(/\s+/u).filter(Boolean);
    const rows = await this.#store.read(latest);
    return rows
      .filter(({ text, peer, id }) => words.every((word) => `${text}\n${peer}\n${id}`.toLowerCase().includes(word)))
      .slice(0, limit);
  }

  async retain(): Promise<void> {
    for (;;) {
      const below = { at: this.#runtime.now() - LETTERS_KEPT_MS };
      const old = await this.#store.read({ from: 'letters', below, limit: PAGE });
      if (old.length === 0) return;
      await this.#store.write(old.map(({ member, id }) => ({ delete: 'letters', where: { member, id } })));
    }
  }

  async #put(row: Omit<LetterRow, 'at'>): Promise<void> {
    await this.#store.write([{ put: 'letters', row: { ...row, at: this.#runtime.now() } }]);
  }
}
