import { describe, expect, it, vi } from 'vitest';
import { connected, type NetworkedNode, Nodes } from '../../../test/nodes-fixture.js';
import { joinBody, Rogue, type RogueLink } from '../../../test/rogue-peer.js';
import type { A2ALogEvent } from '../../mesh/schemas.js';
import { createNode } from '../../node/compose.js';
import { MemoryRendezvous } from '../discovery/memory-discovery.js';
import type { Link } from '../links/link.js';
import { linkInProcess } from '../links/memory-network.js';
import { decodeInvite, inviteId, proveInvite } from '../membership/invite.js';
import { decodeFrame, encodeFrame, type Frame } from './wire.js';

/** Two whole nodes; to each, the other can be made to look like a release that speaks other versions. */
class TwoReleases {
  readonly nodes = new Nodes();
  readonly calls: string[] = [];
  readonly security: A2ALogEvent[] = [];
  readonly #links: Link[] = [];
  readonly #meetings = new MemoryRendezvous(this.nodes.runtime, (caller, called) => this.#connect(caller, called));
  old!: NetworkedNode;
  later!: NetworkedNode;
  /** How many versions the later one is ahead. */
  ahead = 0;

  static async start(): Promise<TwoReleases> {
    const releases = new TwoReleases();
    releases.old = await releases.#node();
    releases.later = await releases.#node();
    return releases;
  }

  async join(): Promise<void> {
    await this.nodes.join(this.later, this.old);
  }

  states(): string[] {
    return [this.old, this.later].map((node) => node.network.list()[0]?.state ?? 'unknown');
  }

  reasons(): (string | null | undefined)[] {
    return [this.old, this.later].map((node) => node.network.list()[0]?.reason);
  }

  /** The later one has been replaced, or the link broke: they must greet each other again. */
  cut(): void {
    for (const link of this.#links.splice(0)) link.close();
  }

  async #node(): Promise<NetworkedNode> {
    const { runtime } = this.nodes;
    const node = await createNode({ runtime, network: { discovery: this.#meetings.join } });
    node.observability.subscribe((event) => {
      if (event.type === 'security') this.security.push(event);
    });
    return node as NetworkedNode;
  }

  #connect(caller: string, called: string): [Link, Link] {
    this.calls.push(caller);
    const [near, far] = linkInProcess(this.nodes.runtime, caller, called);
    this.#links.push(near);
    return caller === this.later.key ? [ahead(near, this.ahead), far] : [near, ahead(far, this.ahead)];
  }
}

/** An end of a link behind which every version is that many higher than on the wire's other side. */
function ahead(link: Link, by: number): Link {
  const { kind, remoteKey, initiator, handshake, reliable } = link;
  return {
    ...{ kind, remoteKey, initiator, handshake, reliable },
    send: (frame) => link.send(moveVersions(frame, by)),
    listen: (listener) => {
      link.listen({
        onFrame: (frame) => listener.onFrame(moveVersions(frame, -by)),
        onDrain: () => listener.onDrain(),
        onClose: (reason, tampered) => listener.onClose(reason, tampered),
      });
    },
    close: () => link.close(),
  };
}

/** An end of a link that loses some of its frames. */
function losing(link: Link, isLost: (frame: Frame) => boolean): Link {
  const { kind, remoteKey, initiator, handshake, reliable } = link;
  return {
    ...{ kind, remoteKey, initiator, handshake, reliable },
    send: (bytes) => isLost(decodeFrame(bytes)) || link.send(bytes),
    listen: (listener) => link.listen(listener),
    close: () => link.close(),
  };
}

function moveVersions(bytes: Uint8Array, by: number): Uint8Array {
  const [kind, body, ...rest] = decodeFrame(bytes);
  const { protocol } = Object(body) as { protocol?: { min: number; max: number } };
  if (!protocol) return bytes;
  const moved = { min: protocol.min + by, max: protocol.max + by };
  return encodeFrame([kind, { ...(body as object), protocol: moved }, ...rest] as Frame);
}

/** A founder, and a member of its mesh that speaks by hand. */
async function startPair(): Promise<{ nodes: Nodes; victim: NetworkedNode; member: Rogue }> {
  const nodes = new Nodes();
  const victim = await nodes.start();
  const member = await Rogue.join(nodes, victim);
  return { nodes, victim, member };
}

/** The same, and the two have met before. */
async function startAcquainted(): Promise<{ nodes: Nodes; victim: NetworkedNode; member: Rogue }> {
  const pair = await startPair();
  const { nodes, victim, member } = pair;
  const link = await member.meet(victim);
  link.say(['bye', 'stopping']);
  await nodes.runtime.advance(0);
  expect(victim.network.list()).toMatchObject([{ node: member.key, state: 'away' }]);
  return pair;
}

describe('protocol versions', () => {
  it('that have nothing in common make both sides say so, with an explanation and without a security event', async () => {
    const releases = await TwoReleases.start();
    await releases.join();
    releases.ahead = 6;
    releases.cut();
    await releases.nodes.until(() => releases.states().every((state) => state === 'incompatible'));
    const [old, later] = releases.reasons();
    expect(old).toMatch(/it runs ecliptic \S+, which speaks protocol 7 to 12; this node runs ecliptic \S+, .* 1 to 6/);
    expect(later).toMatch(/it runs ecliptic \S+, which speaks protocol -5 to 0; this node/);
    for (const node of [releases.old, releases.later]) {
      const about = node.network.diagnose().filter(({ level }) => level === 'problem');
      expect(about).toEqual([expect.objectContaining({ text: expect.stringMatching(/incompatible, it runs/) })]);
    }
    expect(releases.security).toEqual([]);
  });

  it('that have nothing in common are not tried again and again', async () => {
    const releases = await TwoReleases.start();
    await releases.join();
    releases.ahead = 6;
    releases.cut();
    await releases.nodes.until(() => releases.states().every((state) => state === 'incompatible'));
    const calls = releases.calls.length;
    await releases.nodes.runtime.advance(60_000);
    expect(releases.calls.length - calls).toBeLessThanOrEqual(6);
    expect(releases.states()).toEqual(['incompatible', 'incompatible']);
    expect(releases.security).toEqual([]);
  });

  it('that fit again after an upgrade connect the same two nodes', async () => {
    const { nodes, victim, member } = await startAcquainted();
    const before = member.call(victim);
    before.hello({ protocol: { min: 7, max: 8 } });
    await nodes.runtime.advance(0);
    expect(victim.network.list()).toMatchObject([{ node: member.key, state: 'incompatible' }]);
    await nodes.runtime.advance(11_000);
    await member.meet(victim, { protocol: { min: 1, max: 4 }, session: 'after the upgrade' });
    expect(victim.network.list()).toMatchObject([{ node: member.key, state: 'connected', reason: null }]);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it.each([
    ['exactly the same', { min: 1, max: 1 }],
    ['wider upwards', { min: 1, max: 99 }],
    ['wider on both sides', { min: 0, max: 2 ** 40 }],
    ['wider downwards', { min: -5, max: 1 }],
  ])('that are %s work', async (_, protocol) => {
    const { nodes, victim, member } = await startPair();
    const link = await member.meet(victim, { protocol });
    expect(link.frames[0]?.[0]).toBe('hello');
    expect(connected(victim)).toBe(1);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it.each([
    ['later', { min: 7, max: 9 }],
    ['earlier', { min: -2, max: 0 }],
    ['inside out', { min: 3, max: 0 }],
  ])('that are %s end the greeting on both sides, whoever called', async (_, protocol) => {
    const { nodes, victim, member } = await startAcquainted();
    const calling = member.call(victim);
    calling.hello({ protocol });
    await nodes.runtime.advance(0);
    expect(calling.frames).toEqual([['incompatible', expect.objectContaining({ protocol: { min: 1, max: 6 } })]]);
    expect(calling.closed).toBe(true);
    expect(victim.network.list()).toMatchObject([{ state: 'incompatible', reason: expect.stringContaining('rogue') }]);
    await nodes.runtime.advance(11_000);
    const called = member.letCall(victim);
    called.say(['incompatible', { protocol, software: 'ecliptic 9' }]);
    await nodes.runtime.advance(0);
    expect(called.closed).toBe(true);
    expect(victim.network.list()).toMatchObject([{ state: 'incompatible', reason: expect.stringContaining('9') }]);
    expect(nodes.events(victim, 'security')).toEqual([]);
    const statuses = nodes.events(victim, 'peer-status').map(({ peerStatus }) => peerStatus);
    expect(statuses).toEqual(['connected', 'away', 'incompatible']);
  });

  it('are looked at before anything else, so that a later release may say the rest otherwise', async () => {
    const { nodes, victim, member } = await startAcquainted();
    const link = member.call(victim);
    link.say(['hello', { protocol: { min: 7, max: 7 }, software: 'ecliptic 9', certificates: 'elsewhere' }]);
    await nodes.runtime.advance(0);
    expect(victim.network.list()).toMatchObject([{ state: 'incompatible' }]);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it('that do not fit an invited node leave its invite unused', async () => {
    const nodes = new Nodes();
    const victim = await nodes.start();
    const { code } = await nodes.settled(victim.network.invite());
    const { secret } = decodeInvite(code);
    const guest = new Rogue(nodes);
    const link = guest.call(victim);
    const proof = proveInvite(secret, 'guest', link.handshake);
    link.say(['join', joinBody(inviteId(secret), proof, { protocol: { min: 7, max: 7 } })]);
    await nodes.runtime.advance(11_000);
    expect(link.frames.map(([kind]) => kind)).toEqual(['incompatible']);
    const again = await guest.useInvite(victim, code);
    expect(again.frames.map(([kind]) => kind)).toEqual(['welcome']);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it('that do not fit the inviter’s are the reason that `join` gives, at once', async () => {
    const releases = await TwoReleases.start();
    releases.ahead = 6;
    const { nodes, old, later } = releases;
    const { code } = await nodes.settled(old.network.invite());
    const start = nodes.runtime.now();
    const error = await nodes.settled(later.network.join(code).catch((thrown: unknown) => thrown));
    expect(error).toMatchObject({ code: 'PROTOCOL_MISMATCH' });
    expect(nodes.runtime.now() - start).toBeLessThan(5_000);
    expect([old, later].map(({ network }) => network.list())).toEqual([[], []]);
    expect(releases.security).toEqual([]);
  });
});

describe('the order of a greeting', () => {
  it('lets the caller speak first: the called node sends nothing', async () => {
    const { nodes, victim, member } = await startPair();
    const link = member.call(victim);
    await nodes.runtime.advance(4_000);
    expect(link.frames).toEqual([]);
    link.hello();
    await nodes.runtime.advance(0);
    expect(link.frames[0]?.[0]).toBe('hello');
  });

  it('lets a caller say one word and wait for the answer', async () => {
    const { nodes, victim, member } = await startPair();
    const link = member.letCall(victim);
    await nodes.runtime.advance(4_000);
    expect(link.frames.map(([kind]) => kind)).toEqual(['hello']);
    expect(connected(victim)).toBe(0);
    link.hello();
    await nodes.runtime.advance(0);
    expect(connected(victim)).toBe(1);
  });

  it('ends with both hellos; then come the cards', async () => {
    const { nodes, victim, member } = await startPair();
    victim.agent({ id: 'sun' });
    const link = await member.meet(victim);
    expect([...new Set(link.frames.map(([kind]) => kind))]).toEqual(['hello', 'd']);
    expect(link.items[0]).toMatchObject(['c', 'last', [[{ id: 'sun', node: victim.key }, expect.any(String)]]]);
    await nodes.runtime.advance(10_000);
    expect(connected(victim), 'the time for greeting does not run on').toBe(1);
  });

  it('brings the cards in one list with one signature to a node that knows such lists [NT.5]', async () => {
    const { nodes, victim, member } = await startPair();
    victim.agent({ id: 'sun' });
    victim.agent({ id: 'mars' });
    const link = await member.meet(victim, { protocol: { min: 1, max: 4 } });
    expect(link.items[0]).toEqual([
      'c',
      'last',
      [expect.objectContaining({ id: 'sun', node: victim.key }), expect.objectContaining({ id: 'mars' })],
      expect.any(String),
    ]);
    link.give(['c', 'last', ...member.cardList({ id: 'mole' }, { id: 'vole' })]);
    await nodes.runtime.advance(0);
    expect(victim.registry.getRemoteCards().map(({ id }) => id)).toEqual(['mole', 'vole']);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it('tells of the other members once in a conversation, over however many links [NT.6]', async () => {
    const { nodes, victim, member } = await startPair();
    const other = await nodes.start();
    await nodes.join(other, victim);
    const toldOf = ({ items }: RogueLink) =>
      items.filter(([kind]) => kind === 'k').flatMap(([, entries]) => (entries as [string][]).map(([node]) => node));
    const link = await member.meet(victim, { protocol: { min: 1, max: 3 } });
    await nodes.runtime.advance(100);
    expect(toldOf(link)).toEqual([other.key]);
    link.close();
    await nodes.runtime.advance(100);
    const again = await member.meet(victim, { protocol: { min: 1, max: 3 } });
    await nodes.runtime.advance(100);
    expect(toldOf(again)).toEqual([]);
    again.close();
    await nodes.runtime.advance(100);
    const anew = await member.meet(victim, { protocol: { min: 1, max: 3 }, session: 'another process' });
    await nodes.runtime.advance(100);
    expect(toldOf(anew)).toEqual([other.key]);
  });

  it('goes on over the same link after an invite was used', async () => {
    const nodes = new Nodes();
    const victim = await nodes.start();
    const { code } = await nodes.settled(victim.network.invite());
    const guest = new Rogue(nodes);
    const link = await guest.useInvite(victim, code);
    expect(link.frames.map(([kind]) => kind)).toEqual(['welcome']);
    link.hello();
    await nodes.runtime.advance(0);
    expect(link.frames.map(([kind]) => kind)).toEqual(['welcome', 'hello', 'd']);
    expect(connected(victim)).toBe(1);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it.each([
    ['another name than its certificate’s', { name: 'palace' }],
    ['a word of the future', { roles: ['relay'], moonPhase: 0.5 }],
    ['names with a meaning in JavaScript', JSON.parse('{"__proto__":{"name":"x"},"constructor":1,"toString":null}')],
    ['something large and deep', { extra: Array.from({ length: 1_000 }, (_, index) => ({ index, deep: [[[[]]]] })) }],
  ])('ignores keys of a hello that it does not know: %s', async (_, extra) => {
    const { nodes, victim, member } = await startPair();
    const link = member.call(victim);
    // Spelled out, because a spread would not copy a key named `__proto__`.
    const text = JSON.stringify(link.helloBody()).slice(0, -1);
    link.sayText(`["hello",${text},${JSON.stringify(extra).slice(1)}]`);
    await nodes.runtime.advance(0);
    expect(victim.network.list()).toMatchObject([{ node: member.key, name: 'rogue', state: 'connected' }]);
    expect(nodes.events(victim, 'security')).toEqual([]);
    expect(({} as { name?: unknown }).name).toBeUndefined();
  });

  it('ignores keys of a join that it does not know', async () => {
    const nodes = new Nodes();
    const victim = await nodes.start();
    const { code } = await nodes.settled(victim.network.invite());
    const { secret } = decodeInvite(code);
    const link = new Rogue(nodes).call(victim);
    const proof = proveInvite(secret, 'guest', link.handshake);
    link.say(['join', joinBody(inviteId(secret), proof, { favour: 'please', grant: { tiers: [0] } })]);
    await nodes.runtime.advance(0);
    expect(link.frames.map(([kind]) => kind)).toEqual(['welcome']);
  });

  it('reports no node when a link ends in the middle of it', async () => {
    const { nodes, victim, member } = await startPair();
    const calling = member.call(victim);
    await nodes.runtime.advance(100);
    calling.close();
    const called = member.letCall(victim);
    await nodes.runtime.advance(100);
    called.close();
    await nodes.runtime.advance(10_000);
    expect(nodes.events(victim, 'security')).toEqual([]);
    await member.meet(victim);
    expect(connected(victim)).toBe(1);
  });

  it('does not report a called node that does not answer in time', async () => {
    const { nodes, victim, member } = await startPair();
    const link = member.letCall(victim);
    await nodes.runtime.advance(6_000);
    expect(link.closed).toBe(true);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it('that a busy caller began too late is no refusal: the caller is heard when it calls again [NT.1]', async () => {
    const { nodes, victim, member } = await startPair();
    const late = member.call(victim);
    await nodes.runtime.advance(5_100);
    expect(late.frames).toEqual([['refused', { code: 'PEER_UNREACHABLE', reason: expect.stringMatching(/in time/) }]]);
    expect(late.closed).toBe(true);
    await nodes.runtime.advance(1_000);
    await member.meet(victim);
    expect(connected(victim)).toBe(1);
  });

  it('still counts a hello that had arrived when the time was up, but was not read yet [NT.1]', async () => {
    const { nodes, victim, member } = await startPair();
    const link = member.call(victim);
    const deferred: (() => void)[] = [];
    const defer = vi.spyOn(nodes.runtime, 'defer').mockImplementation((task) => void deferred.push(task));
    await nodes.runtime.advance(5_000);
    defer.mockRestore();
    link.hello();
    await nodes.runtime.advance(0);
    for (const task of deferred) task();
    expect(link.frames[0]?.[0]).toBe('hello');
    expect(connected(victim)).toBe(1);
  });

  it('of a guest that the inviter ended as late does not fail `join`, which tries again [NT.1]', async () => {
    const nodes = new Nodes();
    const { runtime } = nodes;
    let calls = 0;
    const meetings = new MemoryRendezvous(runtime, (caller, called) => {
      const [near, far] = linkInProcess(runtime, caller, called);
      return calls++ === 0 ? [losing(near, () => true), far] : [near, far];
    });
    const limits = { greetingMs: 2_000 };
    const host = (await createNode({ runtime, network: { discovery: meetings.join, limits } })) as NetworkedNode;
    const guest = (await createNode({ runtime, network: { discovery: meetings.join } })) as NetworkedNode;
    await nodes.join(guest, host);
    expect(calls).toBeGreaterThan(1);
    expect(connected(host)).toBe(1);
  });

  it('that the called node ended as late is tried again soon, waiting longer each time [NT.1 NT.2]', async () => {
    const { nodes, victim, member } = await startPair();
    const waits: number[] = [];
    let link = member.letCall(victim);
    await nodes.runtime.advance(0);
    for (let attempt = 0; attempt < 8; attempt++) {
      link.say(['refused', { code: 'PEER_UNREACHABLE', reason: 'the other side did not introduce itself in time' }]);
      const ended = nodes.runtime.now();
      do {
        await nodes.runtime.advance(50);
        link = member.letCall(victim);
        await nodes.runtime.advance(0);
      } while (link.frames.length === 0);
      waits.push(nodes.runtime.now() - ended);
    }
    expect(waits[0]).toBeLessThan(1_000);
    expect(Math.max(...waits)).toBeGreaterThan(4_000);
    expect(Math.max(...waits)).toBeLessThan(15_100);
    expect(nodes.events(victim, 'security')).toEqual([]);
  });

  it('that was late is followed by no call that this node would end at once [NT.2]', async () => {
    const nodes = new Nodes();
    const { runtime } = nodes;
    const links: Link[] = [];
    let muted = false;
    const meetings = new MemoryRendezvous(runtime, (caller, called) => {
      const [near, far] = linkInProcess(runtime, caller, called);
      links.push(near);
      return [losing(near, () => muted), far];
    });
    const start = async () => (await createNode({ runtime, network: { discovery: meetings.join } })) as NetworkedNode;
    const [one, other] = [await start(), await start()];
    await nodes.join(other, one);
    muted = true;
    for (const link of links.splice(0)) link.close();
    await runtime.advance(60_000);
    // Each greeting lasts 5 s, and at most two with one node run at a time.
    expect(links.length).toBeGreaterThan(2);
    expect(links.length).toBeLessThanOrEqual(2 * (60 / 5));
    muted = false;
    await nodes.until(() => connected(one) === 1 && connected(other) === 1, 21_000);
  });

  it.each<[kind: string, sender: string]>([
    ['join', 'guest'],
    ['welcome', 'host'],
    ['hello', 'guest'],
    ['hello', 'host'],
  ])('over an unreliable link survives the loss of a %s of the %s [NT.1]', async (lostKind, sender) => {
    const nodes = new Nodes({ faults: {} });
    const { runtime, network } = nodes;
    let [calls, losses] = [0, 0];
    const isLost = ([kind]: Frame) => kind === lostKind && losses++ < 2;
    const meetings = new MemoryRendezvous(runtime, (caller, called) => {
      calls++;
      const [near, far] = network.connect(caller, called)!;
      return sender === 'guest' ? [losing(near, isLost), far] : [near, losing(far, isLost)];
    });
    const start = async () => (await createNode({ runtime, network: { discovery: meetings.join } })) as NetworkedNode;
    const [host, guest] = [await start(), await start()];
    const begun = runtime.now();
    await nodes.join(guest, host);
    expect(runtime.now() - begun).toBeLessThan(1_500);
    expect(losses).toBeGreaterThan(2);
    host.agent({ id: 'mars' });
    await nodes.until(() => guest.registry.getById('mars') !== undefined, 1_500);
    expect(calls).toBe(1);
  });

  it('takes a refusal as an answer: the reason is kept, no node is reported, and it does not call again for a minute [NT.2]', async () => {
    const { nodes, victim, member } = await startPair();
    const link = member.letCall(victim);
    link.say(['refused', { code: 'MEMBERSHIP_REFUSED', reason: 'not today' }]);
    await nodes.runtime.advance(0);
    expect(link.closed).toBe(true);
    expect(nodes.events(victim, 'security')).toEqual([]);
    const soon = member.letCall(victim);
    await nodes.runtime.advance(50_000);
    expect([soon.closed, soon.frames]).toEqual([true, []]);
    await nodes.runtime.advance(11_000);
    const later = member.letCall(victim);
    await nodes.runtime.advance(0);
    expect(later.frames.map(([kind]) => kind)).toEqual(['hello']);
  });
});

describe('the session that a hello names', () => {
  const sessionOf = ({ frames }: RogueLink) => (frames[0]![1] as { session: string }).session;

  it('stays the same for as long as the conversation, whichever side calls', async () => {
    const { nodes, victim, member } = await startPair();
    const links: RogueLink[] = [await member.meet(victim)];
    links[0]!.close();
    await nodes.runtime.advance(0);
    const called = member.letCall(victim);
    await nodes.runtime.advance(0);
    called.hello();
    await nodes.runtime.advance(0);
    expect(connected(victim)).toBe(1);
    expect(sessionOf(called)).toBe(sessionOf(links[0]!));
  });

  it('is another after the conversation has ended', async () => {
    const { nodes, victim, member } = await startPair();
    const before = await member.meet(victim);
    before.say(['bye', 'stopping']);
    await nodes.runtime.advance(0);
    const after = await member.meet(victim, { session: 'another' });
    expect(sessionOf(after)).not.toBe(sessionOf(before));
  });

  // The hello is said when a greeting begins, and the conversation whose names it gave may be another when it ends. Each
  // side would then have another idea of where the numbers begin.
  it.each<[string, (nodes: Nodes, victim: NetworkedNode, member: Rogue) => Promise<void>]>([
    [
      'another greeting with the same node ends in vain',
      async (nodes, victim, member) => {
        const other = member.letCall(victim);
        await nodes.runtime.advance(0);
        other.close();
      },
    ],
  ])('is the one of the conversation that the greeting begins, though meanwhile %s', async (_, meanwhile) => {
    const { nodes, victim, member } = await startPair();
    const link = member.letCall(victim);
    await nodes.runtime.advance(0);
    await meanwhile(nodes, victim, member);
    await nodes.runtime.advance(0);
    link.hello();
    await nodes.runtime.advance(0);
    expect(link.closed || victim.network.peers.get(member.key)?.sessionIds.session === sessionOf(link)).toBe(true);
  });
});
