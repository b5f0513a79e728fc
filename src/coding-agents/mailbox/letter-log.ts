import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { OpenLetter } from './member-mail.js';
import { type LetterRow, letters } from './tables.js';

export const LETTERS_KEPT_MS = 30 * 86_400_000;
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
    const [row] = await this.#store.read(letters, { where: { member, id } });
    return row;
  }

  thread(member: string, thread: string, limit: number): Promise<LetterRow[]> {
    return this.#store.read(letters, { where: { member, thread }, orderBy: 'at', limit });
  }

  /** The latest letters whose text, peer or id contains all words of the query. */
  search(member: string, query: string, limit: number): Promise<LetterRow[]> {
    const containing = { text: query, in: ['text', 'peer', 'id'] } as const;
    return this.#store.read(letters, { where: { member }, containing, orderBy: 'at', descending: true, limit });
  }

  async retain(): Promise<void> {
    const old = await this.#store.read(letters, { below: { at: this.#runtime.now() - LETTERS_KEPT_MS } });
    for (let start = 0; start < old.length; start += PAGE) {
      const page = old.slice(start, start + PAGE);
      await this.#store.write(page.map(({ member, id }) => letters.delete({ member, id })));
    }
  }

  async #put(row: Omit<LetterRow, 'at'>): Promise<void> {
    await this.#store.write([letters.put({ ...row, at: this.#runtime.now() })]);
  }
}
