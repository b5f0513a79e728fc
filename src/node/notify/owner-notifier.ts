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

const FileSchema = z.strictObject({ version: z.literal(1), told: z.array(z.string()) });

/** Tells the owner of each item that begins to wait, once, also over restarts. */
export class OwnerNotifier {
  readonly bell: boolean;
  readonly #components: OwnerNotifierComponents;
  readonly #kinds: ReadonlySet<string> | undefined;
  readonly #file: JsonFile<z.infer<typeof FileSchema>>;
  readonly #open = new Map<NotifyWay['name'], number>();
  readonly #ended = new AbortController();
  /** Ids of items that the owner was told of and that still waited at the last look. */
  #told: ReadonlySet<string>;
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
    this.#told = new Set(this.#file.load()?.told);
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
    const added = wanted.filter(({ id }) => !this.#told.has(id));
    const told = new Set(wanted.slice(0, MAX_TOLD).map(({ id }) => id));
    const isSame = added.length === 0 && told.size === this.#told.size;
    this.#told = told;
    // Before the owner is told: a node that is killed in between must not tell twice at every start.
    if (!isSame) this.#file.save({ version: 1, told: [...told] });
    if (added.length === 0 || this.#ended.signal.aborted) return;
    this.#toldAt = runtime.stopwatch();
    for (const way of ways) {
      const meant = way.elsewhere ? added : added.filter(({ node }) => node === null);
      if (meant.length > 0) void this.#tell(way, noticeOf(meant));
    }
  }

  async #tell(way: NotifyWay, notice: Notice): Promise<void> {
    const { logger } = this.#components.runtime;
    const open = this.#open.get(way.name) ?? 0;
    const about = { way: way.name, items: notice.items.length };
    if (open >= MAX_OPEN) {
      logger.warn({ ...about, reason: `${open} are under way already` }, 'notification dropped');
      return;
    }
    this.#open.set(way.name, open + 1);
    try {
      const { signal } = this.#ended;
      const reason = await way.tell(notice, { signal });
      if (reason !== undefined && !signal.aborted) logger.warn({ ...about, reason }, 'notification failed');
    } finally {
      this.#open.set(way.name, this.#open.get(way.name)! - 1);
    }
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
