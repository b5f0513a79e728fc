import { Backoff } from '../../runtime/backoff.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Git } from '../../system/git/git.js';
import type { GitPlace } from '../../system/git/known-repositories.js';
import { type Dirty, dirtyFiles, MAX_DIRTY_FILES, withPaths } from './dirty-files.js';
import { FolderWatch, type WatchBudget } from './folder-watch.js';

interface PlaceWatchComponents {
  runtime: Runtime;
  git: Git;
  budget: WatchBudget;
}

interface PlaceWatchInit {
  readonly folder: string;
  readonly place: GitPlace;
  /** Nothing works in a folder that is not active: it is read once. */
  readonly active: boolean;
  readonly onChange: () => void;
}

/** How the changes of a folder become known. */
export type WatchMode = 'watched' | 'polled' | 'once';

/** A save is often several events. */
const GATHER_MS = 15;
/** Paths of which git is asked at once; for more, it reads everything. */
const MAX_PATHS = 200;
/** Time that git may take at once; after that it pauses, and works this fraction of the time. */
const BURST_MS = 2_000;
const SUSTAINED = 0.05;
const PAUSE_MS = 1_500;
/** Where the folder cannot be watched: a reading is this many times shorter than the time between two. */
const POLL_RATIO = 250;
const MIN_POLL_MS = 2_000;
const ASKED_RATIO = 10;
const RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;

/** The changed files of one worktree, kept current by its file events. */
export class PlaceWatch {
  readonly #components: PlaceWatchComponents;
  readonly #init: PlaceWatchInit;
  #dirty: Dirty | undefined;
  #failure: string | undefined;
  #watch: FolderWatch | undefined;
  #mode: WatchMode;
  readonly #retries = new Backoff(RETRY_MS, MAX_RETRY_MS);
  readonly #paths = new Set<string>();
  #everything = true;
  #timer: Timer | undefined;
  #working: Promise<void> | undefined;
  /** Time that git took lately, which decays. */
  #debt = 0;
  #debtAt = 0;
  #readAt = 0;
  #tookMs = 0;
  #closed = false;

  constructor(components: PlaceWatchComponents, init: PlaceWatchInit) {
    this.#components = components;
    this.#init = init;
    this.#mode = init.active ? 'watched' : 'once';
    this.#working = this.#start();
  }

  get dirty(): Dirty | undefined {
    return this.#dirty;
  }

  /** Why the folder could not be read. */
  get failure(): string | undefined {
    return this.#failure;
  }

  get mode(): WatchMode {
    return this.#mode;
  }

  /** Resolves when everything that was noticed so far has been read; what is not watched is read again if that is cheap. */
  async settled(): Promise<void> {
    const age = this.#components.runtime.stopwatch() - this.#readAt;
    if (this.#mode !== 'watched' && age > ASKED_RATIO * this.#tookMs) this.#everything = true;
    while (!this.#closed && (this.#working || this.#hasWork)) {
      this.#timer?.cancel();
      this.#timer = undefined;
      this.#working ??= this.#work();
      await this.#working;
    }
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#watch?.close();
  }

  async #start(): Promise<void> {
    const { folder: root, place, active } = this.#init;
    if (active) {
      const onPath = (path: string) => {
        this.#paths.add(path);
        this.#workLater(GATHER_MS);
      };
      const onGit = () => {
        this.#everything = true;
        this.#workLater(GATHER_MS);
      };
      const onFailure = () => {
        this.#mode = 'polled';
        this.#everything = true;
        this.#workLater(GATHER_MS);
      };
      this.#watch = new FolderWatch(this.#components, { root, place, onPath, onGit, onFailure });
      await this.#watch.start();
      if (this.#closed) this.#watch.close();
    }
    await this.#work();
  }

  get #hasWork(): boolean {
    return this.#everything || this.#paths.size > 0;
  }

  #workLater(ms: number): void {
    if (this.#closed || this.#timer || this.#working) return;
    const now = this.#components.runtime.stopwatch();
    const delay = this.#debtNow(now) > BURST_MS ? Math.max(ms, PAUSE_MS) : ms;
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.#working ??= this.#work();
    }, delay);
  }

  async #work(): Promise<void> {
    if (this.#closed) return;
    const { runtime } = this.#components;
    const began = runtime.stopwatch();
    const before = this.#dirty;
    const failed = this.#failure;
    await this.#read();
    this.#readAt = runtime.stopwatch();
    this.#tookMs = this.#readAt - began;
    this.#debt = this.#debtNow(this.#readAt) + this.#tookMs;
    this.#working = undefined;
    if (this.#closed) return;
    if (this.#failure !== failed || !isSame(before, this.#dirty)) this.#init.onChange();
    if (this.#failure !== undefined && this.#mode !== 'once') this.#again(this.#retries.next());
    else if (this.#hasWork) this.#workLater(GATHER_MS);
    else if (this.#mode === 'polled') this.#again(Math.max(MIN_POLL_MS, POLL_RATIO * this.#tookMs));
  }

  async #read(): Promise<void> {
    const { git } = this.#components;
    const { place } = this.#init;
    const paths = [...this.#paths];
    const known = this.#dirty;
    const all = this.#everything || !known || known.more > 0 || paths.length > MAX_PATHS;
    this.#everything = false;
    this.#paths.clear();
    try {
      if (all) this.#dirty = await dirtyFiles(git, place);
      else {
        const next = withPaths(known, paths, await dirtyFiles(git, place, paths));
        if (next.files.length > MAX_DIRTY_FILES) this.#everything = true;
        else this.#dirty = next;
      }
      this.#failure = undefined;
      this.#retries.reset();
    } catch (error) {
      this.#failure = describeError(error);
    }
  }

  /** Reads everything after this time. */
  #again(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.#everything = true;
      this.#working ??= this.#work();
    }, ms);
  }

  #debtNow(now: number): number {
    this.#debt = Math.max(0, this.#debt - (now - this.#debtAt) * SUSTAINED);
    this.#debtAt = now;
    return this.#debt;
  }
}

function isSame(one: Dirty | undefined, other: Dirty | undefined): boolean {
  if (!one || !other) return one === other;
  return (
    one.branch === other.branch &&
    one.more === other.more &&
    one.files.length === other.files.length &&
    one.files.every((file, index) => file === other.files[index])
  );
}
