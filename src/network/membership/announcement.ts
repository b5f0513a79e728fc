import { type Identity, isSignedBy } from './identity.js';

/** Where a node says that it can be called, signed by itself, so that others can pass it on and nobody can make it up. */
export interface Announcement {
  readonly addresses: readonly string[];
  /** When it said so: a later word replaces an earlier one. */
  readonly at: number;
  readonly signature: string;
}

const PURPOSE = 'addresses';

export function announce(identity: Identity, addresses: readonly string[], at: number): Announcement {
  return { addresses, at, signature: identity.sign(PURPOSE, { node: identity.key, addresses, at }) };
}

export function isAnnouncedBy(node: string, { addresses, at, signature }: Announcement): boolean {
  return isSignedBy(node, PURPOSE, { node, addresses, at }, signature);
}
