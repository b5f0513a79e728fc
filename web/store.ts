import { computed, effect, signal } from '@preact/signals';
import type { AgentView, MessageLine, NodeView, WaitingAction, WaitingItem } from '../src/http/dashboard/facts.js';
import { ApiError, openSession, post, read, readEvents, type StreamEvent } from './api.js';
import { TEXT } from './text.js';

/** The one store of the page. It is fed by the one stream; views only read it. */
export type View = 'needs' | 'agents' | 'messages';

export const view = signal<View>('needs');
export const node = signal<NodeView | undefined>(undefined);
/** Undefined until they first arrive. */
export const waiting = signal<readonly WaitingItem[] | undefined>(undefined);
export const agents = signal<readonly AgentView[] | undefined>(undefined);
/** Newest first. */
export const messages = signal<readonly MessageLine[] | undefined>(undefined);
export const connection = signal<'connecting' | 'live' | 'broken'>('connecting');
/** Why the page has no session. */
export const closed = signal<'used' | 'ended' | undefined>(undefined);
/** Parts that the node could not read, with the reason. */
export const staleParts = signal<Readonly<Record<string, string>>>({});
export const sampled = signal<{ readonly shown: number; readonly total: number } | undefined>(undefined);
export const now = signal(Date.now());
export const lastHeard = signal<number | undefined>(undefined);
/** The outcome of the last answer, for people and screen readers. */
export const notice = signal('');

const selectedId = signal<string | undefined>(undefined);
export const selected = computed(() => {
  const items = waiting.value ?? [];
  return items.find(({ id }) => id === selectedId.value) ?? items[0];
});
/** When the selection last changed without the owner's doing. */
let movedAt = 0;
effect(() => {
  const id = selected.value?.id;
  if (id === undefined || id === selectedId.value) return;
  selectedId.value = id;
  movedAt = Date.now();
});

const SETTLED_MS = 500;

/** A key must not answer an item that took the place of another one a moment ago. */
export function isSettled(): boolean {
  return Date.now() - movedAt >= SETTLED_MS;
}

effect(() => {
  const count = waiting.value?.length ?? 0;
  document.title = count === 0 ? TEXT.product : `(${count}) ${TEXT.product}`;
});

/** The item whose reply is being written. */
export const replying = signal<string | undefined>(undefined);
/** Items whose answer is under way. */
export const busy = signal<ReadonlySet<string>>(new Set());

const isNarrow = matchMedia('(max-width: 899px)');
export const narrow = signal(isNarrow.matches);
isNarrow.addEventListener('change', () => {
  narrow.value = isNarrow.matches;
});

export const isStale = computed(() => connection.value !== 'live');

const MAX_MESSAGES = 300;
const LATEST = 200;
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 2_000;
const SAMPLED_MS = 3_000;

let lastId: string | undefined;

/** Opens the session of a link, if the address has one, and follows the stream for as long as the page is open. */
export async function begin(): Promise<void> {
  setInterval(() => {
    now.value = Date.now();
  }, 1_000);
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token !== null) {
    // The token must not stay in the address or the history.
    history.replaceState(null, '', location.pathname);
    try {
      await openSession(token);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      closed.value = 'used';
      return;
    }
  }
  let pause = FIRST_RETRY_MS;
  while (closed.value === undefined) {
    try {
      await readEvents(lastId, (event) => {
        pause = FIRST_RETRY_MS;
        connection.value = 'live';
        lastHeard.value = Date.now();
        if (event) take(event);
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) closed.value = 'ended';
    }
    connection.value = lastHeard.value === undefined ? 'connecting' : 'broken';
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(MAX_RETRY_MS, pause * 2);
  }
}

function take({ id, name, data }: StreamEvent): void {
  switch (name) {
    case 'hello':
      node.value = data as NodeView;
      return;
    case 'waiting':
      waiting.value = data as readonly WaitingItem[];
      fresh('waiting');
      return;
    case 'agents':
      agents.value = data as readonly AgentView[];
      fresh('agents');
      return;
    case 'message':
      lastId = id;
      messages.value = [data as MessageLine, ...(messages.value ?? [])].slice(0, MAX_MESSAGES);
      return;
    case 'reset':
      lastId = id;
      void readMessages();
      return;
    case 'sampled':
      note(data as { shown: number; total: number });
      return;
    case 'stale': {
      const { what, reason } = data as { what: string; reason: string };
      staleParts.value = { ...staleParts.value, [what]: reason };
      return;
    }
  }
}

/**
 * Events are missing, so the messages are read from the journal. Lines that only the page has stay: they arrived meanwhile,
 * or a node that was killed had not stored them yet.
 */
async function readMessages(): Promise<void> {
  try {
    const { messages: latest } = await read<{ messages: readonly MessageLine[] }>(`/api/messages?limit=${LATEST}`);
    const stored = new Set(latest.map(({ id }) => id));
    const own = (messages.value ?? []).filter(({ id }) => !stored.has(id));
    messages.value = [...own, ...latest].sort((a, b) => b.at - a.at).slice(0, MAX_MESSAGES);
    fresh('messages');
  } catch (error) {
    staleParts.value = { ...staleParts.value, messages: String((error as Error).message) };
  }
}

export function keyOf({ id, to, code }: MessageLine): string {
  return `${id} ${to} ${code}`;
}

function fresh(part: string): void {
  if (!(part in staleParts.value)) return;
  const { [part]: _, ...rest } = staleParts.value;
  staleParts.value = rest;
}

let sampledEnds: ReturnType<typeof setTimeout> | undefined;

function note(counts: { shown: number; total: number }): void {
  sampled.value = counts;
  clearTimeout(sampledEnds);
  sampledEnds = setTimeout(() => {
    sampled.value = undefined;
  }, SAMPLED_MS);
}

export function select(id: string): void {
  movedAt = 0;
  selectedId.value = id;
}

/** Selects the item that is so many places further. */
export function move(by: number): void {
  const items = waiting.value ?? [];
  const at = items.findIndex(({ id }) => id === selected.value?.id);
  const next = items[Math.min(items.length - 1, Math.max(0, at + by))];
  if (next) select(next.id);
}

export async function answer(item: WaitingItem, action: WaitingAction, text?: string): Promise<void> {
  if (busy.value.has(item.id)) return;
  busy.value = new Set([...busy.value, item.id]);
  try {
    await post(`/api/waiting/${encodeURIComponent(item.id)}`, { action, ...(text !== undefined && { text }) });
    notice.value = TEXT.answered(action);
    // The stream sends the new list; until then the answered item must not be answered again.
    waiting.value = (waiting.value ?? []).filter(({ id }) => id !== item.id);
    if (replying.value === item.id) replying.value = undefined;
  } catch (error) {
    const missing = error instanceof ApiError && error.status === 404;
    if (error instanceof ApiError && error.status === 401) closed.value = 'ended';
    notice.value = missing ? TEXT.gone : TEXT.failed(String((error as Error).message));
  } finally {
    busy.value = new Set([...busy.value].filter((id) => id !== item.id));
  }
}
