import { describe, expect, it } from 'vitest';
import { type NetworkedNode, Nodes } from '../../../test/nodes-fixture.js';
import { Rogue, type RogueLink } from '../../../test/rogue-peer.js';
import type { Waiting, WaitingItem } from '../../http/dashboard/facts.js';
import type { InviteOptions } from '../../network/peers/network.js';
import { EclipticError } from '../../runtime/errors.js';
import { AnswerRecord, type AskingDevice } from './answer-record.js';
import type { OwnerDevices } from './owner-devices.js';
import { WaitingElsewhere } from './waiting-elsewhere.js';

const OWNER = { owner: true };

function itemOf(id: string, changes: Partial<WaitingItem> = {}): WaitingItem {
  return {
    ...{ id, kind: 'approval', since: 1, until: null, title: 'may mars write a.js?', from: 'mars', details: [] },
    ...{ diff: [], actions: ['allow-once', 'deny'], node: null, answer: null },
    ...changes,
  };
}

/** One device: a node that answers with these items, and carries out answers to them. */
class Device {
  readonly node: NetworkedNode;
  readonly devices: OwnerDevices;
  readonly elsewhere: WaitingElsewhere;
  readonly record: AnswerRecord;
  items: WaitingItem[] = [];
  readonly done: unknown[] = [];
  /** How often its items were read for other devices. */
  reads = 0;
  /** Answers are held back until this resolves. */
  pause: Promise<void> = Promise.resolve();

  constructor(nodes: Nodes, node: NetworkedNode, name: string) {
    const { runtime } = nodes;
    this.node = node;
    this.devices = node.openDevices()!;
    this.elsewhere = new WaitingElsewhere({ runtime, devices: this.devices });
    this.elsewhere.start();
    const { observability } = node;
    this.record = new AnswerRecord({ runtime, observability, approvals: { items: [] }, ownName: name });
    this.devices.begin({
      waiting: async (params): Promise<Waiting> => {
        expect(params).toEqual({ local: true });
        this.reads++;
        await this.pause;
        return { items: this.items, missing: [] };
      },
      'waiting.answer': async (params, { device }) => {
        await this.pause;
        const { id, action } = params as { id: string; action: 'deny' };
        await this.record.carryOut(id, action, device, async () => this.#perform(id, action, device));
        return { id, action, state: 'confirmed', node: null };
      },
      down: () => this.done.push('down'),
    });
  }

  async #perform(id: string, action: string, device: AskingDevice | undefined): Promise<void> {
    if (!this.items.some((item) => item.id === id)) throw this.record.whyGone(id);
    this.items = this.items.filter((item) => item.id !== id);
    this.done.push([id, action, device?.name]);
  }

  async read(nodes: Nodes): Promise<Waiting> {
    return nodes.settled(this.elsewhere.read());
  }
}

/** A desktop, the founder, and a laptop that it invited. */
async function pair(invite: InviteOptions = OWNER) {
  const nodes = new Nodes({ seed: 7 });
  const start = async (name: string) => new Device(nodes, await nodes.start({ network: { name } }), name);
  const [desktop, laptop] = [await start('desktop'), await start('laptop')];
  await nodes.join(laptop.node, desktop.node, invite);
  return { nodes, desktop, laptop };
}

/** A member that speaks by hand. */
async function besieged(invite: InviteOptions | undefined) {
  const nodes = new Nodes({ seed: 7 });
  const desktop = new Device(nodes, await nodes.start({ network: { name: 'desktop' } }), 'desktop');
  const rogue = await Rogue.join(nodes, desktop.node, invite);
  const link = await rogue.meet(desktop.node, { protocol: { min: 1, max: 3 } });
  desktop.items = [itemOf('approval:secret')];
  const ask = async (method: string, params: unknown, id = 1, tag: unknown = null) => {
    link.give(['devices', 'ask', id, method, params, tag]);
    await nodes.runtime.advance(50);
  };
  return { nodes, desktop, rogue, link, ask };
}

function answersIn(link: RogueLink): unknown[][] {
  return link.items.filter(([kind]) => kind === 'devices');
}

function refusalsIn(link: RogueLink): unknown[] {
  return link.frames.filter(([kind]) => kind === 'd').flatMap((frame) => frame[4] as unknown[]);
}

async function failure(nodes: Nodes, work: Promise<unknown>): Promise<EclipticError> {
  const error = await nodes.settled(work.catch((thrown: unknown) => thrown));
  if (error instanceof EclipticError) return error;
  throw new Error('nothing was refused');
}

describe('devices of the owner', () => {
  it('read each other’s items, with the node of each [FC.30]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    const { items, missing } = await laptop.read(nodes);
    const { key } = desktop.node;
    const name = desktop.devices.ownName;
    expect(items).toEqual([{ ...itemOf(`approval:1@${key}`), node: { node: key, name }, answer: null }]);
    expect(missing).toEqual([]);
    expect(laptop.devices.list()).toEqual([{ node: key, name, connected: true, lastHeardAt: expect.any(Number) }]);
  });

  it('are those with the grant on both sides, until one is removed [FC.31]', async () => {
    const { nodes, desktop, laptop } = await pair({});
    desktop.items = [itemOf('approval:1')];
    expect([desktop.devices.list(), laptop.devices.list()]).toEqual([[], []]);
    expect(await laptop.read(nodes)).toEqual({ items: [], missing: [] });
    const { key } = desktop.node;
    expect(await failure(nodes, laptop.devices.ask(key, 'waiting', {}))).toMatchObject({ code: 'NOT_GRANTED' });
    expect(await failure(nodes, laptop.elsewhere.answer(key, 'approval:1', 'deny', undefined))).toMatchObject({
      code: 'NOT_GRANTED',
    });
    const { nodes: others, desktop: one, laptop: two } = await pair();
    expect(one.devices.list()).toHaveLength(1);
    one.node.network.remove(two.node.key);
    expect(one.devices.list()).toEqual([]);
    await others.until(() => !two.node.network.peers.reachable(one.node.key));
  });

  it('are asked at most about once a second, and send only what has changed [FC.38]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    const sent: string[] = [];
    const { peers } = desktop.node.network;
    const send = peers.sendConfirmed.bind(peers);
    peers.sendConfirmed = (node, text) => {
      sent.push(text);
      return send(node, text);
    };
    for (let second = 0; second < 10; second++) {
      await Promise.all([laptop.read(nodes), laptop.read(nodes)]);
      await laptop.read(nodes);
      await nodes.runtime.advance(1_000 - (nodes.runtime.now() % 1_000));
    }
    expect(desktop.reads).toBeLessThanOrEqual(11);
    expect(sent.filter((text) => text.includes('"answer"'))).toHaveLength(1);
    expect(sent.filter((text) => text.includes('"same"')).length).toBeGreaterThanOrEqual(8);
    desktop.items = [];
    await nodes.runtime.advance(1_000);
    expect((await laptop.read(nodes)).items).toEqual([]);
  });

  it('that do not answer are named as missing, and their last items are not shown as current [FC.32]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    const { key } = desktop.node;
    await laptop.read(nodes);
    const heardAt = nodes.runtime.now();
    let go = () => {};
    desktop.pause = new Promise((resolve) => {
      go = resolve;
    });
    await nodes.runtime.advance(4_000);
    const { items, missing } = await laptop.read(nodes);
    expect(items).toEqual([]);
    expect(missing).toEqual([
      { node: key, name: expect.any(String), since: expect.any(Number), reason: expect.any(String) },
    ]);
    expect(missing[0]!.since).toBeLessThanOrEqual(heardAt);
    // A reader is not kept waiting again by a device that hangs.
    const before = nodes.runtime.now();
    await laptop.read(nodes);
    expect(nodes.runtime.now() - before).toBeLessThan(100);
    go();
    await nodes.runtime.advance(1_000);
    expect((await laptop.read(nodes)).items).toHaveLength(1);
    await desktop.node.stop();
    const gone = await laptop.read(nodes);
    expect(gone).toMatchObject({ items: [], missing: [{ node: key, reason: 'it is not connected' }] });
    expect(gone.missing[0]!.since).not.toBeNull();
  });

  it('fail a question at once when the link breaks, and after 5 s without an answer [FC.37]', async () => {
    const { nodes, desktop, laptop } = await pair();
    const { key } = desktop.node;
    desktop.pause = new Promise(() => {});
    const begun = nodes.runtime.now();
    const late = await failure(nodes, laptop.devices.ask(key, 'waiting', {}));
    expect(late).toMatchObject({ code: 'PEER_UNREACHABLE', details: { outcome: 'unknown' } });
    expect(nodes.runtime.now() - begun).toBeLessThan(5_100);
    const broken = failure(nodes, laptop.devices.ask(key, 'waiting', {}));
    const cut = nodes.runtime.now();
    await desktop.node.stop();
    expect(await broken).toMatchObject({ code: 'PEER_UNREACHABLE' });
    expect(nodes.runtime.now() - cut).toBeLessThan(1_000);
    expect(await failure(nodes, laptop.devices.ask(key, 'waiting', {}))).toMatchObject({
      details: { outcome: 'not-delivered' },
    });
  });

  it('ask for the operations of the list only; a story that the other does not know yet is refused [FC.36]', async () => {
    const { nodes, desktop, laptop } = await pair();
    const { key } = desktop.node;
    expect(await failure(nodes, laptop.devices.ask(key, 'story', { id: 'x' }))).toMatchObject({
      code: 'METHOD_NOT_FOUND',
    });
    expect(await failure(nodes, laptop.devices.ask(key, 'down' as never, {} as never))).toMatchObject({
      code: 'METHOD_NOT_FOUND',
    });
    expect(desktop.done).toEqual([]);
  });
});

describe('an answer to another device', () => {
  it('is confirmed by that device, which records by whom it was given [FC.30]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    const { key } = desktop.node;
    await laptop.read(nodes);
    const answered = await nodes.settled(laptop.elsewhere.answer(key, 'approval:1', 'deny', undefined));
    expect(answered).toMatchObject({
      id: `approval:1@${key}`,
      action: 'deny',
      state: 'confirmed',
      node: { node: key },
    });
    expect(desktop.done).toEqual([['approval:1', 'deny', laptop.devices.ownName]]);
    expect((await laptop.read(nodes)).items).toEqual([]);
    const [event] = nodes.events(desktop.node, 'action');
    expect(event).toMatchObject({ topic: 'owner.answered', node: laptop.node.key, details: { item: 'approval:1' } });
    expect(event!.details!.signature).toEqual(expect.any(String));
  });

  it('stays `sent` until that device confirms it, is repeated, and has its effect once [FC.32]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    const { key } = desktop.node;
    await laptop.read(nodes);
    let go = () => {};
    desktop.pause = new Promise((resolve) => {
      go = resolve;
    });
    const answered = await nodes.settled(laptop.elsewhere.answer(key, 'approval:1', 'deny', undefined));
    expect(answered).toMatchObject({ state: 'sent' });
    const { items } = await laptop.read(nodes);
    expect(items).toMatchObject([{ id: `approval:1@${key}`, actions: [], answer: { state: 'sent', action: 'deny' } }]);
    expect(await failure(nodes, laptop.elsewhere.answer(key, 'approval:1', 'allow-once', undefined))).toMatchObject({
      code: 'ALREADY_ANSWERED',
    });
    await nodes.runtime.advance(20_000);
    go();
    await nodes.runtime.advance(10_000);
    expect(desktop.done).toHaveLength(1);
    expect((await laptop.read(nodes)).items).toEqual([]);
  });

  it('that comes too late is refused, and says where and by which device it was answered [FC.33]', async () => {
    const { nodes, desktop, laptop } = await pair();
    const tablet = new Device(nodes, await nodes.start({ network: { name: 'tablet' } }), 'tablet');
    await nodes.join(tablet.node, laptop.node, OWNER);
    await nodes.until(() => tablet.node.network.peers.reachable(desktop.node.key));
    desktop.items = [itemOf('approval:1')];
    const { key } = desktop.node;
    await Promise.all([laptop.read(nodes), tablet.read(nodes)]);
    await nodes.settled(tablet.elsewhere.answer(key, 'approval:1', 'allow-once', undefined));
    await nodes.runtime.advance(10_000);
    const late = await failure(nodes, laptop.elsewhere.answer(key, 'approval:1', 'deny', undefined));
    expect(late.code).toBe('ALREADY_ANSWERED');
    expect(late.message).toMatch(/^answered on desktop by .*tablet.*, allow-once, 1\d s ago$/);
    expect(desktop.done).toHaveLength(1);
  });

  it('that was sent and is refused later is shown with the reason [FC.33]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    const { key } = desktop.node;
    await laptop.read(nodes);
    let go = () => {};
    desktop.pause = new Promise((resolve) => {
      go = resolve;
    });
    await nodes.settled(laptop.elsewhere.answer(key, 'approval:1', 'deny', undefined));
    desktop.items = [];
    go();
    await nodes.runtime.advance(10_000);
    const { items } = await laptop.read(nodes);
    expect(items).toMatchObject([
      { answer: { state: 'refused', reason: expect.stringMatching(/nothing with the id/) } },
    ]);
    await nodes.runtime.advance(601_000);
    expect((await laptop.read(nodes)).items).toEqual([]);
  });

  it('must be one that the item takes [FC.30]', async () => {
    const { nodes, desktop, laptop } = await pair();
    desktop.items = [itemOf('approval:1')];
    await laptop.read(nodes);
    const wrong = laptop.elsewhere.answer(desktop.node.key, 'approval:1', 'restart', undefined);
    expect(await failure(nodes, wrong)).toMatchObject({ code: 'USAGE' });
    expect(desktop.done).toEqual([]);
  });
});

describe('a member without the owner grant', () => {
  it.each([undefined, { tiers: [2, 3] as const, mayInvite: false }])(
    'gets the same refusal for every question, and is reported once a minute: %o [FC.36]',
    async (invite) => {
      const { nodes, desktop, link, ask } = await besieged(invite);
      for (const method of ['waiting', 'story', 'waiting.answer', 'nothing', 'down']) {
        for (let turn = 0; turn < 20; turn++) await ask(method, { id: 'approval:secret', action: 'deny' }, turn);
      }
      expect(answersIn(link)).toEqual([]);
      const codes = new Set(refusalsIn(link).map((refusal) => JSON.stringify((refusal as unknown[]).slice(1))));
      expect([...codes]).toHaveLength(1);
      expect([...codes][0]).toContain('NOT_GRANTED');
      expect(link.heard).not.toContain('secret');
      expect(desktop.reads).toBe(0);
      expect(desktop.done).toEqual([]);
      const reported = nodes.events(desktop.node, 'security').filter(({ code }) => code === 'NOT_GRANTED');
      expect(reported).toHaveLength(1);
      expect(link.closed).toBe(false);
    },
  );

  it('cannot make itself or another node a device of the owner’s [FC.35]', async () => {
    const { nodes, desktop, rogue } = await besieged({});
    const accomplice = rogue.vouchFor({ grant: { tiers: [0, 1, 2, 3], invite: true, owner: true } });
    const link = accomplice.call(desktop.node);
    link.hello();
    await nodes.runtime.advance(0);
    expect(link.heard).toMatch(/refused.*beyond/s);
    expect(desktop.devices.list()).toEqual([]);
  });

  it('does not get the answers of others: an answer to a question that another node was asked is a violation [FC.36]', async () => {
    const { nodes, desktop, laptop } = await pair();
    const rogue = await Rogue.join(nodes, laptop.node, {});
    const link = await rogue.meet(laptop.node);
    desktop.pause = new Promise(() => {});
    const asked = failure(nodes, laptop.devices.ask(desktop.node.key, 'waiting', {}));
    await nodes.runtime.advance(0);
    link.give(['devices', 'answer', 0, { items: [itemOf('approval:forged')], missing: [] }, 'x']);
    await nodes.runtime.advance(0);
    expect(link.closed).toBe(true);
    expect(await asked).toMatchObject({ code: 'PEER_UNREACHABLE' });
  });
});

describe('a device of the owner’s that does not keep to the protocol', () => {
  const said = { id: 'approval:secret', action: 'deny', answer: 'A1', at: 1 };

  it('gets an answer taken only with its own signature, for this device and this answer [FC.36]', async () => {
    const { nodes, desktop, rogue, link, ask } = await besieged(OWNER);
    const to = desktop.node.key;
    const other = new Rogue(nodes);
    const signed = (by: Rogue, content: object) => by.identity.sign('owner answer', content);
    const forged = [
      { ...said, signature: 'x' },
      { ...said, signature: signed(other, { ...said, to }) },
      { ...said, signature: signed(rogue, { ...said, to: rogue.key }) },
      { ...said, signature: signed(rogue, { ...said, action: 'allow-once', to }) },
      { ...said, signature: rogue.identity.sign('card', { ...said, to }) },
    ];
    for (const [index, params] of forged.entries()) await ask('waiting.answer', params, index);
    expect(answersIn(link).map(([, verb, , error]) => [verb, (error as { code: string }).code])).toEqual(
      forged.map(() => ['failed', 'NOT_GRANTED']),
    );
    expect(desktop.done).toEqual([]);
    const genuine = { ...said, signature: signed(rogue, { ...said, to }) };
    for (const id of [10, 11, 12]) await ask('waiting.answer', genuine, id);
    expect(
      answersIn(link)
        .slice(-3)
        .map(([, verb]) => verb),
    ).toEqual(['answer', 'answer', 'answer']);
    expect(desktop.done).toHaveLength(1);
  });

  it('gets typed errors for questions that make no sense [FC.36]', async () => {
    const { link, ask, desktop } = await besieged(OWNER);
    await ask('waiting.answer', null, 1);
    await ask('waiting.answer', { id: 'x', action: 'explode' }, 2);
    await ask('story', {}, 3);
    await ask('constructor', {}, 4);
    expect(answersIn(link).map(([, , , error]) => (error as { code: string }).code)).toEqual([
      ...['INVALID_ARGUMENTS', 'INVALID_ARGUMENTS', 'METHOD_NOT_FOUND', 'METHOD_NOT_FOUND'],
    ]);
    expect(desktop.done).toEqual([]);
  });

  it.each([
    ['an unknown verb', ['devices', 'tell', 1]],
    ['a number that is none', ['devices', 'ask', -1, 'waiting', {}]],
    ['a method that is no text', ['devices', 'ask', 1, {}, {}]],
    ['a request of excessive size', ['devices', 'ask', 1, 'waiting', { x: 'x'.repeat(70_000) }]],
  ])('is cut off after %s [FC.37]', async (_, item) => {
    const { nodes, link } = await besieged(OWNER);
    link.give(item);
    await nodes.runtime.advance(0);
    expect(link.closed).toBe(true);
  });

  it('asks within its share: a flood is refused, and other devices are answered [FC.37]', async () => {
    const { nodes, desktop, link } = await besieged(OWNER);
    const laptop = new Device(nodes, await nodes.start(), 'laptop');
    await nodes.join(laptop.node, desktop.node, OWNER);
    for (let id = 0; id < 500; id++) link.give(['devices', 'ask', id, 'waiting', {}, null]);
    await nodes.runtime.advance(50);
    expect(answersIn(link).length).toBeLessThanOrEqual(30);
    expect(JSON.stringify(refusalsIn(link))).toContain('RATE_LIMITED');
    expect((await laptop.read(nodes)).items).toHaveLength(1);
    await nodes.runtime.advance(1_000);
    link.give(['devices', 'ask', 999, 'waiting', {}, null]);
    await nodes.runtime.advance(50);
    expect(answersIn(link).at(-1)!.slice(0, 3)).toEqual(['devices', 'answer', 999]);
  });

  it('sends items that this release cannot show: they are counted as missing, and the others are shown [FC.37]', async () => {
    const { nodes, desktop, laptop } = await pair();
    const long = 'x'.repeat(10_000);
    desktop.items = [itemOf('approval:1'), itemOf('approval:2', { title: long }), { id: 3 } as never];
    const { items, missing } = await laptop.read(nodes);
    expect(items.map(({ title }) => title)).toEqual(['may mars write a.js?']);
    expect(missing).toMatchObject([{ node: desktop.node.key, reason: '2 of its items cannot be shown' }]);
  });
});

it('a list that is too long for one answer is cut, and the rest is named as missing [FC.37]', async () => {
  const { nodes, desktop, laptop } = await pair();
  const details = Array.from({ length: 10 }, () => ({ label: 'x', text: 'é'.repeat(4_000) }));
  desktop.items = Array.from({ length: 50 }, (_, at) => itemOf(`approval:${at}`, { details }));
  const { items, missing } = await laptop.read(nodes);
  expect(items.length).toBeGreaterThan(5);
  expect(missing[0]!.reason).toBe(`${50 - items.length} of its items do not fit here`);
});

it('a release without the owner grant is told of no certificate that it cannot read [FC.39]', async () => {
  const { nodes, desktop, laptop } = await pair();
  const rogue = await Rogue.join(nodes, desktop.node, {});
  const old = await rogue.meet(desktop.node, { protocol: { min: 1, max: 2 } });
  await nodes.runtime.advance(100);
  const told = old.items.filter(([kind]) => kind === 'k');
  expect(JSON.stringify(told)).toContain(laptop.node.key);
  expect(JSON.stringify(told)).not.toContain('"owner"');
  desktop.node.network.remove(laptop.node.key);
  await nodes.runtime.advance(100);
  expect(old.items.filter(([kind]) => kind === 'r')).toEqual([]);
  old.close();
  await nodes.runtime.advance(100);
  const later = await rogue.meet(desktop.node, { protocol: { min: 1, max: 3 }, session: 'updated', knows: null });
  await nodes.runtime.advance(100);
  expect(later.items.filter(([kind]) => kind === 'r')).toHaveLength(1);
});
