import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SseReader } from '../../system/fetch/sse.js';
import { readCursor, writeCursor } from '../protocol/headers.js';
import { encodeSse, SSE_HEARTBEAT } from './event-stream.js';

describe('server-sent events', () => {
  it('come out of the reader as they went in', async () => {
    const event = fc.record({
      data: fc.jsonValue().map((value) => JSON.stringify(value)),
      id: fc.option(fc.stringMatching(/^[a-z]{1,5}:\d{1,3}$/), { nil: undefined }),
      quiet: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(event), async (sent) => {
        const wire = sent.map(({ data, id, quiet }) => encodeSse(data, id) + (quiet ? SSE_HEARTBEAT : '')).join('');
        const reader = new SseReader();
        const got: string[] = [];
        for await (const { data } of reader.read(only(Buffer.from(wire)))) got.push(data);
        expect(got).toEqual(sent.map(({ data }) => data));
        expect(reader.lastEventId).toBe(sent.findLast(({ id }) => id !== undefined)?.id ?? '');
      }),
    );
  });
});

describe('a stream cursor', () => {
  it('says after which event of which task to go on', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1 }).filter((id) => id.trim() === id),
        fc.nat(),
        (taskId, sequence) => {
          expect(readCursor(writeCursor(taskId, sequence), taskId)).toBe(sequence);
        },
      ),
    );
    for (const none of [undefined, '', ' ']) expect(readCursor(none, 't')).toBeUndefined();
    for (const bad of ['5', 't', 't:', 't:-1', 't:01', 't:1e3', 'other:5', 't:99999999999999999999']) {
      expect(() => readCursor(bad, 't')).toThrow(expect.objectContaining({ code: 'INVALID_PARAMS' }));
    }
  });
});

async function* only(chunk: Buffer): AsyncGenerator<Buffer> {
  yield chunk;
}
