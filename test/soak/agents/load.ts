import { readdirSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Agent } from '../../../src/index.js';

/** Its requests. */
type Order =
  | { readonly do: 'begin'; readonly to: string; readonly pauseMs: number }
  | { readonly do: 'end' | 'meter' }
  | { readonly do: 'mail'; readonly of: string }
  | { readonly do: 'echo'; readonly value: unknown };

/** What a node uses. */
export interface Reading {
  readonly rss: number;
  readonly heap: number;
  readonly external: number;
  readonly descriptors: number;
  readonly timers: number;
  /** Of the event loop since the reading before, in milliseconds. */
  readonly p99: number;
}

/** Durable messages from one agent. */
export interface Received {
  readonly count: number;
  readonly last: number;
}

export interface Done {
  turns: number;
  sent: number;
  failed: number;
}

const ENTRIES = 100;
/** A document keeps the history of its changes, so they come as seldom as agents make them. */
const TURNS_PER_CHANGE = 100;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** An agent that gives another one work of every kind, and measures its own process. */
export function setup(agent: Agent): void {
  const loop = monitorEventLoopDelay({ resolution: 10 });
  loop.enable();
  const done: Done = { turns: 0, sent: 0, failed: 0 };
  let isOver = false;
  let running: Promise<void> = Promise.resolve();
  agent.tool('echo', { inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }, ({ text }) => text);
  agent.onTask((task) => task.text);
  agent.onNotification(async (message) => {
    const { n } = message.payload as { n?: number };
    if (n === undefined) return;
    const before = (await agent.kept<Received>(message.from)) ?? { count: 0, last: 0 };
    await message.commit({ keep: { [message.from]: { count: before.count + 1, last: Math.max(before.last, n) } } });
  });
  const board = agent.state('board').map('entries');

  const turn = async (to: string) => {
    await agent.send(to, { text: 'x'.repeat(200) });
    await agent.request(to, { do: 'echo', value: done.turns } satisfies Order);
    if (done.turns % 5 === 0) {
      await agent.propose({ to, taskDescription: 'echo', requiredCapabilities: ['load'] }).result;
    }
  };
  const work = async (to: string, pauseMs: number) => {
    while (!isOver) {
      done.turns++;
      await agent.send(to, { n: ++done.sent, text: 'y'.repeat(200) }, { durable: true });
      if (done.turns % TURNS_PER_CHANGE === 0)
        board.set(`${agent.id}-${(done.turns / TURNS_PER_CHANGE) % ENTRIES}`, done.turns);
      // While the other node is away, it is refused.
      await turn(to).catch(() => {
        done.failed++;
      });
      await delay(pauseMs);
    }
  };
  agent.onRequest(async ({ payload }) => {
    const order = payload as Order;
    switch (order.do) {
      case 'begin':
        running = work(order.to, order.pauseMs);
        return true;
      case 'end':
        isOver = true;
        await running;
        return done;
      case 'echo':
        return order.value;
      case 'mail':
        return (await agent.kept<Received>(order.of)) ?? null;
      case 'meter': {
        collect();
        const { rss, heapUsed: heap, external } = process.memoryUsage();
        const descriptors = readdirSync('/proc/self/fd').length;
        const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
        const p99 = loop.percentile(99) / 1e6;
        loop.reset();
        return { rss, heap, external, descriptors, timers, p99 } satisfies Reading;
      }
    }
  });
}
