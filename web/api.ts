import { signal } from '@preact/signals';
import { parsePlain } from './plain-json.js';
import { TEXT } from './text.js';

export const connection = signal<'connecting' | 'live' | 'broken'>('connecting');

/** The page's key: a request without it is refused, and pages of other origins cannot read it. */
const KEY = 'ecliptic-page-key';
const SESSION = '/api/session';

export class ApiError extends Error {
  readonly status: number;
  /** The code of the catalogue; undefined where the answer has none. */
  readonly code: string | undefined;

  constructor(status: number, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The node could not be reached. */
export class NoAnswer extends Error {}

/** Requests wait for a session that is being opened. */
let opening: Promise<void> = Promise.resolve();

/** Exchanges the token of a link for a session. */
export function openSession(token: string): Promise<void> {
  const opened = exchange(token);
  opening = opened.catch(() => {});
  return opened;
}

async function exchange(token: string): Promise<void> {
  const { key } = await json<{ key: string }>(SESSION, { method: 'POST', body: JSON.stringify({ token }) });
  localStorage.setItem(KEY, key);
}

/** A read by its key: the name of an operation with its query. */
export function read<T>(key: string): Promise<T> {
  return json<T>(`/api/${key}`, {});
}

export function post<T>(name: string, params: unknown): Promise<T> {
  return json<T>(`/api/${name}`, { method: 'POST', body: JSON.stringify(params) });
}

async function json<T>(path: string, init: RequestInit): Promise<T> {
  const response = await call(path, { ...init, headers: { 'Content-Type': 'application/json' } });
  return parsePlain(await response.text()) as T;
}

async function call(path: string, init: RequestInit): Promise<Response> {
  if (path !== SESSION) await opening;
  const headers = { ...(init.headers as Record<string, string>), 'X-Ecliptic-Page': localStorage.getItem(KEY) ?? '' };
  const wasBroken = connection.peek() === 'broken';
  const request = { ...init, headers, cache: 'no-store', credentials: 'same-origin' } as const;
  const response = await fetch(path, request).catch((error: Error) => {
    if (error.name === 'AbortError') throw error;
    // The connection broke during the request, so it may have arrived.
    const { read, sent, unsure } = TEXT.noAnswer;
    throw new NoAnswer(init.method !== 'POST' ? read : wasBroken ? sent : unsure, { cause: error });
  });
  if (response.ok) return response;
  const body = (await response.json().catch(() => ({}))) as { error?: { message?: string; code?: string } };
  throw new ApiError(response.status, body.error?.message ?? `HTTP ${response.status}`, body.error?.code);
}

export interface StreamEvent {
  readonly id: string | undefined;
  readonly name: string;
  readonly data: unknown;
}

/** Without any byte for this long, the connection counts as dead; the node writes every second. */
const SILENCE_MS = 5_000;

export interface StreamRequest {
  readonly lastId: string | undefined;
  /** Reads to follow. */
  readonly keys: readonly string[];
  readonly signal: AbortSignal;
}

/** Reads the event stream until it breaks. `EventSource` cannot send the page's key. */
export async function readEvents(
  { lastId, keys, signal }: StreamRequest,
  each: (event: StreamEvent | undefined) => void,
): Promise<void> {
  const gone = new AbortController();
  const end = () => gone.abort();
  signal.addEventListener('abort', end);
  let silence = setTimeout(end, SILENCE_MS);
  try {
    const headers: Record<string, string> = lastId === undefined ? {} : { 'Last-Event-ID': lastId };
    const query = new URLSearchParams(keys.map((key) => ['read', key]));
    const response = await call(`/api/events?${query}`, { headers, signal: gone.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS);
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop()!;
      for (const block of blocks) each(parse(block));
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener('abort', end);
  }
}

/** Undefined for a comment. */
function parse(block: string): StreamEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 2));
  }
  const data = fields.get('data');
  if (data === undefined) return undefined;
  return { id: fields.get('id'), name: fields.get('event') ?? 'message', data: parsePlain(data) };
}
