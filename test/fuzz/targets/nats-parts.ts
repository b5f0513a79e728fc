import { BatchParts, partsOf } from '../../../src/nats/batch-parts.js';
import { type FuzzTarget, must } from '../fuzz-target.js';
import { Decisions } from '../shaped-input.js';

const ID = 'i'.repeat(43);
const MAX_BYTES = 2_048;
const header = (text: string) => ({ get: () => text }) as never;

/** A batch in parts is whole only if every part came in order; other senders and broken parts change nothing. */
export const target: FuzzTarget = {
  name: 'nats-parts',
  about: 'parts of batches at a broker',
  seeds: ['\x40\x08\0\x01\x02\x03', '\x20\x04\0\0\x01\x02', Buffer.alloc(30, 1)],
  maxBytes: 200,
  run(input) {
    const decisions = new Decisions(input);
    const bytes = Buffer.from(Array.from({ length: 1 + decisions.below(200) }, (_, at) => at % 251));
    const parts = [...partsOf(ID, bytes, 1 + decisions.below(60))];
    const taken = new BatchParts({ maxBytes: MAX_BYTES, maxSenders: 2 });
    let next = 0;
    for (let count = 0; count < 64 && !decisions.isOver; count++) {
      const choice = decisions.below(8);
      if (choice === 0) {
        taken.take('other', header(decisions.text(50)), decisions.bytes(20));
        continue;
      }
      const at = choice < 6 ? next % parts.length : decisions.below(parts.length);
      const [text, data] = parts[at]!;
      const outcome = taken.take('node', header(text), data);
      next = outcome === 'broken' ? 0 : at + 1;
      if (outcome instanceof Uint8Array && parts.length > 1) {
        must(Buffer.from(outcome).equals(bytes), () => 'a whole batch differs from what was sent');
        next = 0;
      }
    }
    taken.clear();
    // Whatever came before, a batch that comes whole is taken.
    if (parts.length < 2) return;
    const outcomes = parts.map(([text, data]) => taken.take('node', header(text), data));
    must(Buffer.from(outcomes.at(-1) as Uint8Array).equals(bytes), () => `not whole: ${outcomes.at(-1)}`);
  },
};
