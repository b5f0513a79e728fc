import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { EventFeed } from './event-feed.js';
import type { DashboardSource, MessageLine } from './facts.js';

/** A reader whose unread output has a given size. */
class Reader extends EventEmitter {
  writableLength = 0;
  text = '';
  destroyed = false;

  writeHead() {}
  write(text: string) {
    this.text += text;
    return true;
  }
  end() {}
  destroy() {
    this.destroyed = true;
    this.emit('close');
  }

  get response(): ServerResponse {
    return this as unknown as ServerResponse;
  }
}

const LINE: MessageLine = {
  ...{
    id: 'm',
    seq: null,
    at: 1,
    from: 'sun',
    to: 'mars',
    type: 'request',
    thread: null,
    code: null,
    reason: null,
    text: null,
  },
};

function start() {
  const runtime = new SimulatedRuntime({ seed: 1 });
  const following: AbortSignal[] = [];
  let reads = 0;
  let tell = () => {};
  let routed = 0;
  const source: DashboardSource = {
    node: () => ({ node: 'k', name: 'n', version: '1' }),
    run: async () => {
      reads++;
      return [];
    },
    routed: () => routed,
    follow(each, signal) {
      following.push(signal);
      tell = () => {
        routed++;
        each(LINE);
      };
    },
  };
  const feed = new EventFeed(runtime, source);
  const open = (reader: Reader, lastEventId?: string) => {
    const read = { key: 'waiting', name: 'waiting', params: {}, viewer: undefined };
    return feed.open(reader.response, { lastEventId, reads: [read], messages: {} });
  };
  return { runtime, feed, open, following, tell: () => tell(), reads: () => reads };
}

describe('a feed for pages', () => {
  it('passes over a reader that is slow, tells it so, and disconnects one that has stopped [FC.4]', async () => {
    const { runtime, open, tell } = start();
    const [quick, slow] = [new Reader(), new Reader()];
    await open(quick);
    await open(slow);
    slow.writableLength = 2 * 1_048_576;
    for (let count = 0; count < 10; count++) tell();
    await runtime.advance(1_000);
    expect(quick.text.match(/event: message/g)).toHaveLength(10);
    expect(quick.text).not.toContain('sampled');
    expect(slow.text).not.toContain('event: message');
    expect(slow.text).toContain('event: sampled\ndata: {"shown":0,"total":10}');
    slow.writableLength = 9 * 1_048_576;
    await runtime.advance(1_000);
    expect([quick.destroyed, slow.destroyed]).toEqual([false, true]);
  });

  it('reads nothing while no page is open, and begins numbers again after a while [FC.4]', async () => {
    const { runtime, feed, open, following, reads, tell } = start();
    const first = new Reader();
    await open(first);
    tell();
    const [, id] = /id: (\w+-1)\n/.exec(first.text)!;
    first.emit('close');
    const before = reads();
    await runtime.advance(20_000);
    expect([reads(), following[0]!.aborted]).toEqual([before, false]);
    const second = new Reader();
    await open(second, id);
    expect(second.text).not.toContain('event: reset');
    second.emit('close');
    await runtime.advance(40_000);
    expect(following[0]!.aborted).toBe(true);
    const third = new Reader();
    await open(third, id);
    expect(third.text).toContain('event: reset');
    feed.close();
  });
});
