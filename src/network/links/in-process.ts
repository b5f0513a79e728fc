import type { Runtime } from '../../runtime/runtime.js';
import type { Link } from './link.js';
import { MemoryLink } from './memory-link.js';

/** A link between two nodes of this process: both ends, the caller's first. */
export function linkInProcess(runtime: Runtime, callerKey: string, calledKey: string): [Link, Link] {
  return MemoryLink.pair(callerKey, calledKey, {
    kind: 'in-process',
    reliable: true,
    handshake: runtime.bytes(32),
    // Never inside `send`: the other side must not run in the middle of this one.
    carry: (_from, parcel) =>
      queueMicrotask(() => {
        parcel.arrive();
        parcel.left();
      }),
  });
}
