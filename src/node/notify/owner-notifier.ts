import { join } from 'node:path';
import { z } from 'zod';
import type { WaitingItem } from '../../http/dashboard/facts.js';
import { oneLine } from '../../mcp/fence.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { JsonFile } from '../../system/files/private-file.js';

/** One way to reach the owner. */
export interface NotifyWay {
  readonly name: 'bell' | 'desktop' | 'webhook';
  /** Items of the owner's other devices are left to those where false. */
  readonly elsewhere: boolean;
  /** Resolves with the reason where it fails. With `once`, it is not repeated. */
  tell(notice: Notice, terms: { readonly signal: AbortSignal; readonly once?: boolean }): Promise<string | undefined>;
}

/** What newly waits for the owner. */
export interface Notice {
  readonly title: string;
  readonly lines: readonly string[];
  readonly items: readonly WaitingItem[];
}

export interface NotifyResult {
  readonly way: NotifyWay['name'];
  /** Null where the way took it. */
  readonly failure: string | null;
}

interface OwnerNotifierComponents {
  runtime: Runtime;
  ways: readonly NotifyWay[];
}

interface OwnerNotifierInit {
  folder: string;
  /** May programs that show what waits ring their terminals? */
  bell: boolean;
  /** Default: all. */
  kinds?: readonly WaitingItem['kind'][] | undefined;
}

/** After a change, until what came with it is there too. */
const SETTLE_MS = 200;
/** Items of other devices, and some of this one, are found by looking. */
const LOOK_MS = 5_000;
/** Between two notices: what comes in between is in one. */
const PAUSE_MS = 3_000;
const MAX_LINES = 5;
const LINE_CHARS = 200;
/** Notices of one way that are under way. */
const MAX_OPEN = 20;
const MAX_TOLD = 2_000;

/** After a failure, until a way is tried again with what it did not take. */
const RETRY_MS = 600_000;

const FileSchema = z.strictObject({
  version: z.literal(1),
  told: z.array(z.string()),
  /** By way, the items among these that it has not taken yet. */
  owed: z.record(z.string(), z.array(z.string())).optional(),
});

/**
 * Tells the owner of each item that begins to wait, once, also over restarts. What a way did not take is tried again later,
 * and when the node starts, as long as the item waits.
 */
export class OwnerNotifier {
  readonly bell: boolean;
  readonly #components: OwnerNotifierComponents;
  readonly #kinds: ReadonlySet<string> | undefined;
  readonly #file: JsonFile<z.infer<typeof FileSchema>>;
  readonly #open = new Map<NotifyWay['name'], number>();
  readonly #ended = new AbortController();
  /** Ids of items that the owner was told of and that still waited at the last look. */
  #told: ReadonlySet<string>;
  /** By way, the items that it has not taken yet, and those of them that it is told of at present. */
  readonly #owed = new Map<string, Set<string>>();
  readonly #telling = new Map<string, Set<string>>();
  /** By the stopwatch: when a way that failed is tried again. */
  readonly #retryAt = new Map<string, number>();
  #saved: string;
  #read: (() => Promise<readonly WaitingItem[]>) | undefined;
  #onClose: () => void = () => {};
  #timer: Timer | undefined;
  /** By the stopwatch: when it looks next. */
  #dueAt = Number.POSITIVE_INFINITY;
  #toldAt = Number.NEGATIVE_INFINITY;
  #isLooking = false;

  constructor(components: OwnerNotifierComponents, { folder, bell, kinds }: OwnerNotifierInit) {
    this.bell = bell;
    this.#components = components;
    this.#kinds = kinds && new Set(kinds);
    this.#file = new JsonFile(join(folder, 'notified.json'), FileSchema);
    const { told = [], owed = {} } = this.#file.load() ?? {};
    this.#told = new Set(told);
    for (const { name } of components.ways) {
      this.#owed.set(name, new Set(owed[name]));
      this.#telling.set(name, new Set());
    }
    this.#saved = JSON.stringify(this.#content);
  }

  get ways(): readonly NotifyWay['name'][] {
    return this.#components.ways.map(({ name }) => name);
  }

  /** Begins to look at what waits for the owner, here and on other devices. */
  start(read: () => Promise<readonly WaitingItem[]>): void {
    this.#read = read;
    this.#lookIn(SETTLE_MS);
  }

  onClose(close: () => void): void {
    this.#onClose = close;
  }

  close(): void {
    this.#ended.abort();
    this.#timer?.cancel();
    this.#onClose();
  }

  /** Something may wait that did not. */
  changed(): void {
    this.#lookIn(SETTLE_MS);
  }

  /** Sends a test notice by each way, without repeating it. */
  async test(): Promise<NotifyResult[]> {
    const notice = { title: 'Ecliptic test', lines: ['Notifications reach you here.'], items: [] };
    const terms = { signal: this.#ended.signal, once: true };
    return Promise.all(
      this.#components.ways.map(async (way) => ({ way: way.name, failure: (await way.tell(notice, terms)) ?? null })),
    );
  }

  #lookIn(ms: number): void {
    const { runtime, ways } = this.#components;
    if (!this.#read || ways.length === 0 || this.#ended.signal.aborted) return;
    const now = runtime.stopwatch();
    const at = Math.max(now + ms, this.#toldAt + PAUSE_MS);
    if (at >= this.#dueAt) return;
    this.#timer?.cancel();
    this.#dueAt = at;
    this.#timer = runtime.setTimer(() => void this.#look(this.#read!), at - now);
  }

  async #look(read: () => Promise<readonly WaitingItem[]>): Promise<void> {
    // What changes from here on is looked at again.
    this.#dueAt = Number.POSITIVE_INFINITY;
    if (this.#isLooking) return this.#lookIn(SETTLE_MS);
    this.#isLooking = true;
    try {
      this.#take(await read());
    } catch (error) {
      this.#components.runtime.logger.error({ error: describeError(error) }, 'what waits for the owner not read');
    } finally {
      this.#isLooking = false;
      this.#lookIn(LOOK_MS);
    }
  }

  #take(items: readonly WaitingItem[]): void {
    const { runtime, ways } = this.#components;
    const wanted = items.filter(({ kind, answer }) => answer === null && (this.#kinds?.has(kind) ?? true));
    const added = new Set(wanted.flatMap(({ id }) => (this.#told.has(id) ? [] : [id])));
    this.#told = new Set(wanted.slice(0, MAX_TOLD).map(({ id }) => id));
    const now = runtime.stopwatch();
    const notices = ways.map((way) => {
      const [owed, telling] = [this.#owed.get(way.name)!, this.#telling.get(way.name)!];
      for (const id of owed) if (!this.#told.has(id)) owed.delete(id);
      const isDue = now >= (this.#retryAt.get(way.name) ?? Number.NEGATIVE_INFINITY);
      const meant = wanted.filter(({ id, node }) => {
        if (node !== null && !way.elsewhere) return false;
        return added.has(id) || (isDue && owed.has(id) && !telling.has(id));
      });
      for (const { id } of meant) owed.add(id);
      return { way, meant };
    });
    // Before the owner is told: a node that is killed in between tells again what no way has taken, and nothing else.
    this.#save();
    if (this.#ended.signal.aborted) return;
    for (const { way, meant } of notices) {
      if (meant.length === 0) continue;
      this.#toldAt = now;
      void this.#tell(way, noticeOf(meant));
    }
  }

  async #tell(way: NotifyWay, notice: Notice): Promise<void> {
    const { runtime } = this.#components;
    const { logger } = runtime;
    const open = this.#open.get(way.name) ?? 0;
    const about = { way: way.name, items: notice.items.length };
    if (open >= MAX_OPEN) {
      logger.warn({ ...about, reason: `${open} are under way already` }, 'notification put off');
      return;
    }
    const [owed, telling] = [this.#owed.get(way.name)!, this.#telling.get(way.name)!];
    this.#open.set(way.name, open + 1);
    for (const { id } of notice.items) telling.add(id);
    try {
      const { signal } = this.#ended;
      const reason = await way.tell(notice, { signal });
      if (reason === undefined) {
        for (const { id } of notice.items) owed.delete(id);
        this.#save();
      } else if (!signal.aborted) {
        logger.warn({ ...about, reason }, 'notification failed');
        this.#retryAt.set(way.name, runtime.stopwatch() + RETRY_MS);
      }
    } finally {
      this.#open.set(way.name, this.#open.get(way.name)! - 1);
      for (const { id } of notice.items) telling.delete(id);
    }
  }

  get #content(): z.infer<typeof FileSchema> {
    const owed = [...this.#owed].flatMap(([name, ids]) =>
      ids.size === 0 ? [] : [[name, [...ids]] as [string, string[]]],
    );
    return { version: 1, told: [...this.#told], ...(owed.length > 0 && { owed: Object.fromEntries(owed) }) };
  }

  #save(): void {
    const content = this.#content;
    const text = JSON.stringify(content);
    if (text === this.#saved) return;
    this.#file.save(content);
    this.#saved = text;
  }
}

const KIND_WORDS: Readonly<Record<WaitingItem['kind'], string>> = {
  approval: 'asks for approval',
  question: 'has a question',
  tool: 'changed a tool',
  mail: 'wrote to you',
  held: 'wants to write',
  task: 'needs a decision',
  worker: 'needs help',
};

function noticeOf(items: readonly WaitingItem[]): Notice {
  const [first] = items;
  if (items.length === 1) return { title: headOf(first!), lines: [oneLine(first!.title, LINE_CHARS)], items };
  const lines = items.slice(0, MAX_LINES).map((item) => oneLine(`${headOf(item)}: ${item.title}`, LINE_CHARS));
  const more = items.length > MAX_LINES ? [`and ${items.length - MAX_LINES} more`] : [];
  return { title: `${items.length} things wait for you`, lines: [...lines, ...more], items };
}

/** `mars@desktop asks for approval` */
function headOf({ kind, from, node }: WaitingItem): string {
  const [name] = from.split('@');
  return oneLine(`${name}${node === null ? '' : `@${node.name}`} ${KIND_WORDS[kind]}`, LINE_CHARS);
}
