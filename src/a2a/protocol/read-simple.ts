import { A2A_LIMITS } from './limits.js';
import { compact, readInteger, readObject, readOptionalText, readText } from './reading.js';
import type { A2ATaskSendParams } from './simple-types.js';

/** How long a simple task may take, in milliseconds. */
export const SIMPLE_TIMEOUT = { smallest: 1_000, usual: 300_000, largest: 600_000 } as const;

/** The body of `POST /a2a/tasks/send`: the parameters under `params`, or at the top level. */
export function readTaskSend(body: unknown): A2ATaskSendParams {
  const above = readObject(body, 'body');
  const nested = above.params !== undefined;
  const place = nested ? 'params' : '';
  const from = nested ? readObject(above.params, place) : above;
  return compact<A2ATaskSendParams>({
    message: readText(from, 'message', place, A2A_LIMITS.contentChars),
    skill: readOptionalText(from, 'skill', place, A2A_LIMITS.nameChars),
    timeoutMs: readInteger(from, 'timeoutMs', place, SIMPLE_TIMEOUT.smallest, SIMPLE_TIMEOUT.largest),
  });
}
