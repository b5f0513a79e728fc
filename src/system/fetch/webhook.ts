import { wait } from '../../runtime/async.js';
import { backoffMs } from '../../runtime/backoff.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type FetchOptions, guardedFetch } from './guarded-fetch.js';

export interface WebhookPost extends Pick<FetchOptions, 'headers' | 'connections' | 'allowPrivate'> {
  readonly body: string;
  readonly signal: AbortSignal;
  /** Default 5. */
  readonly attempts?: number;
  /** Called with each attempt that failed. */
  readonly onFailure?: (attempt: number, reason: string) => void;
}

/** The receiver's status, or why it was not reached. */
export type WebhookOutcome = { readonly status: number } | { readonly failure: string };

const ATTEMPTS = 5;
const FIRST_DELAY_MS = 1_000;
const TIMEOUT_MS = 15_000;

/** Posts to a webhook, and repeats it with growing pauses while the receiver is away, fails or is busy. */
export async function postWebhook(runtime: Runtime, url: string, post: WebhookPost): Promise<WebhookOutcome> {
  const { signal, attempts = ATTEMPTS, onFailure, ...rest } = post;
  const options = { ...rest, method: 'POST', timeoutMs: TIMEOUT_MS, redirects: 0, signal };
  let failure = 'the node stops';
  for (let attempt = 1; attempt <= attempts && !signal.aborted; attempt++) {
    try {
      const { status } = await guardedFetch(runtime, url, options);
      if (status < 500 && status !== 429) return { status };
      failure = `it answered ${status}`;
    } catch (error) {
      failure = describeError(error);
      onFailure?.(attempt, failure);
    }
    if (attempt < attempts) await wait(runtime, backoffMs(attempt - 1, FIRST_DELAY_MS), signal);
  }
  return { failure };
}
