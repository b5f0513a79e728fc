import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { TaskNode } from './task-node.js';

const SOAK = process.env.ECLIPTIC_SOAK === '1';
const STREAMS = SOAK ? 2_000 : 300;
const ROUNDS = SOAK ? 200 : 40;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** One open stream on a bare socket, which reads only when it is told to. */
class BareReader {
  readonly socket: Socket;
  bytes = 0;
  ended = false;
  #tail = '';

  constructor(served: TaskNode, taskId: string) {
    const { hostname, port } = new URL(served.url);
    this.socket = connect(Number(port), hostname);
    this.socket.on('error', () => {});
    this.socket.on('data', (chunk) => {
      this.bytes += chunk.length;
      this.#tail = (this.#tail + chunk.toString('latin1')).slice(-2_000);
      if (this.#tail.includes('TASK_STATE_COMPLETED')) this.ended = true;
    });
    this.socket.write(
      `GET /a2a/v1/tasks/${taskId}:subscribe HTTP/1.1\r\nHost: ${hostname}\r\nA2A-Version: 1.0\r\n` +
        `Authorization: Bearer ${served.owner}\r\n\r\n`,
    );
  }
}

async function until(condition: () => boolean, what: string, ms = 60_000): Promise<void> {
  const end = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`not in time: ${what}`);
    await sleep(10);
  }
}

function heap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed / 1_048_576;
}

describe('many streams at once', () => {
  it(`(${STREAMS}) use constant memory while events pass [A2A-2.5.9]`, { timeout: 300_000 }, async () => {
    const served = await TaskNode.start();
    const id = await served.hold('many');
    const { task, finish } = served.held.get('many')!;
    const readers = Array.from({ length: STREAMS }, () => new BareReader(served, id));
    await until(() => readers.every(({ bytes }) => bytes > 200), 'every stream is open');
    const tell = async (rounds: number) => {
      for (let i = 0; i < rounds; i++) {
        // One artifact is replaced again and again, so the stored task does not grow.
        task.artifact('x'.repeat(100), { id: 'same' });
        await sleep(5);
      }
      const least = Math.min(...readers.map(({ bytes }) => bytes));
      await until(() => Math.min(...readers.map(({ bytes }) => bytes)) >= least, 'everyone has read');
      await sleep(200);
    };
    await tell(ROUNDS / 4);
    const before = heap();
    await tell(ROUNDS);
    const grown = heap() - before;
    expect(grown).toBeLessThan(STREAMS / 100);
    finish();
    await until(() => readers.every(({ ended }) => ended), 'every stream has ended');
    for (const { socket } of readers) socket.destroy();
    await served.stop();
  });

  it('are not slowed by a reader that stops reading, which is disconnected [A2A-2.5.9]', {
    timeout: 120_000,
  }, async () => {
    const served = await TaskNode.start();
    const id = await served.hold('slow reader');
    const { task, finish } = served.held.get('slow reader')!;
    const slow = new BareReader(served, id);
    const fast = Array.from({ length: 5 }, () => new BareReader(served, id));
    await until(() => [slow, ...fast].every(({ bytes }) => bytes > 200), 'all are open');
    slow.socket.pause();
    let closed = false;
    slow.socket.on('close', () => {
      closed = true;
    });
    const piece = 'y'.repeat(5_000);
    for (let i = 0; i < 6_000; i++) {
      task.artifact(piece, { id: 'same' });
      // No faster than active readers.
      if (i % 200 === 199) await until(() => fast.every(({ bytes }) => bytes > i * piece.length), `event ${i} is read`);
    }
    finish();
    await until(() => fast.every(({ ended }) => ended), 'the others have read everything');
    expect(Math.min(...fast.map(({ bytes }) => bytes))).toBeGreaterThan(6_000 * 5_000);
    slow.socket.resume();
    await until(() => closed, 'the slow one is cut off');
    expect(slow.ended).toBe(false);
    for (const { socket } of fast) socket.destroy();
    await served.stop();
  });
});
