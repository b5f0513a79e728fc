import { PassThrough, Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readLines } from './lines.js';

async function linesOf(chunks: readonly Uint8Array[], maxBytes?: number): Promise<string[]> {
  const lines: string[] = [];
  const stream = Readable.from(chunks, { objectMode: false });
  await readLines(stream, (line) => void lines.push(line), maxBytes);
  return lines;
}

describe('reading lines', () => {
  it('gives every line as it was written, however it is cut into chunks', async () => {
    const line = fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n]/g, ''));
    await fc.assert(
      fc.asyncProperty(
        fc.array(line),
        fc.constantFrom('\n', '\r\n'),
        fc.array(fc.nat(40)),
        async (lines, end, cuts) => {
          const bytes = Buffer.from(lines.map((text) => text + end).join(''));
          const chunks: Buffer[] = [];
          let at = 0;
          for (const cut of cuts) {
            chunks.push(bytes.subarray(at, at + cut + 1));
            at += cut + 1;
          }
          chunks.push(bytes.subarray(at));
          expect(await linesOf(chunks.filter((chunk) => chunk.length > 0))).toEqual(lines);
        },
      ),
    );
  });

  it('gives a last line without an end', async () => {
    expect(await linesOf([Buffer.from('one\n\ntw'), Buffer.from('o')])).toEqual(['one', '', 'two']);
  });

  it('refuses a line that is too long, with an end or without one, and closes the stream', async () => {
    expect(await linesOf([Buffer.from('12345\n1234')], 5)).toEqual(['12345', '1234']);
    for (const text of ['1\n123456\n', '123456', '123\n12345678']) {
      const stream = new PassThrough();
      stream.write(text);
      await expect(readLines(stream, () => {}, 5)).rejects.toMatchObject({ code: 'INVALID_FRAME' });
      expect(stream.destroyed).toBe(true);
    }
  });

  it('reads nothing more while a line is handled', async () => {
    const stream = new PassThrough({ highWaterMark: 1_000 });
    let release = () => {};
    const taken: string[] = [];
    const reading = readLines(stream, (line) => {
      taken.push(line);
      return taken.length === 1 ? new Promise<void>((resolve) => (release = resolve)) : undefined;
    });
    stream.write('first\nsecond\n');
    await new Promise((resolve) => setImmediate(resolve));
    while (stream.write('x'.repeat(99).concat('\n')));
    await new Promise((resolve) => setImmediate(resolve));
    expect(taken).toEqual(['first']);
    expect(stream.writableNeedDrain).toBe(true);
    release();
    stream.end();
    await reading;
    expect(taken.length).toBeGreaterThan(10);
  });

  it('ends when the stream is closed from this side', async () => {
    const stream = new PassThrough();
    const reading = readLines(stream, () => {});
    stream.destroy();
    await reading;
  });

  it('passes on an error of the handler', async () => {
    const stream = Readable.from([Buffer.from('one\n')], { objectMode: false });
    const failing = readLines(stream, () => {
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
  });
});
