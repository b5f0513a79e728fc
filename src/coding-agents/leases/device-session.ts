import type { Runtime } from '../../runtime/runtime.js';
import type { Registers } from '../../store/shared/registers.js';
import { CONFIRMED_MS } from './lease-authority.js';
import { readSession, type SessionValue, sessionKey } from './register-values.js';

interface DeviceSessionComponents {
  runtime: Runtime;
  registers: Registers;
  nodeKey: string;
  /** Holders on this device whose process is gone. */
  gone: () => readonly string[];
  /** A session has begun: leases of the one before must be confirmed again. */
  onBegin: () => void;
  onLost: () => void;
}

/** A confirmation with less time left than this is renewed before it is relied on. */
const FRESH_MS = 5_000;
const MAX_TRIES = 5;

/**
 * This device's register, in which it shows that it is alive. Each sign of life replaces the one before, and nothing
 * else: a device that takes this one for dead writes there too, so this one finds out before it relies on its leases again.
 */
export class DeviceSession {
  readonly #components: DeviceSessionComponents;
  #number: number | undefined;
  #scope: string | undefined;
  #revision = 0;
  #beats = 0;
  /** By the wall clock and by the monotonic one: the one stands still while a machine sleeps, the other can be set back. */
  #until = { now: 0, stopwatch: 0 };
  #beating: Promise<void> | undefined;

  constructor(components: DeviceSessionComponents) {
    this.#components = components;
  }

  /** The session; undefined while there is none. */
  get number(): number | undefined {
    return this.#scope === this.#components.registers.scope ? this.#number : undefined;
  }

  /** The number of the latest sign of life, sent or under way. */
  get beats(): number {
    return this.#beats;
  }

  /** Can no other device have taken this one for dead? */
  get isLive(): boolean {
    return this.number !== undefined && this.#left() > 0;
  }

  /** The session, live for some time to come. Rejects with `BROKER_UNREACHABLE`. */
  async ensure(): Promise<number | undefined> {
    if (this.number === undefined || this.#left() < FRESH_MS) await this.beat();
    return this.isLive ? this.number : undefined;
  }

  /** Sends a sign of life, and begins a new session if the one before is over. Rejects with `BROKER_UNREACHABLE`. */
  beat(): Promise<void> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = undefined;
    });
    return this.#beating;
  }

  #left(): number {
    const { runtime } = this.#components;
    return Math.min(this.#until.now - runtime.now(), this.#until.stopwatch - runtime.stopwatch());
  }

  async #beat(): Promise<void> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (await (this.number === undefined ? this.#begin() : this.#continue(this.number))) return;
    }
  }

  async #begin(): Promise<boolean> {
    const { registers, nodeKey, onBegin } = this.#components;
    const { scope } = registers;
    const { revision } = await registers.read(sessionKey(nodeKey));
    // More than the number of any session before: those were at most the revision of their own register.
    const session = revision + 1;
    const sent = this.#clocks();
    const written = await registers.write(sessionKey(nodeKey), this.#value(session), revision);
    if (written === undefined || registers.scope !== scope) return false;
    onBegin();
    this.#scope = scope;
    this.#number = session;
    this.#confirmed(written, sent);
    return true;
  }

  async #continue(session: number): Promise<boolean> {
    const { registers, nodeKey, onLost } = this.#components;
    const key = sessionKey(nodeKey);
    const sent = this.#clocks();
    const written = await registers.write(key, this.#value(session), this.#revision);
    if (written !== undefined) {
      if (this.number === session) this.#confirmed(written, sent);
      return true;
    }
    const entry = await registers.read(key);
    const value = entry.writer === nodeKey ? readSession(entry) : undefined;
    // An earlier sign of life was written, and its answer was lost.
    const goesOn = value?.session === session && value.closed !== true && entry.revision > this.#revision;
    if (goesOn) this.#revision = entry.revision;
    else {
      this.#number = undefined;
      onLost();
    }
    return false;
  }

  #value(session: number): SessionValue {
    return { session, beat: ++this.#beats, gone: this.#components.gone().slice(0, 1_000) };
  }

  #clocks(): { now: number; stopwatch: number } {
    const { runtime } = this.#components;
    return { now: runtime.now(), stopwatch: runtime.stopwatch() };
  }

  #confirmed(revision: number, { now, stopwatch }: { now: number; stopwatch: number }): void {
    this.#revision = revision;
    this.#until = { now: now + CONFIRMED_MS, stopwatch: stopwatch + CONFIRMED_MS };
  }
}
