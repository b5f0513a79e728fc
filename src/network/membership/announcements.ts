import { type Identity, isSignedBy } from './identity.js';

const ADDRESSES_PURPOSE = 'addresses';

/** A node's own addresses with its signature, so that other nodes can pass them on and cannot forge them. */
export interface Announcement {
  readonly addresses: readonly string[];
  /** A later announcement replaces an earlier one. */
  readonly at: number;
  readonly signature: string;
}

export function announce(identity: Identity, addresses: readonly string[], at: number): Announcement {
  return { addresses, at, signature: identity.sign(ADDRESSES_PURPOSE, { node: identity.key, addresses, at }) };
}

export function isAnnouncedBy(node: string, { addresses, at, signature }: Announcement): boolean {
  return isSignedBy(node, ADDRESSES_PURPOSE, { node, addresses, at }, signature);
}
