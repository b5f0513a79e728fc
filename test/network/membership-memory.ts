import type { MembershipState, MembershipStore } from '../../src/network/membership/membership-file.js';

/** A store that outlives the membership of one simulated process. */
export class MembershipMemory implements MembershipStore {
  #state: MembershipState | undefined;

  load(): MembershipState | undefined {
    return this.#state;
  }

  save(state: MembershipState): void {
    this.#state = structuredClone(state);
  }

  clear(): void {
    this.#state = undefined;
  }
}
