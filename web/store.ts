import { computed, effect, signal } from '@preact/signals';
import type { Answered, MessageLine, WaitingAction, WaitingItem } from '../src/http/dashboard/facts.js';
import { ApiError, connection, NoAnswer, post, read, type StreamEvent } from './api.js';
import { begin, closed, follow } from './stream.js';
import { TEXT } from './text.js';
import { noteAnswered, waiting } from './waiting.js';

/** The page's state besides the reads of its views and what waits: the latest messages, answers and notices. */

/** Newest first. */
export const messages = signal<readonly MessageLine[] | undefined>(undefined);
/** Why the messages could not be read. */
export const messagesError = signal<string | undefined>(undefined);
export const sampled = signal<{ readonly shown: number; readonly total: number } | undefined>(undefined);
export const now = signal(Date.now());
/** The outcome of the last answer, for people and screen readers. */
export const notice = signal('');
export const isStale = computed(() => connection.value !== 'live');

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

const MAX_MESSAGES = 300;
const LATEST = 200;
const SAMPLED_MS = 3_000;
const NOTICE_MS = 8_000;

export function start(): void {
  setInterval(() => {
    now.value = Date.now();
  }, 1_000);
  follow('waiting');
  // The names of devices.
  follow('peers');
  void begin(take);
}

function take({ name, data }: StreamEvent): void {
  switch (name) {
    case 'message':
      messages.value = [data as MessageLine, ...(messages.value ?? [])].slice(0, MAX_MESSAGES);
      return;
    case 'reset':
      void readMessages();
      return;
    case 'sampled':
      note(data as { shown: number; total: number });
  }
}

/**
 * Events are missing, so the messages are read from the journal. Lines that only the page has stay: they arrived meanwhile,
 * or a node that was killed had not stored them yet.
 */
async function readMessages(): Promise<void> {
  try {
    const latest = await read<readonly MessageLine[]>(`messages?limit=${LATEST}`);
    const stored = new Set(latest.map(({ id }) => id));
    const own = (messages.value ?? []).filter(({ id }) => !stored.has(id));
    messages.value = [...own, ...latest].sort(newestFirst).slice(0, MAX_MESSAGES);
    messagesError.value = undefined;
  } catch (error) {
    messagesError.value = String((error as Error).message);
  }
}

/** Messages of one millisecond are in the order of the journal. */
function newestFirst(a: MessageLine, b: MessageLine): number {
  return b.at - a.at || (b.seq ?? Number.MAX_SAFE_INTEGER) - (a.seq ?? Number.MAX_SAFE_INTEGER);
}

export function lineKey({ id, to, code }: MessageLine): string {
  return `${id} ${to} ${code}`;
}

let sampledEnds: ReturnType<typeof setTimeout> | undefined;

function note(counts: { shown: number; total: number }): void {
  sampled.value = counts;
  clearTimeout(sampledEnds);
  sampledEnds = setTimeout(() => {
    sampled.value = undefined;
  }, SAMPLED_MS);
}

let noticeEnds: ReturnType<typeof setTimeout> | undefined;

export function tell(text: string): void {
  notice.value = text;
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => {
    notice.value = '';
  }, NOTICE_MS);
}

/** Runs an action of the data API. A failure is shown as a notice, and gives undefined. */
export async function act<T>(name: string, params: unknown): Promise<T | undefined> {
  try {
    return await post<T>(name, params);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) closed.value = 'ended';
    const { message } = error as Error;
    tell(error instanceof NoAnswer ? message : TEXT.failed(message));
    return undefined;
  }
}

export async function answer(item: WaitingItem, action: WaitingAction, text?: string): Promise<void> {
  if (busy.value.has(item.id)) return;
  busy.value = new Set([...busy.value, item.id]);
  try {
    const params = { id: item.id, action, ...(text !== undefined && { text }) };
    const { state, node } = await post<Answered>('waiting.answer', params);
    tell(state === 'sent' ? TEXT.sent(action, item.title, node?.name ?? '') : TEXT.answered(action, item.title));
    if (replying.value === item.id) replying.value = undefined;
    noteAnswered(item, state === 'confirmed');
  } catch (error) {
    const isGone = error instanceof ApiError && error.status === 404;
    const isAnswered = error instanceof ApiError && error.status === 409;
    if (error instanceof ApiError && error.status === 401) closed.value = 'ended';
    const { message } = error as Error;
    tell(
      isGone
        ? TEXT.gone
        : isAnswered
          ? TEXT.elsewhere(message)
          : error instanceof NoAnswer
            ? message
            : TEXT.failed(message),
    );
  } finally {
    busy.value = new Set([...busy.value].filter((id) => id !== item.id));
  }
}
