import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { Link } from '../links/link.js';
import { FairReading, ReadingMeter } from './fair-reading.js';

/** A loop whose clock moves only as the test says. */
class Loop extends SimulatedRuntime {
  busy = 1;
  time = 0;

  override stopwatch(): number {
    return this.time;
  }

  loopUse() {
    return { busy: this.busy, state: undefined };
  }
}

class Reader {
  readonly runtime = new Loop();
  readonly #reading = new FairReading(this.runtime);
  readonly #meters = new Map<string, ReadingMeter>();
  readonly said: string[] = [];

  add(name: string): void {
    const meter = new ReadingMeter();
    const note = (what: string) => () => void this.said.push(`${what} ${name}`);
    this.#reading.add(meter, { pause: note('pause'), resume: note('resume') } as unknown as Link);
    this.#meters.set(name, meter);
  }

  remove(name: string): void {
    const meter = this.#meters.get(name)!;
    this.#reading.remove(meter, meter.link!);
  }

  /** One turn of the event loop, in which frames of these peers take so long. */
  async turn(...frames: readonly (readonly [name: string, ms: number, bytes: number])[]): Promise<void> {
    for (const [name, ms, bytes] of frames) {
      this.#reading.heard(this.#meters.get(name)!, bytes);
      this.runtime.time += ms;
    }
    await this.runtime.advance(0);
  }
}

function withPeers(...names: string[]): Reader {
  const reader = new Reader();
  for (const name of names) reader.add(name);
  return reader;
}

describe('a peer that sends in bulk', () => {
  it('is read later while others wait, and again after its pause [HX.2]', async () => {
    const reader = withPeers('honest', 'hostile');
    await reader.turn(['hostile', 15, 60_000], ['honest', 2, 500]);
    expect(reader.said).toEqual(['pause hostile']);
    await reader.runtime.advance(250);
    expect(reader.said).toEqual(['pause hostile', 'resume hostile']);
  });

  it('waits for the work that its frames cause later, too [HX.2]', async () => {
    const reader = withPeers('honest', 'hostile');
    // Twenty milliseconds have passed, of which handling its frames took one.
    reader.runtime.time = 19;
    await reader.turn(['honest', 1, 500], ['hostile', 1, 60_000]);
    expect(reader.said).toEqual(['pause hostile']);
  });

  it('is read at once while the event loop has time for all, or nobody else sends [HX.2]', async () => {
    const idle = withPeers('honest', 'hostile');
    idle.runtime.busy = 0.5;
    await idle.turn(['hostile', 15, 60_000], ['honest', 2, 500]);
    expect(idle.said).toEqual([]);
    const quiet = withPeers('honest', 'hostile');
    await quiet.turn(['hostile', 15, 60_000], ['honest', 0.1, 40]);
    expect(quiet.said).toEqual([]);
  });

  it('takes turns with others that do [HX.2]', async () => {
    const reader = withPeers('one', 'two');
    await reader.turn(['one', 12, 60_000], ['two', 9, 60_000]);
    expect(reader.said).toEqual(['pause one']);
    await reader.turn(['two', 12, 60_000]);
    expect(reader.said).toEqual(['pause one', 'pause two']);
  });
});

describe('a peer that asks and waits', () => {
  it('is never paused, however much time its questions take [HX.2]', async () => {
    const reader = withPeers('honest', 'other');
    for (let count = 0; count < 10; count++) await reader.turn(['honest', 15, 4_000], ['other', 2, 500]);
    expect(reader.said).toEqual([]);
  });
});

it('a link that was replaced is not resumed for its successor [HX.2]', async () => {
  const reader = withPeers('honest', 'hostile');
  await reader.turn(['hostile', 15, 60_000], ['honest', 2, 500]);
  reader.remove('hostile');
  await reader.turn(['honest', 15, 60_000]);
  expect(reader.said).toEqual(['pause hostile']);
});
