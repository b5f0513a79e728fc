import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import { packed } from './mail-wire.js';
import { Patience } from './patience.js';

export interface NewsComponents {
  runtime: Runtime;
  store: Store;
  /** Puts an item on its way to a node; throws when that is not possible now. */
  say: (node: string, text: string) => void;
  /** Up to which number each node had heard everything, by its key. */
  heard: ReadonlyMap<string, number>;
}

/** How long news waits for more of it, so that one message's story is told, and kept over there, in one go. */
const DELAY_MS = 20;
/** So much news does not wait. */
const ENOUGH = 250;
const PAGE = 500;

/** A piece of news: what it says, as text, and its number; 0 for what is told again when it is asked for. */
interface Piece {
  readonly text: string;
  readonly number: number;
}

/** What one node is told, in one conversation. */
class Telling {
  readonly queue = new Map<string, Piece>();
  readonly patience: Patience;
  timer: Timer | undefined;
  /** The number of the latest news that it was told in this conversation. */
  said = 0;
  /** The highest that it was ever told, and the highest that it has heard. */
  highest: number;
  heard: number;
  /** Is there news on disk that was not told yet? */
  behind = true;
  reading = false;
  /** Was something written while the disk was read? */
  more = false;
  /** Something could not be said: nothing that follows is, until all is told again. */
  stalled = false;

  constructor(heard: number, highest = 0, patience = new Patience()) {
    this.heard = heard;
    this.highest = highest;
    this.patience = patience;
  }
}

/**
 * Tells other nodes what became of their messages. Every end of a story has a number and is told again until the other
 * side has heard of it; what is on the way there is told once, and again when the message itself comes again.
 */
export class News {
  readonly #components: NewsComponents;
  readonly #heard: Map<string, number>;
  readonly #tellings = new Map<string, Telling>();
  /** Nodes that have heard more than the store knows. */
  readonly #unkept = new Set<string>();

  constructor(components: NewsComponents) {
    this.#components = components;
    this.#heard = new Map(components.heard);
  }

  /** A conversation with that node begins: it is told everything that it may have missed. */
  begin(node: string): void {
    this.end(node);
    this.#tellings.set(node, new Telling(this.#heard.get(node) ?? 0));
    void this.#catchUp(node);
  }

  end(node: string): void {
    this.#tellings.get(node)?.timer?.cancel();
    this.#tellings.delete(node);
  }

  /** That node is to hear nothing more. */
  forget(node: string): void {
    this.end(node);
    this.#heard.delete(node);
    this.#unkept.delete(node);
  }

  /** Something is on disk, and that node should hear of it. */
  add(node: string, id: string, steps: string, number: number): void {
    const telling = this.#tellings.get(node);
    if (!telling) return;
    if (number > 0 && telling.behind) {
      // It is read from the disk in its turn.
      telling.more = true;
      void this.#catchUp(node);
      return;
    }
    this.#enqueue(node, telling, id, steps, number);
  }

  /** That node has everything up to this number on its disk. */
  heard(node: string, last: number): void {
    const telling = this.#tellings.get(node);
    if (!telling || last <= telling.heard || last > telling.highest) return;
    telling.heard = last;
    telling.patience.reward(this.#components.runtime.stopwatch());
    this.#heard.set(node, last);
    this.#unkept.add(node);
  }

  /** Has that node heard of this number? */
  isHeard(node: string, number: number | null): boolean {
    return number === null || number <= (this.#heard.get(node) ?? 0);
  }

  /** What to write so that nobody is told again, after a restart, what it has heard. */
  takeUnkept(): Write[] {
    const nodes = [...this.#unkept];
    this.#unkept.clear();
    return nodes.map((node) => ({ put: 'cursors', row: { name: heardBy(node), value: this.#heard.get(node)! } }));
  }

  /** Tells again what was not heard of for a while. */
  sweep(): void {
    const now = this.#components.runtime.stopwatch();
    for (const [node, telling] of this.#tellings) {
      const { heard, highest, patience } = telling;
      const waits = telling.behind || telling.stalled || telling.said > heard;
      if (!patience.isOver(now, waits)) continue;
      this.end(node);
      this.#tellings.set(node, new Telling(heard, highest, patience));
      void this.#catchUp(node);
    }
  }

  #enqueue(node: string, telling: Telling, id: string, steps: string, number: number): void {
    // What has a number says all there is to say.
    if (number === 0 && (telling.queue.get(id)?.number ?? 0) > 0) return;
    // Numbers are told in their order: an entry that is replaced goes to the end.
    telling.queue.delete(id);
    telling.queue.set(id, { text: `[${JSON.stringify(id)},${steps}]`, number });
    if (telling.queue.size >= ENOUGH) this.#flush(node, telling);
    else telling.timer ??= this.#components.runtime.setTimer(() => this.#flush(node, telling), DELAY_MS);
  }

  async #catchUp(node: string): Promise<void> {
    const telling = this.#tellings.get(node);
    if (!telling || telling.reading) return;
    const { store, runtime } = this.#components;
    telling.reading = true;
    try {
      for (let above = telling.heard; telling.behind && this.#tellings.get(node) === telling; ) {
        telling.more = false;
        const query = { from: 'receipts', where: { node }, above: { news: above }, orderBy: 'news' } as const;
        const rows = await store.read({ ...query, limit: PAGE });
        if (this.#tellings.get(node) !== telling) break;
        if (rows.length === 0) telling.behind = telling.more;
        for (const { id, steps, news } of rows) {
          this.#enqueue(node, telling, id, steps, news!);
          above = news!;
        }
      }
    } catch (error) {
      runtime.logger.error({ node, err: error }, 'the receipts cannot be read');
    }
    telling.reading = false;
  }

  #flush(node: string, telling: Telling): void {
    telling.timer?.cancel();
    telling.timer = undefined;
    if (this.#tellings.get(node) !== telling || telling.stalled) return;
    const pieces = [...telling.queue.values()];
    telling.queue.clear();
    const { say, runtime } = this.#components;
    try {
      for (const { list, from, to } of packed(pieces.map(({ text }) => text))) {
        const last = pieces.slice(from, to).reduce((highest, { number }) => Math.max(highest, number), 0);
        say(node, `["t",${telling.said},${last},${list}]`);
        telling.said = Math.max(telling.said, last);
        telling.highest = Math.max(telling.highest, last);
      }
    } catch (error) {
      telling.stalled = true;
      runtime.logger.debug({ node, err: error }, 'news waits');
    }
  }
}

/** The name under which the store keeps what a node has heard. */
export function heardBy(node: string): string {
  return `heard ${node}`;
}
