import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ServerSentEvent, type SseInit, SseReader } from './sse.js';

describe('an event stream', () => {
  it('gives events with type, data and id', async () => {
    expect(await read('data: one\n\nevent: task\nid: 7\ndata:two\ndata:  three\n\ndata: four\n\n')).toEqual([
      { type: 'message', data: 'one', id: '' },
      { type: 'task', data: 'two\n three', id: '7' },
      { type: 'message', data: 'four', id: '7' },
    ]);
  });

  it('accepts CRLF, LF and CR as line ends, and skips a byte order mark', async () => {
    expect(await read('\uFEFFdata: a\r\ndata: b\r\r\ndata: c\n\r\n')).toEqual([
      { type: 'message', data: 'a\nb', id: '' },
      { type: 'message', data: 'c', id: '' },
    ]);
    expect(await read('\uFEFF\uFEFFdata: a\n\ndata: \uFEFFb\n\n')).toEqual([
      { type: 'message', data: '\uFEFFb', id: '' },
    ]);
  });

  it('ignores comments, unknown fields, ids with NUL and half an event at the end', async () => {
    const reader = new SseReader();
    const events = await collect(
      reader.read(pieces(': hi\n:\nfoo: bar\ndata\n\nid: a\0b\nretry: 12x\nretry: 3000\nid: 5\n\ndata: lost\n')),
    );
    expect(events).toEqual([{ type: 'message', data: '', id: '' }]);
    expect(reader.lastEventId).toBe('5');
    expect(reader.retryMs).toBe(3_000);
  });

  it('does not change the id before the event is complete', async () => {
    const reader = new SseReader();
    await collect(reader.read(pieces('id: 1\ndata: a\n\nid: 2\ndata: half')));
    expect(reader.lastEventId).toBe('1');
  });

  it('gives an event as soon as its last line ends, also by a lone CR', async () => {
    const reader = new SseReader();
    async function* open() {
      yield Buffer.from('data: a\r\r');
      await new Promise(() => {});
    }
    expect((await reader.read(open()).next()).value).toEqual({ type: 'message', data: 'a', id: '' });
  });

  it('is the same for any division into chunks [SF6]', async () => {
    const line = fc.oneof(
      fc.constantFrom(
        '',
        '',
        'data',
        'data:',
        'data: x',
        'id: 1',
        'id',
        'event: e',
        'retry: 5',
        ': c',
        '\uFEFF',
        'data: ü€😀',
      ),
      fc.string({ unit: 'binary', maxLength: 12 }),
    );
    const stream = fc
      .array(fc.tuple(line, fc.constantFrom('\n', '\r', '\r\n')), { maxLength: 30 })
      .map((lines) => Buffer.from(lines.flat().join('')));
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(stream, fc.uint8Array({ maxLength: 60 }).map(Buffer.from)),
        fc.array(fc.nat(200), { maxLength: 20 }),
        fc.constantFrom(8, 20, 1_000),
        async (bytes, cuts, maxEventBytes) => {
          const whole = await outcome([bytes], { maxEventBytes });
          expect(await outcome(cut(bytes, cuts), { maxEventBytes })).toEqual(whole);
          expect(
            await outcome(
              [...bytes].map((byte) => Buffer.of(byte)),
              { maxEventBytes },
            ),
          ).toEqual(whole);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('returns any data that was written as specified [SF6]', async () => {
    const text = fc.string({ unit: 'grapheme' }).map((value) => value.replaceAll('\r', ''));
    await fc.assert(
      fc.asyncProperty(fc.array(text, { maxLength: 10 }), async (all) => {
        const written = all
          .map((data) =>
            data
              .split('\n')
              .map((part) => `data: ${part}\n`)
              .join(''),
          )
          .join('\n');
        expect((await read(`${written}\n`)).map((event) => event.data)).toEqual(all);
      }),
    );
  });

  it('refuses an event that is too large: one line, many lines, or a line without end [SF6]', async () => {
    const init = { maxEventBytes: 100 };
    const [line, lines] = [`data: ${'x'.repeat(100)}\n\n`, `${'data: x\n'.repeat(20)}\n`];
    for (const text of [line, lines, 'x'.repeat(200), `:${'x'.repeat(200)}\n`]) {
      await expect(read(text, init)).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE', details: { maxBytes: 100 } });
    }
    expect(await read('data: small enough\n\n'.repeat(1_000), init)).toHaveLength(1_000);
    expect(await read(': beat\n'.repeat(1_000), init)).toEqual([]);
  });
});

function read(text: string, init?: SseInit): Promise<ServerSentEvent[]> {
  return collect(new SseReader(init).read(pieces(text)));
}

async function* pieces(...parts: (string | Buffer)[]) {
  for (const part of parts) yield Buffer.from(part as string);
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}

/** The events, and how it ended. */
async function outcome(chunks: readonly Buffer[], init: SseInit) {
  const reader = new SseReader(init);
  const events: ServerSentEvent[] = [];
  let end = 'ended';
  try {
    for await (const event of reader.read(pieces(...chunks))) events.push(event);
  } catch (error) {
    end = (error as { code: string }).code;
  }
  return { events, end, lastEventId: reader.lastEventId, retryMs: end === 'ended' ? reader.retryMs : undefined };
}

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...[...cuts].filter((at) => at < bytes.length).sort((a, b) => a - b), bytes.length];
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}
