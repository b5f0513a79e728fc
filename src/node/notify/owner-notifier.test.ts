import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { WaitingItem } from '../../http/dashboard/facts.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { type Notice, type NotifyWay, OwnerNotifier } from './owner-notifier.js';

const ELSEWHERE = { node: 'f'.repeat(64), name: 'desktop' };

function item(n: number, more: Partial<WaitingItem> = {}): WaitingItem {
  const about = { since: n, until: null, title: `Question ${n}`, from: 'alice', details: [], diff: [] };
  return { id: `mail:${n}`, kind: 'mail', ...about, actions: ['reply'], node: null, answer: null, ...more };
}

/** A notifier with two ways, of which the second leaves items of other devices to those. */
function setUp(folder = mkdtempSync(join(tmpdir(), 'ecliptic-notify-'))) {
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runtime = new SimulatedRuntime();
  const told: Record<'bell' | 'webhook', Notice[]> = { bell: [], webhook: [] };
  const failing = new Set<string>();
  const way = (name: 'bell' | 'webhook', elsewhere: boolean): NotifyWay => ({
    ...{ name, elsewhere },
    tell: async (notice) => {
      if (failing.has(name)) return 'it is away';
      told[name].push(notice);
      return undefined;
    },
  });
  const ways = [way('bell', true), way('webhook', false)];
  const begin = (items: () => readonly WaitingItem[], kinds?: WaitingItem['kind'][]) => {
    const notifier = new OwnerNotifier({ runtime, ways }, { folder, bell: true, kinds });
    notifier.start(async () => items());
    return notifier;
  };
  return { runtime, told, begin, folder, failing };
}

describe('the notifier of the owner', () => {
  it('tells of each item once, also over a restart, and puts what comes at once into one notice [PM.4]', async () => {
    const { runtime, told, begin } = setUp();
    let items = [item(1)];
    const first = begin(() => items);
    await runtime.advance(500);
    expect(told.webhook.map(({ title, lines }) => [title, ...lines])).toEqual([['alice wrote to you', 'Question 1']]);
    items = [item(1), item(2), item(3, { kind: 'approval', from: 'mars' })];
    first.changed();
    await runtime.advance(10_000);
    expect(told.webhook).toHaveLength(2);
    expect(told.webhook[1]).toMatchObject({
      title: '2 things wait for you',
      lines: ['alice wrote to you: Question 2', 'mars asks for approval: Question 3'],
    });
    first.close();
    items = [item(1), item(2), item(4)];
    begin(() => items);
    await runtime.advance(10_000);
    expect(told.webhook.slice(2).map(({ lines }) => lines)).toEqual([['Question 4']]);
    expect(told.bell).toHaveLength(told.webhook.length);
  });

  it('tells again what a way did not take, after a restart or a while, and only by that way [PM.4]', async () => {
    const { runtime, told, begin, failing } = setUp();
    failing.add('webhook');
    const items = [item(1), item(2)];
    const first = begin(() => items);
    await runtime.advance(10_000);
    expect(told).toMatchObject({ webhook: [], bell: [{ items: [{ id: 'mail:1' }, { id: 'mail:2' }] }] });
    first.close();
    const second = begin(() => items);
    await runtime.advance(10_000);
    failing.clear();
    items.shift();
    await runtime.advance(600_000);
    second.close();
    begin(() => items);
    await runtime.advance(10_000);
    expect(told.webhook.map(({ items: of }) => of.map(({ id }) => id))).toEqual([['mail:2']]);
    expect(told.bell).toHaveLength(1);
  });

  it('finds items without being told of a change, by the kinds that are wanted [PM.4]', async () => {
    const { runtime, told, begin } = setUp();
    let items: WaitingItem[] = [];
    begin(() => items, ['approval']);
    await runtime.advance(1_000);
    items = [item(1), item(2, { kind: 'approval' })];
    await runtime.advance(6_000);
    expect(told.bell.map(({ items: of }) => of.map(({ id }) => id))).toEqual([['mail:2']]);
  });

  it('tells of items of another device here, and leaves its webhook to that device [PM.4]', async () => {
    const { runtime, told, begin } = setUp();
    begin(() => [item(1, { id: `mail:1@${ELSEWHERE.node}`, node: ELSEWHERE })]);
    await runtime.advance(1_000);
    expect(told.bell.map(({ title }) => title)).toEqual(['alice@desktop wrote to you']);
    expect(told.webhook).toEqual([]);
  });

  it('makes at most one notice in three seconds, however much arrives [PM.4]', async () => {
    const { runtime, told, begin } = setUp();
    const items: WaitingItem[] = [];
    const notifier = begin(() => items);
    for (let n = 0; n < 300; n++) {
      items.push(item(n, { title: `\u001b[31m<b>red</b> ${n}` }));
      notifier.changed();
      await runtime.advance(100);
    }
    expect(told.bell.length).toBeLessThanOrEqual(11);
    expect(told.bell.flatMap(({ items: of }) => of).length).toBeGreaterThan(250);
    expect(Math.max(...told.bell.map(({ lines }) => lines.length))).toBe(6);
    expect(told.bell.flatMap(({ lines }) => lines).join('')).not.toContain('\u001b');
  });
});
