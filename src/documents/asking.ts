import type { Runtime, Timer } from '../runtime/runtime.js';
import type { LiveMember, Members } from './members.js';
import type { Replica } from './replica.js';
import { patience } from './sending.js';

export interface AskingComponents {
  runtime: Runtime;
  replica: Replica;
  members: Members;
  isLocal: (address: string) => boolean;
  /** Asks that member for what is missing here. */
  ask: (member: LiveMember) => void;
}

/** A segment that is missing may be on its way: so long before it is asked for. */
const PAUSE_MS = 50;
/** An answer that takes longer is asked of somebody else. */
const ANSWER_MS = 5_000;

/** Who is asked for what is missing here: one member at a time, and less and less often who gives what is no good. */
export class Asking {
  readonly #components: AskingComponents;
  #asked: { readonly member: LiveMember; readonly timer: Timer } | undefined;
  #timer: Timer | undefined;
  #open = false;

  constructor(components: AskingComponents) {
    this.#components = components;
  }

  /** Others may have said what they have before anything could be asked. */
  start(): void {
    this.#open = true;
    this.soon();
  }

  close(): void {
    this.#open = false;
    this.#timer?.cancel();
    this.#asked?.timer.cancel();
  }

  /** Asks, if something is still missing in a moment. */
  soon(): void {
    if (this.#timer || !this.#open || !this.#source(false)) return;
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.now();
    }, PAUSE_MS);
  }

  /** Asks one of those that have what is missing, unless an answer is on its way. */
  now(): void {
    if (this.#asked || !this.#open) return;
    const member = this.#source(true);
    if (!member) {
      this.soon();
      return;
    }
    const timer = this.#components.runtime.setTimer(() => {
      this.#asked = undefined;
      this.mistake(member);
      this.now();
    }, ANSWER_MS);
    this.#asked = { member, timer };
    this.#components.ask(member);
  }

  /** A member answered, with that many segments that were of use. */
  answered(member: LiveMember, gained: number): void {
    if (this.#asked?.member !== member) return;
    this.#end();
    // Who has what is missing here, and does not give it, is not asked again at once.
    if (gained === 0 && this.#components.replica.lacks(member.vector)) this.mistake(member);
    this.now();
  }

  forget(member: LiveMember): void {
    if (this.#asked?.member !== member) return;
    this.#end();
    this.soon();
  }

  mistake(member: LiveMember): void {
    member.askAfter = this.#components.runtime.stopwatch() + patience(member.mistakes++);
  }

  #end(): void {
    this.#asked?.timer.cancel();
    this.#asked = undefined;
  }

  /** Of those that have more: one of this node, else anyone; with `now`, only whoever may be asked now. */
  #source(now: boolean): LiveMember | undefined {
    const { replica, runtime, members, isLocal } = this.#components;
    const time = runtime.stopwatch();
    const sources = [...members].filter((member) => {
      return (!now || member.askAfter <= time) && replica.lacks(member.vector);
    });
    return sources.find(({ address }) => isLocal(address)) ?? sources[Math.floor(runtime.random() * sources.length)];
  }
}
