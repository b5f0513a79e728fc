import * as Y from 'yjs';
import { Segment } from './segment.js';

/** Several segments of one author, each following the one before, as one. The same segments always give the same. */
export function merged(run: readonly Segment[]): Segment {
  const [{ stream, first, after }] = run as [Segment, ...Segment[]];
  const update = Y.mergeUpdates(run.map((segment) => segment.update));
  return new Segment({ stream, first, number: run.at(-1)!.number, after, update });
}
