import { type ServerSentEvent, SseReader } from '../../../src/system/fetch/sse.js';
import { type FuzzTarget, mustEqual } from '../fuzz-target.js';

async function* cut(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function read(bytes: Buffer, size: number) {
  const reader = new SseReader({ maxEventBytes: 2_048 });
  const events: ServerSentEvent[] = [];
  try {
    for await (const event of reader.read(cut(bytes, size))) events.push(event);
  } catch (error) {
    return { error: String(error) };
  }
  return { events, last: reader.lastEventId, retry: reader.retryMs };
}

/** The algorithm of the HTML standard, as it is written there, on the whole text. */
function asTheStandardSays(bytes: Buffer): ServerSentEvent[] {
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  const events: ServerSentEvent[] = [];
  const lines = text.split(/\r\n|\r|\n/);
  // What follows the last end of a line is incomplete.
  lines.pop();
  let [data, type, id] = ['', '', ''];
  for (const line of lines) {
    if (line === '') {
      if (data !== '') events.push({ type: type || 'message', data: data.slice(0, -1), id });
      [data, type] = ['', ''];
      continue;
    }
    const [, name = '', value = ''] = /^([^:]*)(?:: ?([\s\S]*))?$/.exec(line) ?? [];
    if (name === 'data') data += `${value}\n`;
    else if (name === 'event') type = value;
    else if (name === 'id' && !value.includes('\0')) id = value;
  }
  return events;
}

/** The events are those of the standard, and the same however the stream is cut. */
export const target: FuzzTarget = {
  name: 'sse',
  about: 'server-sent events',
  seeds: [
    'data: a\n\n',
    'id: 1\r\nevent: x\r\ndata: a\r\ndata: b\r\n\r\n',
    '\ufeff: c\rdata\r\rretry: 5\n\n',
    'data:é\n\nid: \0\n',
  ],
  words: ['data:', 'id:', 'event:', 'retry:', '\r\n', '\n\n', '\ufeff'],
  async run(input) {
    const whole = await read(input, input.length || 1);
    mustEqual(await read(input, 1), whole, 'byte by byte');
    mustEqual(await read(input, 3), whole, 'in threes');
    // A line end within a cut character is the same to both, so only whole texts are compared.
    if ('events' in whole && Buffer.from(input.toString('utf8')).equals(input)) {
      mustEqual(whole.events, asTheStandardSays(input), 'as the standard says');
    }
  },
};
