import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { Link, LinkListener } from './link.js';
import { type Faults, MemoryNetwork } from './memory-network.js';

const FRAMES = 2_000;

describe('a memory network', () => {
  it('loses about as many frames as it is told to, and no others', async () => {
    const { caller, called, runtime } = open({ loss: 0.25 });
    sendNumbers(caller, FRAMES);
    await runtime.runUntilIdle();
    expect(new Set(called.numbers).size).toBe(called.numbers.length);
    expect(called.numbers.length).toBeGreaterThan(FRAMES * 0.7);
    expect(called.numbers.length).toBeLessThan(FRAMES * 0.8);
  });

  it('loses everything when told to', async () => {
    const { caller, called, runtime } = open({ loss: 1 });
    sendNumbers(caller, FRAMES);
    await runtime.runUntilIdle();
    expect(called.numbers).toEqual([]);
  });

  it('repeats about as many frames as it is told to, and loses none of them', async () => {
    const { caller, called, runtime } = open({ duplication: 0.25 });
    sendNumbers(caller, FRAMES);
    await runtime.runUntilIdle();
    expect(new Set(called.numbers).size).toBe(FRAMES);
    expect(called.numbers.length).toBeGreaterThan(FRAMES * 1.2);
    expect(called.numbers.length).toBeLessThan(FRAMES * 1.3);
    expect(Math.max(...countEach(called.numbers))).toBe(2);
  });

  it('reorders frames when their time under way varies, and keeps all of them', async () => {
    const { caller, called, runtime } = open({ latencyMs: [1, 200] });
    for (let n = 0; n < 200; n++) {
      caller.link.send(Buffer.from(`${n}`));
      await runtime.advance(1);
    }
    await runtime.runUntilIdle();
    expect(called.numbers).not.toEqual(numbersBelow(200));
    expect(called.numbers.toSorted((a, b) => a - b)).toEqual(numbersBelow(200));
  });

  it('keeps the order of frames that all take equally long', async () => {
    const { caller, called, runtime } = open({ latencyMs: [20, 20] });
    for (let n = 0; n < 200; n++) {
      caller.link.send(Buffer.from(`${n}`));
      await runtime.advance(1);
    }
    await runtime.runUntilIdle();
    expect(called.numbers).toEqual(numbersBelow(200));
  });

  it('takes as long as it is told to', async () => {
    const { caller, called, runtime } = open({ latencyMs: [40, 60] });
    sendNumbers(caller, 100);
    await runtime.advance(39);
    expect(called.numbers).toEqual([]);
    await runtime.advance(22);
    expect(called.numbers.length).toBe(100);
  });

  it('applies changed faults from then on', async () => {
    const { caller, called, runtime, network } = open();
    network.faults = { ...network.faults, loss: 1 };
    sendNumbers(caller, 10);
    await runtime.runUntilIdle();
    network.faults = { ...network.faults, loss: 0 };
    caller.link.send(Buffer.from('10'));
    await runtime.runUntilIdle();
    expect(called.numbers).toEqual([10]);
  });

  it('may lose or repeat the news of a close as well', async () => {
    const lost = open({ loss: 1 });
    lost.caller.link.close();
    await lost.runtime.runUntilIdle();
    expect([lost.caller.closes.length, lost.called.closes.length]).toEqual([1, 0]);
    const repeated = open({ duplication: 1 });
    repeated.caller.link.close();
    await repeated.runtime.runUntilIdle();
    expect([repeated.caller.closes.length, repeated.called.closes.length]).toEqual([1, 1]);
  });

  it('says that its links are not reliable', () => {
    const { caller, called } = open();
    expect([caller.link.reliable, called.link.reliable]).toEqual([false, false]);
  });
});

describe('a sender on a memory network', () => {
  it.each([0, 0.5, 1])('is told to go on even when %d of its frames are lost', async (loss) => {
    const { caller, runtime } = open({ loss });
    for (let round = 1; round <= 20; round++) {
      while (caller.link.send(new Uint8Array(50_000)));
      await runtime.advance(5);
      expect(caller.drains).toBe(round);
    }
  });

  it('is told to go on while the network is cut', async () => {
    const { caller, runtime, network } = open();
    network.cut('caller', 'called');
    while (caller.link.send(new Uint8Array(50_000)));
    await runtime.advance(5);
    expect(caller.drains).toBe(1);
  });
});

describe('a cut in a memory network', () => {
  it('lets nothing through either way, and closes no link', async () => {
    const { caller, called, runtime, network } = open();
    network.cut('called', 'caller');
    sendNumbers(caller, 10);
    sendNumbers(called, 10);
    await runtime.advance(60_000);
    expect([caller.numbers, called.numbers]).toEqual([[], []]);
    expect([caller.closes, called.closes]).toEqual([[], []]);
  });

  it('stops frames that were under way', async () => {
    const { caller, called, runtime, network } = open({ latencyMs: [10, 10] });
    sendNumbers(caller, 1);
    await runtime.advance(5);
    network.cut('caller', 'called');
    await runtime.runUntilIdle();
    expect(called.numbers).toEqual([]);
  });

  it('keeps the news of a close from the other end', async () => {
    const { caller, called, runtime, network } = open();
    network.cut('caller', 'called');
    caller.link.close();
    await runtime.runUntilIdle();
    network.heal('caller', 'called');
    await runtime.runUntilIdle();
    expect([caller.closes.length, called.closes.length]).toEqual([1, 0]);
  });

  it('lets no new link come about until it is healed', () => {
    const { network } = open();
    network.cut('caller', 'called');
    expect(network.connect('caller', 'called')).toBeUndefined();
    expect(network.connect('called', 'caller')).toBeUndefined();
    expect(network.connect('caller', 'third')).toBeDefined();
    network.heal('called', 'caller');
    expect(network.connect('caller', 'called')).toBeDefined();
  });

  it('can be healed, and the link goes on where it was, without what got lost', async () => {
    const { caller, called, runtime, network } = open();
    network.cut('caller', 'called');
    sendNumbers(caller, 5);
    await runtime.runUntilIdle();
    network.heal('caller', 'called');
    caller.link.send(Buffer.from('5'));
    called.link.send(Buffer.from('6'));
    await runtime.runUntilIdle();
    expect([caller.numbers, called.numbers]).toEqual([[6], [5]]);
  });

  it('concerns no other nodes, and all of them are healed together', async () => {
    const runtime = new SimulatedRuntime();
    const network = new MemoryNetwork(runtime);
    const [, b] = connect(network, 'a', 'b');
    const [c, d] = connect(network, 'c', 'd');
    network.cut('a', 'b');
    network.cut('a', 'c');
    sendNumbers(c, 3);
    await runtime.runUntilIdle();
    expect(d.numbers.toSorted()).toEqual([0, 1, 2]);
    network.healAll();
    for (const [one, other] of [
      ['a', 'b'],
      ['a', 'c'],
    ] as const) {
      expect(network.connect(one, other)).toBeDefined();
    }
    expect(b.numbers).toEqual([]);
  });
});

describe('a crash in a memory network', () => {
  it('ends every link of the node at both ends', async () => {
    const { runtime, network, a, b, c, d } = triangle();
    network.crash('a', false);
    await runtime.runUntilIdle();
    for (const end of [a.toB, a.toC, b, c]) {
      expect(end.closes).toEqual([{ reason: 'the connection broke', tampered: false }]);
    }
    expect([d.toB.closes, d.fromB.closes]).toEqual([[], []]);
  });

  it('is not reported to the others when it is silent, and their frames vanish', async () => {
    const { runtime, network, a, b, c } = triangle();
    network.crash('a', true);
    expect([a.toB.closes.length, a.toC.closes.length]).toEqual([1, 1]);
    sendNumbers(b, 10);
    sendNumbers(c, 10);
    expect(a.toB.link.send(Buffer.from('from beyond'))).toBe(false);
    await runtime.advance(60_000);
    expect([b.closes, c.closes]).toEqual([[], []]);
    expect([a.toB.numbers, a.toC.numbers, b.numbers]).toEqual([[], [], []]);
  });

  it('lets the node come back over a new link', async () => {
    const { runtime, network } = triangle();
    network.crash('a', true);
    const [again, other] = connect(network, 'a', 'b');
    sendNumbers(again, 1);
    await runtime.runUntilIdle();
    expect(other.numbers).toEqual([0]);
  });

  it('ends the links that there were, not one that is opened because of it', async () => {
    const { runtime, network, a, b } = triangle();
    const again: [End, End][] = [];
    b.onClose = () => again.push(connect(network, 'b', 'a'));
    network.crash('a', false);
    await runtime.runUntilIdle();
    expect(a.toB.closes.length).toBe(1);
    expect(again.map(([caller, called]) => [caller.closes.length, called.closes.length])).toEqual([[0, 0]]);
  });

  it('is harmless for a node without links', () => {
    expect(() => new MemoryNetwork(new SimulatedRuntime()).crash('nobody', false)).not.toThrow();
  });
});

describe('the seed of a memory network', () => {
  it('decides the whole history: the same gives the same, another another', async () => {
    const first = await history(7);
    expect(await history(7)).toEqual(first);
    expect(await history(8)).not.toEqual(first);
    expect(first.length).toBeGreaterThan(200);
  });
});

/** What two nodes see, and when, on a network with every fault. */
async function history(seed: number): Promise<string[]> {
  const runtime = new SimulatedRuntime({ seed });
  const start = runtime.now();
  const network = new MemoryNetwork(runtime, { latencyMs: [1, 50], loss: 0.2, duplication: 0.2 });
  const seen: string[] = [];
  const links = network.connect('a', 'b')!;
  for (const [name, link] of [['a', links[0]] as const, ['b', links[1]] as const]) {
    seen.push(`${name} shook hands: ${Buffer.from(link.handshake).toString('hex')}`);
    const note = (what: string) => seen.push(`${runtime.now() - start} ${name} ${what}`);
    link.listen({
      onFrame: (frame) => {
        note(Buffer.from(frame).toString());
        if (name === 'b') link.send(frame);
      },
      onDrain: () => note('drain'),
      onClose: (reason) => note(reason),
    });
  }
  for (let n = 0; n < 200; n++) {
    links[0].send(Buffer.from(`${n}`));
    if (n === 80) network.cut('a', 'b');
    if (n === 120) network.heal('a', 'b');
    await runtime.advance(2);
  }
  network.crash('a', false);
  await runtime.runUntilIdle();
  return seen;
}

/** Listens to one end of a link and writes down what it hears. */
class End implements LinkListener {
  readonly link: Link;
  readonly numbers: number[] = [];
  readonly closes: { reason: string; tampered: boolean }[] = [];
  drains = 0;

  constructor(link: Link) {
    this.link = link;
    link.listen(this);
  }

  onFrame(frame: Uint8Array): void {
    this.numbers.push(Number(Buffer.from(frame).toString()));
  }

  onDrain(): void {
    this.drains++;
  }

  onClose(reason: string, tampered: boolean): void {
    this.closes.push({ reason, tampered });
  }
}

function open(faults: Partial<Faults> = {}) {
  const runtime = new SimulatedRuntime();
  const network = new MemoryNetwork(runtime, faults);
  const [caller, called] = connect(network, 'caller', 'called');
  return { runtime, network, caller, called };
}

/** Node a has links to b and c; b has one to d as well. */
function triangle() {
  const runtime = new SimulatedRuntime();
  const network = new MemoryNetwork(runtime);
  const [aToB, b] = connect(network, 'a', 'b');
  const [c, aToC] = connect(network, 'c', 'a');
  const [fromB, toB] = connect(network, 'b', 'd');
  return { runtime, network, a: { toB: aToB, toC: aToC }, b, c, d: { fromB, toB } };
}

function connect(network: MemoryNetwork, callerKey: string, calledKey: string): [End, End] {
  const [caller, called] = network.connect(callerKey, calledKey)!;
  return [new End(caller), new End(called)];
}

function sendNumbers({ link }: End, count: number): void {
  for (const n of numbersBelow(count)) link.send(Buffer.from(`${n}`));
}

function numbersBelow(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

function countEach(numbers: readonly number[]): number[] {
  const counts = new Map<number, number>();
  for (const n of numbers) counts.set(n, (counts.get(n) ?? 0) + 1);
  return [...counts.values()];
}
