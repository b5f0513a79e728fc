import type { Runtime } from '../../runtime/runtime.js';
import type { SharedLogs } from '../../store/shared/record-log.js';
import type { SharedLogEvent } from './seat-log.js';
import type { SwarmEffect } from './swarm-messages.js';

type BrokerEffect = Extract<SwarmEffect, { type: 'append' | 'read' }>;

/** The shell around a swarm's log at the broker: performs the machine's effects, and reports their answers as events. */
export class BrokerLog {
  readonly #components: { runtime: Runtime; logs: SharedLogs };
  readonly #log: string;
  readonly #onEvent: (event: SharedLogEvent) => void;
  #unwatch: (() => void) | undefined;

  constructor(
    components: { runtime: Runtime; logs: SharedLogs },
    log: string,
    onEvent: (event: SharedLogEvent) => void,
  ) {
    this.#components = components;
    this.#log = log;
    this.#onEvent = onEvent;
  }

  perform(effect: BrokerEffect): void {
    const { logs, runtime } = this.#components;
    const answer: Promise<SharedLogEvent> =
      effect.type === 'append'
        ? logs.append(this.#log, effect.expectedLast, effect.value).then((sequence) => ({ type: 'appended', sequence }))
        : logs.read(this.#log, effect.above).then((tail) => ({ type: 'read', tail }));
    answer.then(this.#onEvent, (error: unknown) => {
      runtime.logger.debug({ swarm: this.#log, err: error }, 'swarm log at the broker did not answer');
      this.#onEvent({ type: 'unanswered' });
    });
  }

  watch(isWanted: boolean): void {
    if (isWanted) this.#unwatch ??= this.#components.logs.watch(this.#log, () => this.#onEvent({ type: 'grown' }));
    else this.close();
  }

  close(): void {
    this.#unwatch?.();
    this.#unwatch = undefined;
  }
}
