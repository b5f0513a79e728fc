import type { RoutingResult } from '../mesh/schemas.js';
import { backoffMs } from '../runtime/backoff.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { LiveMember, Members } from './members.js';
import type { SyncMessage } from './sync-message.js';

export interface SendingComponents {
  runtime: Runtime;
  members: Members;
  post: (to: string, message: SyncMessage) => RoutingResult | Promise<RoutingResult>;
  /** It has got everything that was on its way, or could not be reached: it is to be told how far this replica is. */
  tell: (member: LiveMember) => void;
  /** Something that was on its way has arrived, or has not. */
  onSettled: () => void;
}

/** New segments on their way to one member; with more than that, it gets none until it has caught up. */
const MAX_IN_FLIGHT = 64;
const MAX_IN_FLIGHT_BYTES = 1_048_576;
const RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/** Whoever did something wrong has to wait, longer each time. */
export function patience(times: number): number {
  return backoffMs(times, RETRY_MS, MAX_RETRY_MS);
}

/** What is on its way to the members: never more than a slow link bears; who missed something is told so, and asks. */
export class Sending {
  readonly #components: SendingComponents;
  readonly #retries = new Map<LiveMember, Timer>();
  #closed = false;

  constructor(components: SendingComponents) {
    this.#components = components;
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#retries.values()) timer.cancel();
    this.#retries.clear();
  }

  forget(member: LiveMember): void {
    this.#retries.get(member)?.cancel();
    this.#retries.delete(member);
  }

  /** May it be sent new segments now? If not, it is behind from now on. */
  hasRoom(member: LiveMember): boolean {
    if (member.inFlight >= MAX_IN_FLIGHT || member.inFlightBytes > MAX_IN_FLIGHT_BYTES) member.behind = true;
    return !member.behind;
  }

  send(member: LiveMember, message: SyncMessage, bytes = 0): void {
    member.inFlight++;
    member.inFlightBytes += bytes;
    const settle = (delivered: boolean) => {
      member.inFlight--;
      member.inFlightBytes -= bytes;
      if (this.#closed || this.#components.members.get(member.address) !== member) return;
      if (!delivered) this.#retryLater(member);
      else if (member.behind && member.inFlight === 0) this.#resume(member);
      else member.failures = 0;
      this.#components.onSettled();
    };
    const result = this.#components.post(member.address, message);
    if (result instanceof Promise) {
      result.then(
        ({ delivered }) => settle(delivered),
        () => settle(false),
      );
    } else settle(result.delivered);
  }

  /** From here on it gets new segments again; what it missed, it asks for. */
  #resume(member: LiveMember): void {
    member.behind = false;
    this.#components.tell(member);
  }

  #retryLater(member: LiveMember): void {
    member.behind = true;
    if (this.#retries.has(member)) return;
    const timer = this.#components.runtime.setTimer(
      () => {
        this.#retries.delete(member);
        this.#resume(member);
      },
      patience(member.failures++),
    );
    this.#retries.set(member, timer);
  }
}
