import { type Signal, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { NodeView } from '../src/http/dashboard/facts.js';
import { ApiError, connection, openSession, readEvents, type StreamEvent } from './api.js';

/** The page's one stream: its connection, and the reads that it follows. */

export interface Read<T> {
  /** The last result; undefined before the first. */
  readonly value: T | undefined;
  /** Why the node could not read it; the value is the one before. */
  readonly error: string | undefined;
}

export const node = signal<NodeView | undefined>(undefined);
export const lastHeard = signal<number | undefined>(undefined);
/** Why the page has no session. */
export const closed = signal<'used' | 'ended' | undefined>(undefined);

const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 2_000;
/** Views that change at the same time change the stream once. */
const CHANGE_MS = 20;
/** Results of reads that no view follows any more, for when the owner comes back to them. */
const MAX_KEPT = 100;

const UNREAD: Read<never> = { value: undefined, error: undefined };
const reads = new Map<string, Signal<Read<unknown>>>();
const followers = new Map<string, number>();
let lastId: string | undefined;
let current: { readonly keys: string; readonly abort: AbortController } | undefined;
let change: ReturnType<typeof setTimeout> | undefined;

/** Follows a read while the component is shown: the name of an operation with its query, such as `task?id=…`. */
export function useRead<T>(key: string): Read<T> {
  useEffect(() => follow(key), [key]);
  return readOf<T>(key).value;
}

/** The read of an operation with parameters; those without a value are left out. */
export function keyOf(name: string, params: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const given = Object.entries(params).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]]));
  return given.length === 0 ? name : `${name}?${new URLSearchParams(given)}`;
}

export function readOf<T>(key: string): Signal<Read<T>> {
  let found = reads.get(key);
  if (!found) {
    found = signal<Read<unknown>>(UNREAD);
    reads.set(key, found);
    for (const old of reads.keys()) {
      if (reads.size <= MAX_KEPT) break;
      if (!followers.has(old) && old !== key) reads.delete(old);
    }
  }
  return found as Signal<Read<T>>;
}

/** Follows a read until the returned function is called. */
export function follow(key: string): () => void {
  followers.set(key, (followers.get(key) ?? 0) + 1);
  changeLater();
  return () => {
    const left = followers.get(key)! - 1;
    if (left === 0) followers.delete(key);
    else followers.set(key, left);
    changeLater();
  };
}

function changeLater(): void {
  clearTimeout(change);
  change = setTimeout(() => {
    if (current && current.keys !== wanted().join(' ')) current.abort.abort();
  }, CHANGE_MS);
}

function wanted(): string[] {
  return [...followers.keys()].sort();
}

/** Opens the session of a link, if the address has one, and reads the stream for as long as the page is open. */
export async function begin(take: (event: StreamEvent) => void): Promise<void> {
  if (!(await takeToken())) return;
  let pause = FIRST_RETRY_MS;
  while (closed.value === undefined) {
    const keys = wanted();
    const abort = new AbortController();
    current = { keys: keys.join(' '), abort };
    try {
      await readEvents({ lastId, keys, signal: abort.signal }, (event) => {
        pause = FIRST_RETRY_MS;
        connection.value = 'live';
        lastHeard.value = Date.now();
        if (event) receive(event, take);
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) closed.value = 'ended';
    }
    // The page asked for other reads; the stream goes on where it was.
    if (abort.signal.aborted) continue;
    connection.value = lastHeard.value === undefined ? 'connecting' : 'broken';
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(MAX_RETRY_MS, pause * 2);
  }
}

async function takeToken(): Promise<boolean> {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token === null) return true;
  // The token must not stay in the address or the history.
  history.replaceState(null, '', location.pathname);
  try {
    await openSession(token);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    closed.value = 'used';
    return false;
  }
}

function receive(event: StreamEvent, take: (event: StreamEvent) => void): void {
  if (event.id !== undefined) lastId = event.id;
  if (event.name === 'hello') node.value = event.data as NodeView;
  else if (event.name === 'read') takeRead(event.data as { key: string; value?: unknown; error?: { message: string } });
  else take(event);
}

function takeRead({ key, value, error }: { key: string; value?: unknown; error?: { message: string } }): void {
  const read = readOf(key);
  read.value = error ? { value: read.value.value, error: error.message } : { value, error: undefined };
}
