import { computed, effect, signal } from '@preact/signals';
import type { GivenAnswer, Waiting, WaitingItem } from '../src/http/dashboard/facts.js';
import { read } from './api.js';
import { keyOf, readOf } from './stream.js';

/** What waits for the owner, and which of it is selected. */

const waitingRead = readOf<Waiting>('waiting');
/** Items whose answer was taken, until the stream sends a list without them. */
const answered = signal<ReadonlySet<string>>(new Set());
/** Undefined until it first arrives. */
export const waiting = computed(() => waitingRead.value.value?.items.filter(({ id }) => !answered.value.has(id)));
/** Devices of the owner's whose items are not in the list. */
export const missing = computed(() => waitingRead.value.value?.missing ?? []);
export const waitingError = computed(() => waitingRead.value.error);
effect(() => {
  const ids = new Set(waitingRead.value.value?.items.map(({ id }) => id));
  const left = [...answered.peek()].filter((id) => ids.has(id));
  if (left.length < answered.peek().size) answered.value = new Set(left);
});

/** The selected item after it left the list without an answer on this page. It keeps its place until the owner moves on. */
export interface ClosedItem {
  readonly item: WaitingItem;
  /** Undefined while it is asked for; null if nothing is known of it. */
  readonly given: GivenAnswer | null | undefined;
  /** The ids of the list that it was last in. */
  readonly order: readonly string[];
}

const selectedId = signal<string | undefined>(undefined);
export const closedItem = signal<ClosedItem | undefined>(undefined);
/** The item that keys answer; a closed one is not. */
export const selected = computed(() => waiting.value?.find(({ id }) => id === selectedId.value));
/** The list with the closed item in its place. */
export const listed = computed(() => {
  const items = waiting.value;
  const gone = closedItem.value;
  if (!items || !gone) return items;
  const at = placeOf(items, gone);
  return [...items.slice(0, at), gone.item, ...items.slice(at)];
});

/** When the selection last changed without the owner's doing. */
let movedAt = 0;
/** Items that were answered on this page, and are still in the list. */
const own = new Set<string>();
let before: readonly WaitingItem[] = [];

effect(() => {
  const items = waiting.value;
  if (!items) return;
  const was = before;
  before = items;
  const id = selectedId.peek();
  if (items.some((item) => item.id === id)) {
    // It came back.
    if (closedItem.peek()) leaveTo(id);
  } else if (!closedItem.peek()) {
    const item = was.find((one) => one.id === id);
    if (!item || (own.has(item.id) && item.answer?.state !== 'refused')) leaveTo(neighbour(was, items, id));
    else close(item, was);
  }
  const ids = new Set(items.map((item) => item.id));
  for (const one of own) if (!ids.has(one)) own.delete(one);
});

const SETTLED_MS = 500;

/** A key must not answer an item that took the place of another one a moment ago. */
export function isSettled(): boolean {
  return Date.now() - movedAt >= SETTLED_MS;
}

export function select(id: string | undefined): void {
  movedAt = 0;
  if (closedItem.value?.item.id !== id) closedItem.value = undefined;
  selectedId.value = id;
}

/** Selects the item that is so many places further; a closed one is left in any case. */
export function move(by: number): void {
  const items = listed.value ?? [];
  const at = items.findIndex(({ id }) => id === selectedId.value);
  const next = items[Math.min(items.length - 1, Math.max(0, at + by))];
  if (next?.id !== closedItem.value?.item.id) select(next?.id);
  else select(items[at - by]?.id);
}

/** Takes the closed item away; its neighbour is selected, but not by a key that was meant for this one. */
export function dismiss(): void {
  const gone = closedItem.value;
  if (!gone) return;
  const items = waiting.value ?? [];
  leaveTo((items[placeOf(items, gone)] ?? items.at(-1))?.id);
}

/** An item was answered on this page. A confirmed answer takes it from the list before the stream does. */
export function noteAnswered({ id }: WaitingItem, isConfirmed: boolean): void {
  if (closedItem.value?.item.id === id) dismiss();
  if (!waiting.value?.some((item) => item.id === id)) return;
  own.add(id);
  if (isConfirmed) answered.value = new Set([...answered.value, id]);
}

function leaveTo(id: string | undefined): void {
  closedItem.value = undefined;
  selectedId.value = id;
  movedAt = Date.now();
}

/** The next item that is still there, or the previous one. */
function neighbour(was: readonly WaitingItem[], items: readonly WaitingItem[], id: string | undefined) {
  const ids = new Set(items.map((item) => item.id));
  const at = was.findIndex((item) => item.id === id);
  const next = was.slice(at + 1).find((item) => ids.has(item.id));
  return (next ?? was.slice(0, Math.max(0, at)).findLast((item) => ids.has(item.id)) ?? items[0])?.id;
}

function placeOf(items: readonly WaitingItem[], { item, order }: ClosedItem): number {
  const at = order.indexOf(item.id);
  const later = new Set(order.slice(at + 1));
  const next = items.findIndex(({ id }) => later.has(id));
  if (next >= 0) return next;
  const earlier = new Set(order.slice(0, at));
  return items.findLastIndex(({ id }) => earlier.has(id)) + 1;
}

const AGAIN_MS = 1_000;
/** An answer so long before is not the reason why an item without a time of its own has gone. */
const RECENT_MS = 60_000;

function close(item: WaitingItem, was: readonly WaitingItem[]): void {
  closedItem.value = { item, given: undefined, order: was.map(({ id }) => id) };
  void learn(item);
}

/** Asks who answered it. The node records an answer just after its effect, so it is asked once more. */
async function learn(item: WaitingItem): Promise<void> {
  const goneAt = Date.now();
  const ask = async () => {
    const given = await read<GivenAnswer | null>(keyOf('waiting.answered', { id: item.id })).catch(() => null);
    // The same worker or task may have been answered about before.
    return given !== null && given.at >= (item.since ?? goneAt - RECENT_MS) ? given : null;
  };
  let given = await ask();
  if (given === null) {
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    given = await ask();
  }
  const gone = closedItem.value;
  if (gone?.item === item) closedItem.value = { ...gone, given };
}
