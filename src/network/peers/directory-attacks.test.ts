import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type NetworkedNode, Nodes } from '../../../test/nodes-fixture.js';
import { Rogue, type RogueLink } from '../../../test/rogue-peer.js';
import { buildCard } from '../../agent/agent-init.js';
import { announceCard } from '../membership/signed-cards.js';
import { type Confirmation, type NodeAbout, signConfirmation, signEntry } from './directory-entry.js';

const FULL = { protocol: { min: 1, max: 4 } };

let nodes: Nodes;
let victim: NetworkedNode;
let friend: NetworkedNode;
let rogue: Rogue;
let link: RogueLink;

beforeEach(async () => {
  nodes = new Nodes();
  [victim, friend] = (await nodes.startMesh(2)) as [NetworkedNode, NetworkedNode];
  friend.agent({ id: 'honest', tier: 1 });
  rogue = await Rogue.join(nodes, victim);
  link = await rogue.meet(victim, FULL);
  await nodes.runtime.advance(2_000);
});

afterEach(async () => {
  await nodes.runtime.advance(5_000);
  // Whatever the rogue did, the honest nodes are as they were.
  expect(victim.registry.entry(`honest@${friend.key}`)).toBeDefined();
  expect(victim.network.peers.reachable(friend.key)).toBe(true);
  const next = friend.agent({ id: 'after', tier: 1 });
  await nodes.until(() => victim.registry.entry(`after@${friend.key}`) !== undefined, 5_000);
  next.leave();
});

interface Forged {
  readonly text: string;
  readonly version: number;
  readonly confirmation: Confirmation;
}

/** An entry that the signer makes about itself. */
function entryOf(signer: Rogue, changes: Partial<NodeAbout> = {}): Forged {
  const version = changes.version ?? Math.floor(nodes.runtime.now());
  const { text } = signEntry(signer.identity, {
    version,
    protocol: 4,
    software: 'rogue 6.6.6',
    chain: signer.chain!,
    addresses: [],
    complete: true,
    gone: false,
    items: [],
    ...changes,
  });
  return { text, version, confirmation: signConfirmation(signer.identity, version, nodes.runtime.now()) };
}

/** Says that it has an entry of that node, and answers when the victim asks for it. True if it was asked. */
async function offer(node: string, { text, version, confirmation }: Forged): Promise<boolean> {
  const before = wants().length;
  link.give(['directory', 'have', [[node, version, 0]]]);
  await nodes.runtime.advance(100);
  const asked = wants()
    .slice(before)
    .some((list) => list.includes(node));
  if (asked) link.give(['directory', 'entries', [[text, confirmation]]]);
  await nodes.runtime.advance(100);
  return asked;
}

function wants(): string[][] {
  return link.items
    .filter(([kind, verb]) => kind === 'directory' && verb === 'want')
    .map((item) => item[2] as string[]);
}

function stateOf(node: string): string | undefined {
  return victim.network.list().find((row) => row.node === node)?.state;
}

/** The entry of a node as the victim passes it on. */
async function entryHeld(node: string): Promise<[text: string, confirmation: Confirmation]> {
  link.give(['directory', 'want', [node]]);
  await nodes.runtime.advance(100);
  const given = link.items.filter(([kind, verb]) => kind === 'directory' && verb === 'entries');
  return (given.at(-1)![2] as [string, Confirmation][])[0]!;
}

/** A member that the rogue invited: it is known only from its entry. */
function accomplice(): Rogue {
  return rogue.vouchFor();
}

describe('a member that lies about the directory', () => {
  it('is listed with its own entry, as an honest node would be', async () => {
    const other = accomplice();
    expect(await offer(other.key, entryOf(other))).toBe(true);
    expect(stateOf(other.key)).toBe('idle');
  });

  it.each<[string, (honest: [string, Confirmation]) => Forged]>([
    [
      'signed by itself',
      () => {
        const { text, version, confirmation } = entryOf(rogue, { version: 9e15 });
        const named = text.replaceAll(rogue.key, friend.key);
        return { text: named, version, confirmation: [friend.key, version, confirmation[2], confirmation[3]] };
      },
    ],
    [
      'with changed bytes',
      ([text, [node, version, at, signature]]) => {
        const changed = text.replace('honest', 'dishon').replace(`,${version},`, `,${version + 1},`);
        return { text: changed, version: version + 1, confirmation: [node, version + 1, at, signature] };
      },
    ],
    [
      'with a confirmation that is its own',
      ([text, [node, version]]) => ({
        text: text.replace(`,${version},`, `,${version + 1},`),
        version: version + 1,
        confirmation: [
          node,
          version + 1,
          9e15,
          rogue.identity.sign('directory confirmation', { node, version, at: 9e15 }),
        ],
      }),
    ],
  ])('cannot replace the entry of another node by one %s, and is shunned for it [DR.8]', async (_, forge) => {
    const held = await entryHeld(friend.key);
    expect(await offer(friend.key, forge(held))).toBe(true);
    expect(link.closed).toBe(true);
    expect(nodes.events(victim, 'security').at(-1)).toMatchObject({ node: rogue.key, code: 'INVALID_FRAME' });
  });

  it('cannot make a node outdo a version that it never published [DR.8]', async () => {
    const { confirmation } = entryOf(rogue, { version: 9_007_199_254_740_991 });
    link.give(['directory', 'alive', [[victim.key, 9_007_199_254_740_991, 1, confirmation[3]]]]);
    await nodes.runtime.advance(100);
    expect(link.closed).toBe(true);
    victim.agent({ id: 'mine', tier: 1 });
    await nodes.until(() => friend.registry.entry(`mine@${victim.key}`) !== undefined, 5_000);
  });

  it('cannot bring an older entry of a node, or one of a dead node, back with what was signed once [DR.8]', async () => {
    const other = accomplice();
    const older = entryOf(other, { version: 5 });
    const newer = entryOf(other, { version: 6 });
    await offer(other.key, newer);
    expect(await offer(other.key, older)).toBe(false);
    expect(stateOf(other.key)).toBe('idle');
    await nodes.runtime.advance(70_000);
    expect(stateOf(other.key), 'it has died').toBe('lost');
    for (const replay of [older, newer, newer]) await offer(other.key, replay);
    expect(stateOf(other.key)).toBe('lost');
    // The node itself, which was cut off, confirms the same entry later.
    await offer(other.key, { ...newer, confirmation: signConfirmation(other.identity, 6, nodes.runtime.now()) });
    expect(stateOf(other.key)).toBe('idle');
  });

  it('cannot keep a dead node alive with confirmations that it heard before [DR.8]', async () => {
    const other = accomplice();
    const entry = entryOf(other);
    await offer(other.key, entry);
    const said = [1, 2, 3].map((later) => signConfirmation(other.identity, entry.version, nodes.runtime.now() + later));
    for (let second = 0; second < 70; second++) {
      for (const confirmation of said) link.give(['directory', 'alive', [confirmation]]);
      await nodes.runtime.advance(1_000);
    }
    expect(stateOf(other.key)).toBe('lost');
    expect(link.closed).toBe(false);
  });

  it('cannot list a node that was removed, whatever it passes on [DR.6]', async () => {
    const other = accomplice();
    await offer(other.key, entryOf(other));
    victim.network.remove(other.key);
    for (let time = 0; time < 5; time++) {
      await nodes.runtime.advance(1_000);
      await offer(other.key, entryOf(other));
    }
    expect(stateOf(other.key)).toBeUndefined();
    const refused = nodes.events(victim, 'security').filter(({ code }) => code === 'MEMBERSHIP_REFUSED');
    expect(refused.length, 'one refusal is not repeated').toBeLessThanOrEqual(5);
    expect(link.closed, 'an honest node may not know of the removal yet').toBe(false);
  });

  it('cannot announce cards that a grant does not allow, or other nodes’ cards', async () => {
    const other = rogue.vouchFor({ grant: { tiers: [3], invite: false } });
    const now = nodes.runtime.now();
    const cards = [
      announceCard(other.identity, buildCard({ id: 'boss', tier: 0 }, now)),
      announceCard(rogue.identity, buildCard({ id: 'stolen', tier: 3 }, now)),
      announceCard(other.identity, buildCard({ id: 'plain', tier: 3 }, now)),
    ].map(({ text }) => JSON.parse(text) as object);
    await offer(other.key, entryOf(other, { items: [['c', 'last', cards]] }));
    const ids = victim.registry.getRemoteCards().map(({ id }) => id);
    expect(ids.sort()).toEqual(['honest', 'plain']);
  });

  it('cannot do harm with nonsense in its own entry, which honest nodes may pass on [DR.8]', async () => {
    const nonsense: Partial<NodeAbout>[] = [
      { items: [['c', 'last', 'no list']] },
      { items: [['c', 'last', [null, 7, {}]], ['e', 'offer', 'nobody', []], ['w', 'in', 3, 4], ['no such kind']] },
      {
        items: [
          ['e', 'offer', 'nobody', [{ definition: 1 }]],
          ['w', 'in', 'state:x', 'nobody'],
        ],
      },
      { addresses: ['http://evil/'] },
      { chain: [] as unknown as NodeAbout['chain'] },
      { software: 'x'.repeat(100_000) },
    ];
    for (const changes of nonsense) {
      const other = accomplice();
      await offer(other.key, entryOf(other, changes));
    }
    expect(link.closed).toBe(false);
    expect(victim.registry.getRemoteCards().map(({ id }) => id)).toEqual(['honest']);
  });

  it('is not asked for more than a bounded number of nodes, which are forgotten again [DR.8]', async () => {
    const random = () => Buffer.from(nodes.runtime.bytes(32)).toString('hex');
    for (let time = 0; time < 30; time++) {
      const list = Array.from({ length: 1_000 }, () => [random(), 1, 0]);
      link.give(['directory', 'have', list]);
      await nodes.runtime.advance(10);
    }
    const asked = wants().reduce((sum, list) => sum + list.length, 0);
    expect(asked).toBeLessThanOrEqual(10_000);
    expect(
      victim.network
        .list()
        .map(({ node }) => node)
        .sort(),
    ).toEqual([friend.key, rogue.key].sort());
  });

  it('cannot keep a node’s new entry away by claiming to have it first [DR.8]', async () => {
    const third = await nodes.start();
    await nodes.join(third, friend);
    await nodes.until(() => victim.network.peers.reachable(third.key));
    const other = accomplice();
    const entry = entryOf(other);
    const claim = () => link.give(['directory', 'have', [[other.key, entry.version + 1, 0]]]);
    claim();
    const honest = await rogue.meet(friend, { ...FULL, session: 'another' });
    honest.give(['directory', 'have', [[other.key, entry.version, 0]]]);
    await nodes.runtime.advance(100);
    honest.give(['directory', 'entries', [[entry.text, entry.confirmation]]]);
    for (let time = 0; time < 20; time++) {
      await nodes.runtime.advance(250);
      claim();
    }
    expect(stateOf(other.key)).toBe('idle');
  });

  it('takes no more of the victim than a bounded amount with wants, and of the mesh with versions [DR.8]', async () => {
    const other = accomplice();
    await offer(other.key, entryOf(other, { items: [['x', 'y'.repeat(400_000)]] }));
    expect(stateOf(other.key)).toBe('idle');
    const before = link.heard.length;
    for (let time = 0; time < 200; time++)
      link.give(['directory', 'want', Array.from({ length: 1_000 }, () => other.key)]);
    await nodes.runtime.advance(500);
    expect(link.heard.length - before).toBeLessThan(40_000_000);
    const changing = accomplice();
    let taken = 0;
    for (let version = 1; version <= 1_000; version++) {
      const asked = wants().length;
      link.give(['directory', 'have', [[changing.key, version, 0]]]);
      await nodes.runtime.advance(1);
      if (wants().length === asked) continue;
      const { text, confirmation } = entryOf(changing, { version });
      link.give(['directory', 'entries', [[text, confirmation]]]);
      taken++;
    }
    expect(taken).toBeLessThanOrEqual(8);
  });

  it('says nothing of itself that others did not ask for: entries that come unasked are ignored [DR.8]', async () => {
    const other = accomplice();
    const { text, confirmation } = entryOf(other);
    link.give(['directory', 'entries', [[text, confirmation]]]);
    await nodes.runtime.advance(100);
    expect(stateOf(other.key)).toBeUndefined();
    expect(link.closed).toBe(false);
  });

  it.each<[string, unknown]>([
    ['no verb', ['directory']],
    ['an unknown verb', ['directory', 'burn', []]],
    ['a list that is none', ['directory', 'have', 'all']],
    ['too long a list', ['directory', 'want', Array.from({ length: 1_001 }, () => 'ab'.repeat(32))]],
    ['a key that is none', ['directory', 'want', ['me']]],
    ['a negative age', ['directory', 'have', [['ab'.repeat(32), 1, -1]]]],
    ['a version beyond integers', ['directory', 'have', [['ab'.repeat(32), 1e300, 0]]]],
    ['an entry that is no text', ['directory', 'entries', [[{}, null]]]],
    ['a confirmation without a signature', ['directory', 'alive', [['ab'.repeat(32), 1, 1]]]],
    ['the farewell of another node', ['directory', 'gone', ['["x"]', ['ab'.repeat(32), 1, 1, 'x']]]],
  ])('breaks the protocol with %s [DR.8]', async (_, item) => {
    link.give(item);
    await nodes.runtime.advance(100);
    expect(link.closed).toBe(true);
    expect(nodes.events(victim, 'security').at(-1)).toMatchObject({ node: rogue.key, code: 'INVALID_FRAME' });
  });

  it('breaks the protocol with an entry beyond the limit [DR.8]', async () => {
    const other = accomplice();
    const asked = await offer(other.key, entryOf(other, { software: 'x'.repeat(600_000) }));
    expect([asked, link.closed, stateOf(other.key)]).toEqual([true, true, undefined]);
  });
});

describe('the directory', () => {
  it('is never told to a node that is confined to a sandbox [DR.9]', async () => {
    const confined = await Rogue.join(nodes, victim, { sandboxes: ['lab'] });
    const narrow = await confined.meet(victim, FULL);
    victim.agent({ id: 'secret', tier: 1 });
    await nodes.runtime.advance(40_000);
    expect(narrow.items.filter(([kind]) => kind === 'directory')).toEqual([]);
    expect(narrow.heard).not.toContain('secret');
    narrow.give(['directory', 'want', [friend.key]], ['directory', 'have', [[confined.key, 1, 0]]]);
    await nodes.runtime.advance(1_000);
    expect(narrow.items.filter(([kind]) => kind === 'directory')).toEqual([]);
    expect(narrow.heard).not.toContain('honest');
  });

  it('is never told to a node that speaks an older version, which learns every card from each node [DR.9]', async () => {
    const older = await Rogue.join(nodes, victim);
    for (const node of [victim, friend]) {
      const old = await older.meet(node, { protocol: { min: 1, max: 3 } });
      await nodes.runtime.advance(130_000);
      expect(old.closed).toBe(false);
      const kinds = new Set(old.items.map(([kind]) => kind));
      expect([kinds.has('directory'), kinds.has('c')]).toEqual([false, true]);
      expect(old.frames.map(([kind]) => kind)).not.toContain('rest');
    }
  });
});
