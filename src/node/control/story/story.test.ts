import { describe, expect, it } from 'vitest';
import type { Story, StoryEvent } from '../../../http/dashboard/facts.js';
import { EclipticError } from '../../../runtime/errors.js';
import { acrossNodes, type StoryDevices } from './across-nodes.js';
import { findStory } from './find.js';
import { eventOf, MAX_EVENTS, type StorySource, storyOf, type Told } from './told.js';

const HERE = 'a'.repeat(64);
const THERE = 'b'.repeat(64);
const SELF = { node: HERE, name: 'desk', state: 'complete', since: null, reason: null } as const;
const CONTEXT = { key: HERE, node: {} } as unknown as Parameters<typeof storyOf>[1];

const event = (at: number | null, word: string, more: Partial<StoryEvent> = {}) => eventOf(HERE, { at, word, ...more });

function told(more: Partial<Told> = {}): Told {
  return { id: '01A', kind: 'message', title: 'request', state: 'delivered', over: true, events: [], ...more };
}

/** A source with these ids. */
function source(kind: StorySource['kind'], ...ids: readonly string[]): StorySource {
  return {
    kind,
    ids: (given) => ids.filter((id) => id.startsWith(given)),
    tell: async (id) => (ids.includes(id) ? told({ id, kind }) : undefined),
  };
}

const NOT_FOUND = new EclipticError('STORY_NOT_FOUND', 'not known');
const codeOf = (finding: Promise<unknown>) => finding.catch((error: EclipticError) => error.code);

describe('a story', () => {
  it('has its events in order, agents as they appear, and bounds that it names [FC.29]', () => {
    const events = [
      event(30, 'read', { from: 'mars' }),
      event(10, 'allowed', { from: 'sun', to: 'mars' }),
      event(null, 'artifact', { from: 'mars' }),
      event(20, 'stored', { text: 'x'.repeat(5_000) }),
    ];
    const story = storyOf(told({ events, payload: { text: 'y'.repeat(50_000) }, over: false }), CONTEXT);
    expect(story.events.map(({ word }) => word)).toEqual(['allowed', 'artifact', 'stored', 'read']);
    expect(story).toMatchObject({ parties: ['sun', 'mars'], startedAt: 10, endedAt: null, left: 0 });
    expect(story.events[2]!.text!.length).toBe(1_000);
    expect(story.payload).toMatchObject({ cut: true, json: true, chars: expect.any(Number) });
    expect(story.payload!.text.length).toBe(20_000);
    const many = Array.from({ length: MAX_EVENTS + 7 }, (_, at) => event(at, `${at}`));
    const long = storyOf(told({ events: many, left: 3 }), CONTEXT);
    expect([long.events.length, long.left]).toEqual([MAX_EVENTS, 10]);
    expect([long.events[0]!.word, long.events[1]!.word]).toEqual(['0', '8']);
  });

  it('that is over waits for nothing, and offers a cut payload for nothing [FC.29]', () => {
    const waits = { for: 'mars', since: 1, until: 2, reason: 'it works' };
    const again = { as: 'sun', to: 'mars', type: 'request', durable: false };
    expect(storyOf(told({ waits, again, payload: 'text' }), CONTEXT)).toMatchObject({ waits: null, again });
    expect(storyOf(told({ again, payload: 'x'.repeat(30_000) }), CONTEXT).again).toBeNull();
    expect(storyOf(told({ payload: 'text' }), CONTEXT).payload).toMatchObject({ text: 'text', json: false });
  });
});

describe('an id', () => {
  const sources = [source('task', '01AB', '01AC'), source('message', '01AC', '01BD'), source('thread', 'plan:1:a')];

  it('is found whole or shortened, and by its kind where two kinds have it [FC.29]', async () => {
    expect(await findStory('01B', sources)).toMatchObject({ id: '01BD', kind: 'message' });
    const both = await findStory('01AC', sources);
    expect(both).toMatchObject({ kind: 'task', related: [{ id: '01AC', kind: 'message' }] });
    expect(await findStory('message:01AC', sources)).toMatchObject({ kind: 'message' });
    expect(await findStory('mail:01BD', sources)).toMatchObject({ kind: 'message' });
    expect(await findStory('plan:1:a', sources)).toMatchObject({ kind: 'thread' });
  });

  it('that is unknown or ambiguous ends with a typed error [FC.29]', async () => {
    expect(await codeOf(findStory('01A', sources))).toBe('AMBIGUOUS_ID');
    expect(await codeOf(findStory('zz', sources))).toBe('STORY_NOT_FOUND');
    expect(await codeOf(findStory('thread:01BD', sources))).toBe('STORY_NOT_FOUND');
    expect(await codeOf(findStory('constructor:01BD', sources))).toBe('STORY_NOT_FOUND');
  });
});

describe('a story of several nodes', () => {
  const stored = (from: string) => event(20, 'stored', { from, proof: { kind: 'receipt', text: 'receipt: stored' } });
  const own = storyOf(
    told({
      state: 'stored',
      over: false,
      events: [event(10, 'allowed', { from: 'sun', to: `mars@${THERE}` }), stored('sun')],
    }),
    CONTEXT,
  );
  const remote: Story = {
    ...own,
    ...{ state: 'done', over: true, endedAt: 40, parties: [`sun@${HERE}`, 'mars'] },
    events: [stored(`sun@${HERE}`), { ...event(40, 'done', { from: 'mars' }), node: THERE }],
  };
  const devices = (ask: StoryDevices['ask'], connected = true): StoryDevices => ({
    list: () => [{ node: THERE, name: 'shelf', connected, lastHeardAt: 5 }],
    ask,
  });

  it('has the events of all of them, agents as this node writes them, and each receipt once [FC.29]', async () => {
    const story = await acrossNodes(
      '01A',
      own,
      devices(async () => remote),
      SELF,
    );
    expect(story.events.map(({ word, from }) => [word, from])).toEqual([
      ['allowed', 'sun'],
      ['stored', 'sun'],
      ['done', `mars@${THERE}`],
    ]);
    expect(story).toMatchObject({ state: 'done', over: true, endedAt: 40, parties: ['sun', `mars@${THERE}`] });
    expect(story.nodes).toMatchObject([{ state: 'complete' }, { node: THERE, state: 'complete' }]);
    const only = await acrossNodes(
      '01A',
      NOT_FOUND,
      devices(async () => remote),
      SELF,
    );
    expect(only).toMatchObject({ state: 'done', parties: ['sun', `mars@${THERE}`] });
  });

  it('names a node whose events are missing, and since when [FC.29]', async () => {
    const unknown = async () => Promise.reject(new EclipticError('STORY_NOT_FOUND', 'unknown'));
    const late = async () => Promise.reject(new EclipticError('PEER_UNREACHABLE', 'it did not answer'));
    const nodesWith = async (ask: StoryDevices['ask'], connected?: boolean) =>
      (await acrossNodes('01A', own, devices(ask, connected), SELF)).nodes[1];
    expect(await nodesWith(unknown)).toMatchObject({ state: 'complete' });
    expect(await nodesWith(late)).toMatchObject({ state: 'missing', since: 5, reason: 'it did not answer' });
    expect(await nodesWith(async () => remote, false)).toMatchObject({ state: 'missing', reason: 'the node is away' });
  });

  it('that is unknown here and there ends with an error, which names a device that was not asked [FC.29]', async () => {
    const unknown = async () => Promise.reject(new EclipticError('STORY_NOT_FOUND', 'unknown'));
    const late = async () => Promise.reject(new EclipticError('PEER_UNREACHABLE', 'no answer'));
    const saidBy = (ask: StoryDevices['ask'], connected?: boolean) =>
      acrossNodes('01A', NOT_FOUND, devices(ask, connected), SELF).catch(({ code, message }) => [code, message]);
    expect(await saidBy(unknown)).toEqual(['STORY_NOT_FOUND', 'not known']);
    const away = 'not known; shelf is away since 1970-01-01T00:00:00.005Z; it may know it';
    expect(await saidBy(unknown, false)).toEqual(['STORY_NOT_FOUND', away]);
    const silent = 'not known; shelf could not be asked (no answer); it may know it';
    expect(await saidBy(late)).toEqual(['STORY_NOT_FOUND', silent]);
  });

  it('of a lease has it once, held by one agent, as the device says that knows it best [FC.29]', async () => {
    const taken = (at: number, from: string, text: string) =>
      event(at, 'taken', { from, proof: { kind: 'record', text } });
    const lease = { kind: 'lease', over: false, state: 'held' } as const;
    const mine = storyOf(told({ ...lease, events: [taken(10, `alice@${HERE}`, 'not confirmed yet')] }), CONTEXT);
    const theirs = storyOf(told({ ...lease, events: [taken(18, `alice@${HERE}`, 'fencing token 3')] }), CONTEXT);
    const story = await acrossNodes(
      '01A',
      mine,
      devices(async () => theirs),
      SELF,
    );
    expect(story.events).toMatchObject([{ word: 'taken', from: 'alice', proof: { text: 'fencing token 3' } }]);
    expect(story.parties).toEqual(['alice']);
  });
});
