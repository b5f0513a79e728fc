import type { Method } from '../protocol/methods.js';
import type { StreamResponse } from '../protocol/types.js';
import type { CallLimits } from './call-limits.js';

/** What goes with a request besides its parameters. */
export interface Terms {
  readonly limits: CallLimits;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Does the answer come when the agent is done, and not at once? */
  readonly slow?: boolean | undefined;
}

export interface StreamedEvent {
  readonly event: StreamResponse;
  /** Where to go on from; empty where the agent gives no ids. */
  readonly id: string;
}

/** One way to speak with an agent. Parameters and results are in the shape of 1.0, whatever is spoken. */
export interface Transport {
  /** Can this be asked here at all? */
  offers(method: Method): boolean;
  /** The result, which nobody has judged yet. */
  call(method: Method, params: object, terms: Terms): Promise<unknown>;
  stream(method: Method, params: object, terms: Terms): AsyncGenerator<StreamedEvent>;
}

/** May the agent do the work twice when it is asked twice? */
export function isSend(method: Method): boolean {
  return method === 'SendMessage' || method === 'SendStreamingMessage';
}
