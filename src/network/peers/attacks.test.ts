import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import { connected, type NetworkedNode, Nodes } from '../../../test/nodes-fixture.js';
import { joinBody, Rogue, RogueLink } from '../../../test/rogue-peer.js';
import type { Agent } from '../../agent/agent.js';
import { buildCard } from '../../agent/agent-init.js';
import type { A2AMessageType, EnvelopeMetadata } from '../../mesh/schemas.js';
import type { NodeInit } from '../../node/compose.js';
import type { ErrorCode } from '../../runtime/errors.js';
import { type Link, MAX_FRAME_BYTES } from '../links/link.js';
import { linkInProcess } from '../links/memory-network.js';
import { announce } from '../membership/announcements.js';
import type { Certificate, Chain } from '../membership/certificate.js';
import { decodeInvite, encodeInvite, inviteId, proveInvite } from '../membership/invite.js';
import { type Removal, signRemoval } from '../membership/removal.js';

const DAY_MS = 86_400_000;
/** With ECLIPTIC_SOAK=1, far more of what is random, and whole what is otherwise made shorter. */
const SOAK = process.env.ECLIPTIC_SOAK === '1';
/** How long a caller may take to introduce itself, and how long one that was refused is not listened to. */
const GREETING_MS = 5_000;
const SHUN_MS = 10_000;

/** Everything that went wrong where nobody was looking. */
const accidents: unknown[] = [];
const noteAccident = (error: unknown) => {
  accidents.push(error);
};

beforeAll(() => {
  process.on('uncaughtException', noteAccident);
  process.on('unhandledRejection', noteAccident);
});

afterAll(() => {
  process.off('uncaughtException', noteAccident);
  process.off('unhandledRejection', noteAccident);
});

afterEach(() => {
  expect(accidents.splice(0)).toEqual([]);
});

/**
 * A founder under attack, with a member that does nothing wrong and must be served all the while. `mark` begins an
 * attack; `expectRefused` says that it was noticed exactly once and changed nothing.
 */
class Siege {
  readonly nodes = new Nodes();
  readonly inbox: unknown[] = [];
  victim!: NetworkedNode;
  bystander!: NetworkedNode;
  sun!: Agent;
  #europa!: Agent;
  #seen = 0;
  #seenByBystander = 0;
  #before: unknown;

  static async begin(init: Omit<NodeInit, 'runtime'> = {}): Promise<Siege> {
    const siege = new Siege();
    const { nodes } = siege;
    siege.victim = await nodes.start({ ...init, network: { name: 'palace', ...init.network } });
    siege.bystander = await nodes.start({ network: { name: 'village' } });
    for (const id of ['sun', 'mars']) {
      const agent = siege.victim.agent({ id });
      agent.onNotification((message) => void siege.inbox.push(message.payload));
      agent.onRequest((message) => ({ heard: message.payload }));
    }
    siege.sun = siege.victim.agentById('sun');
    siege.#europa = siege.bystander.agent({ id: 'europa' });
    await nodes.join(siege.bystander, siege.victim);
    await nodes.until(
      () => siege.bystander.registry.size === 3 && siege.victim.registry.getById('europa') !== undefined,
    );
    siege.mark();
    return siege;
  }

  /** A genuine member of the mesh that does not play by the rules. */
  rogue(options?: Parameters<typeof Rogue.join>[2]): Promise<Rogue> {
    return Rogue.join(this.nodes, this.victim, options);
  }

  stranger(): Rogue {
    return new Rogue(this.nodes);
  }

  get mesh(): string {
    return this.bystanderChain[0]!.mesh;
  }

  /** The bystander's certificate, which everyone has seen. */
  get bystanderChain(): Chain {
    return this.victim.network.peers.get(this.bystander.key)!.chain!;
  }

  get now(): number {
    return this.nodes.runtime.now();
  }

  pass(ms = 100): Promise<void> {
    return this.nodes.runtime.advance(ms);
  }

  security() {
    return this.nodes.events(this.victim, 'security').slice(this.#seen);
  }

  mark(): void {
    this.#seen = this.nodes.events(this.victim, 'security').length;
    this.#seenByBystander = this.nodes.events(this.bystander, 'security').length;
    this.#before = this.#state();
  }

  /** Exactly one security event, and nothing else. */
  async expectRefused(code: ErrorCode | RegExp, reason = /./): Promise<void> {
    await this.pass();
    const expected = { code: expect.stringMatching(code), reason: expect.stringMatching(reason) };
    expect(this.security()).toEqual([expect.objectContaining(expected)]);
    await this.expectUnharmed();
  }

  async expectUnharmed(): Promise<void> {
    expect(this.#state()).toEqual(this.#before);
    await this.expectServing();
  }

  async expectServing(): Promise<void> {
    const answer = this.nodes.settled(this.#europa.request(`sun@${this.victim.key}`, 'are you there?'));
    expect(await answer).toEqual({ heard: 'are you there?' });
    expect(this.nodes.events(this.bystander, 'security').slice(this.#seenByBystander)).toEqual([]);
  }

  #state(): unknown {
    const { registry, network, channels } = this.victim;
    const others = network.list().filter(({ node }) => node === this.bystander.key);
    return {
      cards: registry
        .listAll()
        .map(({ id, node, tier, revision, sandboxId }) => JSON.stringify([id, node, tier, revision, sandboxId]))
        .sort(),
      peers: others.map(({ node, state, agents, name }) => ({ node, state, agents, name })),
      channels: channels.listChannels().map(({ id, status }) => ({ id, status })),
      inbox: [...this.inbox],
    };
  }
}

interface MessageInit {
  type?: A2AMessageType;
  payload?: unknown;
  thread?: string;
  metadata?: EnvelopeMetadata;
}

/** A message as it travels. */
function message(sender: string, recipient: string, init: MessageInit = {}): unknown[] {
  const { type = 'notification', payload = 'boo', thread = null, metadata } = init;
  const packed = ['m', 1, 'envelope-1', sender, recipient, type, 1, payload, thread];
  return metadata ? [...packed, metadata] : packed;
}

function onChannel(channelId: string, sender: string, recipient: string, init: MessageInit = {}): unknown[] {
  return ['x', channelId, ...message(sender, recipient, init).slice(1)];
}

/** A removal of the bystander, but for the changes, signed by a rogue. */
function remove(siege: Siege, by: Rogue, changes: Partial<Removal> = {}): Removal {
  const content = { mesh: siege.mesh, of: siege.bystanderChain, at: siege.now, keep: [], by: by.chain! };
  const { signature: _, ...signed } = { signature: '', ...content, ...changes };
  return signRemoval(by.identity, signed);
}

/** A removal, true in every way, of a node that the rogue made up; and as long as it may be. */
function removeMadeUp(siege: Siege, by: Rogue): Removal {
  const keep = Array.from({ length: 256 }, () => madeUpKey(siege));
  return remove(siege, by, { of: by.vouchFor().chain!, keep });
}

function madeUpKey({ nodes }: { nodes: Nodes }): string {
  return Buffer.from(nodes.runtime.bytes(32)).toString('hex');
}

/** A list inside a list, that deep. */
function nested(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels);
}

/** All that a stranger may hear: that it was refused, and why. */
function expectOnlyRefusal(siege: Siege, link: RogueLink, code: ErrorCode): void {
  expect(link.frames).toEqual([['refused', { code, reason: expect.any(String) }]]);
  expect(link.closed).toBe(true);
  for (const secret of [siege.victim.key, siege.bystander.key, siege.mesh, 'palace', 'village', 'sun', 'ecliptic']) {
    expect(link.heard).not.toContain(secret);
  }
}

describe('a caller that is no member', () => {
  it('without a certificate is refused, and learns nothing', async () => {
    const siege = await Siege.begin();
    const link = siege.stranger().call(siege.victim);
    link.hello({ chain: null });
    await siege.expectRefused('MEMBERSHIP_REFUSED', /shows no certificate/);
    expectOnlyRefusal(siege, link, 'MEMBERSHIP_REFUSED');
    expect(siege.victim.network.list()).toHaveLength(1);
  });

  /** What each kind of impostor shows. */
  const impostors: [what: string, disguise: (siege: Siege, member: Rogue) => [Rogue, Chain]][] = [
    ['with the certificate of another node', (siege, member) => [siege.stranger(), member.chain!]],
    [
      'with a certificate of another mesh',
      (siege) => {
        const stranger = siege.stranger();
        return [stranger, [siege.stranger().certify(stranger.key)]];
      },
    ],
    [
      'with a certificate that names this mesh but is signed by another root',
      (siege) => {
        const stranger = siege.stranger();
        return [stranger, [siege.stranger().certify(stranger.key, { mesh: siege.mesh })]];
      },
    ],
    [
      'with a certificate that it signed itself below a genuine one',
      (siege, member) => {
        const stranger = siege.stranger();
        return [stranger, [stranger.certify(stranger.key, { mesh: siege.mesh }), ...member.chain!]];
      },
    ],
    [
      'with a genuine certificate in which another node was written',
      (siege, member) => {
        const stranger = siege.stranger();
        return [stranger, [{ ...member.chain![0]!, node: stranger.key }, ...member.chain!.slice(1)]];
      },
    ],
    [
      'whose certificate lacks the one of its issuer',
      (_, member) => {
        const other = member.vouchFor();
        return [other, [other.chain![0]!, ...other.chain!.slice(2)]];
      },
    ],
    [
      'whose certificate has expired',
      (siege, member) => {
        const other = member.vouchFor({ expiresAt: siege.now });
        return [other, other.chain!];
      },
    ],
    [
      'whose certificate was altered',
      (_, member) => {
        const other = member.vouchFor();
        return [other, [{ ...other.chain![0]!, expiresAt: 1e15 }, ...other.chain!.slice(1)]];
      },
    ],
    [
      'whose certificate was issued before its issuer was a member',
      (siege, member) => {
        const other = member.vouchFor({ issuedAt: siege.now - DAY_MS });
        return [other, other.chain!];
      },
    ],
    [
      'whose certificate is from the future, where no removal would reach it',
      (siege, member) => {
        const other = member.vouchFor({ issuedAt: siege.now + 200 * DAY_MS });
        return [other, other.chain!];
      },
    ],
    [
      'whose certificate lives longer than any may',
      (siege, member) => {
        const other = member.vouchFor({ expiresAt: siege.now + 401 * DAY_MS });
        return [other, other.chain!];
      },
    ],
    [
      'whose certificate is older than its membership',
      (siege, member) => {
        const other = member.vouchFor({ since: siege.now + DAY_MS });
        return [other, other.chain!];
      },
    ],
    [
      'which stands above itself',
      (_, member) => {
        const other = member.vouchFor();
        return [member, [other.certify(member.key), ...other.chain!]];
      },
    ],
    [
      'whose certificate was issued after its issuer’s ran out',
      (siege, member) => {
        const other = member.vouchFor({ issuedAt: siege.now + 800 * DAY_MS, expiresAt: siege.now + 900 * DAY_MS });
        return [other, other.chain!];
      },
    ],
    [
      'whose chain is longer than any may be',
      (_, member) => {
        let other = member;
        while (other.chain!.length < 9) other = other.vouchFor();
        return [other, other.chain!];
      },
    ],
    ['whose chain is empty', (siege) => [siege.stranger(), []]],
    [
      'whose certificate holds more than one may',
      (_, member) => {
        const other = member.vouchFor();
        return [other, [{ ...other.chain![0]!, admin: true } as Certificate, ...other.chain!.slice(1)]];
      },
    ],
    [
      'whose signature is missing',
      (_, member) => {
        const other = member.vouchFor();
        return [other, [{ ...other.chain![0]!, signature: '' }, ...other.chain!.slice(1)]];
      },
    ],
  ];

  describe('but shows a certificate', () => {
    let siege: Siege;
    beforeAll(async () => {
      siege = await Siege.begin();
    });

    it.each(impostors)('%s is refused, and learns nothing', async (_, disguise) => {
      const [impostor, chain] = disguise(siege, await siege.rogue());
      siege.mark();
      impostor.chain = chain;
      const link = impostor.call(siege.victim);
      link.hello();
      await siege.expectRefused('MEMBERSHIP_REFUSED', /is not admitted/);
      expectOnlyRefusal(siege, link, 'MEMBERSHIP_REFUSED');
      expect(siege.victim.network.peers.get(impostor.key)).toBeUndefined();
    });
  });

  it.each([
    ['goes beyond what its issuer may', { tiers: [3] as const, mayInvite: true }, /goes beyond/],
    ['comes from a member that may not invite', { tiers: [3] as const }, /may not invite/],
    ['leaves its issuer’s sandbox', { sandboxes: ['lab'], mayInvite: true }, /goes beyond/],
  ])('is refused when its certificate %s', async (_, options, reason) => {
    const siege = await Siege.begin();
    const member = await siege.rogue(options);
    siege.mark();
    const link = member.vouchFor().call(siege.victim);
    link.hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', reason);
    expectOnlyRefusal(siege, link, 'MEMBERSHIP_REFUSED');
  });

  it.each([
    ['', 0],
    [', though the clock of its issuer is ahead', 300_000],
  ])('is refused after it was removed, and so is who it vouched for%s', async (_, aheadMs) => {
    const siege = await Siege.begin();
    const removed = (await siege.rogue()).vouchFor({ issuedAt: siege.now + aheadMs });
    const link = await removed.meet(siege.victim);
    link.announce({ id: 'mole' });
    await siege.pass();
    siege.victim.network.remove(removed.key);
    await siege.pass();
    expect(link.closed).toBe(true);
    expect(siege.victim.registry.getById('mole')).toBeUndefined();
    siege.mark();
    const again = removed.call(siege.victim);
    again.hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', /was removed/);
    expectOnlyRefusal(siege, again, 'MEMBERSHIP_REFUSED');
    siege.mark();
    const friend = removed.vouchFor().call(siege.victim);
    friend.hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', /issuer was removed/);
    expectOnlyRefusal(siege, friend, 'MEMBERSHIP_REFUSED');
  });

  it('is let go when its certificate runs out while the link is up', async () => {
    const siege = await Siege.begin();
    const member = await siege.rogue();
    siege.mark();
    const rogue = member.vouchFor({ expiresAt: siege.now + 2_000 });
    const link = await rogue.meet(siege.victim);
    link.announce({ id: 'mole' });
    await siege.pass(1_000);
    expect(siege.victim.registry.getById('mole')).toBeDefined();
    expect(siege.security()).toEqual([]);
    await siege.pass(1_500);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /has expired/);
    expect(link.closed).toBe(true);
    expect(link.frames.at(-1)).toEqual(['bye', 'expired']);
    link.give(message('mole', 'sun'));
    await siege.pass();
    await siege.expectUnharmed();
    siege.mark();
    const again = rogue.call(siege.victim);
    again.hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', /has expired/);
  });

  it('that was refused is not listened to for a while, and then again', async () => {
    const siege = await Siege.begin();
    const stranger = siege.stranger();
    stranger.call(siege.victim).hello({ chain: null });
    await siege.expectRefused('MEMBERSHIP_REFUSED');
    siege.mark();
    for (let count = 0; count < 20; count++) {
      const link = stranger.call(siege.victim);
      link.hello();
      await siege.pass(1);
      expect([link.closed, link.frames]).toEqual([true, []]);
    }
    expect(siege.security()).toEqual([]);
    await siege.pass(SHUN_MS);
    stranger.call(siege.victim).hello({ chain: null });
    await siege.expectRefused('MEMBERSHIP_REFUSED');
  });

  it('cannot pass itself off as the node it calls', async () => {
    const siege = await Siege.begin();
    const [own, theirs] = linkInProcess(siege.nodes.runtime, siege.victim.key, siege.victim.key);
    const link = new RogueLink(siege.nodes.runtime, siege.stranger(), own);
    siege.victim.network.links.take(theirs);
    link.hello();
    await siege.pass();
    expect([link.closed, link.frames]).toEqual([true, []]);
    await siege.expectUnharmed();
  });
});

describe('a proof of membership', () => {
  /** What a genuine member shows instead of its proof when it calls. */
  const callers: [what: string, proof: (siege: Siege, rogue: Rogue, link: RogueLink) => unknown][] = [
    ['null', () => null],
    ['empty', () => ''],
    ['a number', () => 7],
    ['a list', (_, rogue, link) => [rogue.prove(link)]],
    ['of the other role', (_, rogue, link) => rogue.prove(link, { initiator: false })],
    ['made for another node', (siege, rogue, link) => rogue.prove(link, { remoteKey: siege.bystander.key })],
    ['of another handshake', (siege, rogue, link) => rogue.prove(link, { hash: siege.nodes.runtime.bytes(32) })],
    ['signed by another node', (siege, _, link) => siege.stranger().prove(link)],
    [
      'with a byte changed',
      (_, rogue, link) => rogue.prove(link).replace(/^./, (letter) => (letter === 'A' ? 'B' : 'A')),
    ],
  ];

  let shared: Siege;
  let member: Rogue;
  beforeAll(async () => {
    shared = await Siege.begin();
    member = await shared.rogue();
  });

  it.each(callers)('that is %s does not let a caller in', async (_, proof) => {
    shared.mark();
    const rogue = member.vouchFor();
    const link = rogue.call(shared.victim);
    link.hello({ proof: proof(shared, rogue, link) });
    await shared.expectRefused('MEMBERSHIP_REFUSED', /its proof does not belong to this link/);
    expectOnlyRefusal(shared, link, 'MEMBERSHIP_REFUSED');
  });

  it.each(['chain', 'proof'])('does not let a caller in that leaves out its %s', async (key) => {
    shared.mark();
    const link = member.vouchFor().call(shared.victim);
    link.hello({ [key]: undefined });
    await shared.expectRefused(/^(INVALID_FRAME|MEMBERSHIP_REFUSED)$/);
    expect(link.frames.map(([kind]) => kind)).toEqual(['refused']);
  });

  it('replayed from another link does not let a caller in', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const genuine = rogue.call(siege.victim);
    const overheard = genuine.helloBody();
    genuine.say(['hello', overheard]);
    await siege.pass();
    genuine.say(['bye', 'stopping']);
    await siege.pass();
    siege.mark();
    const replay = rogue.call(siege.victim);
    replay.say(['hello', overheard]);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /its proof does not belong to this link/);
    expectOnlyRefusal(siege, replay, 'MEMBERSHIP_REFUSED');
  });

  it('that a member gave to a man in the middle does not let that one in', async () => {
    const siege = await Siege.begin();
    const thief = siege.stranger();
    // The bystander calls the thief, who passes on what it hears.
    const lured = thief.letCall(siege.bystander);
    await siege.pass(1);
    const [, stolen] = lured.frames[0]!;
    const link = thief.call(siege.victim);
    link.say(['hello', stolen]);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /another node’s/);
    expectOnlyRefusal(siege, link, 'MEMBERSHIP_REFUSED');
  });

  it.each([
    ['reflects the caller’s own greeting', (_: Rogue, link: RogueLink) => link.frames[0]![1], /another node’s/],
    [
      'reflects the caller’s proof under its own certificate',
      (_: Rogue, link: RogueLink) => link.helloBody({ proof: (link.frames[0]![1] as { proof: string }).proof }),
      /does not belong to this link/,
    ],
    [
      'proves what a caller would',
      (rogue: Rogue, link: RogueLink) => link.helloBody({ proof: rogue.prove(link, { initiator: true }) }),
      /does not belong to this link/,
    ],
    ['proves nothing', (_: Rogue, link: RogueLink) => link.helloBody({ proof: null }), /does not belong to this link/],
    ['shows no certificate', (_: Rogue, link: RogueLink) => link.helloBody({ chain: null }), /shows no certificate/],
  ])('does not let one in that was called and %s', async (_, answer, reason) => {
    shared.mark();
    const rogue = member.vouchFor();
    const link = rogue.letCall(shared.victim);
    await shared.pass(1);
    link.say(['hello', answer(rogue, link)]);
    await shared.expectRefused('MEMBERSHIP_REFUSED', reason);
    expect(link.frames.map(([kind]) => kind)).toEqual(['hello']);
    expect(link.closed).toBe(true);
  });
});

describe('an invite', () => {
  async function invited(ttlMs?: number): Promise<{ siege: Siege; code: string; secret: Uint8Array }> {
    const siege = await Siege.begin();
    const { code } = await siege.nodes.settled(siege.victim.network.invite({ ttlMs }));
    siege.mark();
    return { siege, code, secret: decodeInvite(code).secret };
  }

  it('that was used by another node lets no second one in', async () => {
    const { siege, code } = await invited();
    const first = await siege.stranger().useInvite(siege.victim, code);
    expect(first.frames.map(([kind]) => kind)).toEqual(['welcome']);
    first.close();
    await siege.pass();
    const second = await siege.stranger().useInvite(siege.victim, code);
    await siege.expectRefused('INVALID_INVITE', /used before/);
    expectOnlyRefusal(siege, second, 'INVALID_INVITE');
  });

  it('that has expired lets no node in', async () => {
    const { siege, code } = await invited(1_000);
    await siege.pass(1_000);
    const link = await siege.stranger().useInvite(siege.victim, code);
    await siege.expectRefused('INVALID_INVITE', /expired/);
    expectOnlyRefusal(siege, link, 'INVALID_INVITE');
  });

  it('that has expired lets the one that used it in no second time', async () => {
    const { siege, code } = await invited(1_000);
    const guest = siege.stranger();
    (await guest.useInvite(siege.victim, code)).close();
    await siege.pass(1_000);
    const link = await guest.useInvite(siege.victim, code);
    await siege.expectRefused('INVALID_INVITE', /expired/);
    expectOnlyRefusal(siege, link, 'INVALID_INVITE');
  });

  it('lets a node that was removed since in no second time', async () => {
    const { siege, code } = await invited();
    const rogue = siege.stranger();
    (await rogue.useInvite(siege.victim, code)).close();
    await rogue.meet(siege.victim);
    siege.victim.network.remove(rogue.key);
    await siege.pass();
    siege.mark();
    const again = await rogue.useInvite(siege.victim, code);
    await siege.expectRefused('INVALID_INVITE', /used before/);
    expectOnlyRefusal(siege, again, 'INVALID_INVITE');
  });

  it('that was revoked lets no node in', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-revoked-'));
    try {
      const nodes = new Nodes();
      const before = await nodes.start({ network: { folder } });
      const { code } = await nodes.settled(before.network.invite());
      await nodes.settled(before.stop());
      const file = join(folder, 'mesh.json');
      writeFileSync(file, readFileSync(file, 'utf8').replace('"state":"open"', '"state":"revoked"'));
      const victim = await nodes.start({ network: { folder } });
      const link = await new Rogue(nodes).useInvite(victim, code);
      expect(link.frames).toEqual([['refused', { code: 'INVALID_INVITE', reason: expect.stringMatching(/revoked/) }]]);
      expect(nodes.events(victim, 'security')).toMatchObject([{ code: 'INVALID_INVITE' }]);
      await nodes.settled(victim.stop());
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('that was never made lets no node in, however it was guessed [T-G4]', async () => {
    const { siege } = await invited();
    const secret = siege.nodes.runtime.bytes(16);
    const link = await siege.stranger().useInvite(siege.victim, encodeInvite({ secret, bootstrap: [], addresses: [] }));
    await siege.expectRefused('INVALID_INVITE', /no such invite/);
    expectOnlyRefusal(siege, link, 'INVALID_INVITE');
  });

  const proofs: [what: string, proof: (secret: Uint8Array, link: RogueLink, siege: Siege) => unknown][] = [
    ['made up', () => 'x'.repeat(43)],
    ['empty', () => ''],
    ['of another length', () => 'x'],
    ['the host’s', (secret, link) => proveInvite(secret, 'host', link.handshake)],
    ['another link’s', (secret, _, siege) => proveInvite(secret, 'guest', siege.nodes.runtime.bytes(32))],
    ['of another secret', (_, link, siege) => proveInvite(siege.nodes.runtime.bytes(16), 'guest', link.handshake)],
  ];

  it.each(proofs)('whose proof is %s lets no node in, and can still be used', async (_, proof) => {
    const { siege, code, secret } = await invited();
    const link = siege.stranger().call(siege.victim);
    link.say(['join', joinBody(inviteId(secret), proof(secret, link, siege) as string)]);
    await siege.expectRefused('INVALID_INVITE', /the proof does not hold/);
    expectOnlyRefusal(siege, link, 'INVALID_INVITE');
    const guest = await siege.stranger().useInvite(siege.victim, code);
    expect(guest.frames.map(([kind]) => kind)).toEqual(['welcome']);
  });

  it.each([
    ['no name', { name: undefined }],
    ['a name that is a list', { name: ['rogue'] }],
    ['a name that is too long', { name: 'x'.repeat(257) }],
    ['a proof that is no text', { proof: { toString: 'x' } }],
    ['an id that is no text', { invite: 7 }],
    ['an empty id', { invite: '' }],
  ])('shown with %s lets nobody in, and can still be used', async (_, changes) => {
    const { siege, code, secret } = await invited();
    const link = siege.stranger().call(siege.victim);
    link.say(['join', joinBody(inviteId(secret), proveInvite(secret, 'guest', link.handshake), changes)]);
    await siege.expectRefused('INVALID_FRAME');
    expectOnlyRefusal(siege, link, 'INVALID_FRAME');
    const guest = await siege.stranger().useInvite(siege.victim, code);
    expect(guest.frames.map(([kind]) => kind)).toEqual(['welcome']);
  });

  it('for which two strangers race lets exactly one of them in', async () => {
    const { siege, secret } = await invited();
    const links = [siege.stranger(), siege.stranger()].map((stranger) => stranger.call(siege.victim));
    for (const link of links) {
      link.say(['join', joinBody(inviteId(secret), proveInvite(secret, 'guest', link.handshake))]);
    }
    await siege.expectRefused('INVALID_INVITE', /used before/);
    expect(links.map((link) => link.frames[0]?.[0]).sort()).toEqual(['refused', 'welcome']);
  });

  it.each([1, 2, 3, 4, 5])('for which two whole nodes race lets exactly one of them in (seed %i)', async (seed) => {
    const nodes = new Nodes({ seed });
    const host = await nodes.start();
    const guests = [await nodes.start(), await nodes.start()];
    const { code } = await nodes.settled(host.network.invite());
    const outcomes = await nodes.settled(Promise.allSettled(guests.map(({ network }) => network.join(code))));
    const rejected = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(rejected.map(({ reason }) => (reason as { code: string }).code)).toEqual(['INVALID_INVITE']);
    await nodes.until(() => connected(host) === 1);
    expect(guests.filter(({ network }) => network.joined)).toHaveLength(1);
    expect(nodes.events(host, 'security')).toMatchObject([{ code: 'INVALID_INVITE' }]);
  });

  it('whose maker is reached twice at once is used once, and reports no node', async () => {
    const { siege, code } = await invited();
    const { nodes, victim } = siege;
    const newcomer = await nodes.start();
    const joining = newcomer.network.join(code);
    for (let count = 0; count < 2; count++) {
      const [near, far] = linkInProcess(nodes.runtime, newcomer.key, victim.key);
      newcomer.network.links.take(near);
      victim.network.links.take(far);
    }
    await nodes.settled(joining);
    await siege.pass(1_000);
    expect(nodes.events(newcomer, 'security')).toEqual([]);
    expect(siege.security()).toEqual([]);
    await nodes.until(() => connected(newcomer) === 2 && connected(victim) === 2);
  });

  it('brings no unsigned removals: the node that answers it cannot shut others out', async () => {
    const nodes = new Nodes();
    const victim = await nodes.start();
    const root = new Rogue(nodes);
    root.chain = [root.certify(root.key)];
    const honest = root.vouchFor().vouchFor();
    const secret = nodes.runtime.bytes(16);
    const joining = victim.network.join(encodeInvite({ secret, bootstrap: [], addresses: [] }));
    const link = root.letCall(victim);
    await nodes.runtime.advance(0);
    const content = { mesh: root.key, of: honest.chain!, at: nodes.runtime.now(), keep: [], by: root.chain };
    const proof = proveInvite(secret, 'host', link.handshake);
    const given = { mesh: root.key, meetingSecret: 'a'.repeat(64), bootstrap: [] };
    const removals = [{ ...content, signature: '' }, signRemoval(root.identity, content)];
    link.say(['welcome', { proof, ...given, removals, chain: [root.certify(victim.key), ...root.chain] }]);
    await nodes.settled(joining);
    await honest.meet(victim);
    expect(victim.network.peers.get(honest.key)?.status).toBe('connected');
  });

  it('can be used however many removals a member has spread', async () => {
    const { siege } = await invited();
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    link.give(...Array.from({ length: 20 }, () => ['r', removeMadeUp(siege, rogue)]));
    await siege.pass();
    expect(siege.security()).toEqual([]);
    await siege.nodes.join(await siege.nodes.start(), siege.victim);
    await siege.expectServing();
  });

  it('gives a certificate to the node that used it only', async () => {
    const { siege, code } = await invited();
    const guest = siege.stranger();
    (await guest.useInvite(siege.victim, code)).close();
    await siege.pass();
    const thief = siege.stranger();
    thief.chain = guest.chain;
    const link = thief.call(siege.victim);
    link.hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', /another node’s/);
  });
});

describe('a caller that does not greet as it should', () => {
  it('but says nothing is disconnected after a while, having heard nothing [NT.3]', async () => {
    const siege = await Siege.begin();
    const link = siege.stranger().call(siege.victim);
    await siege.pass(GREETING_MS - 100);
    expect([link.closed, link.frames, siege.security()]).toEqual([false, [], []]);
    await siege.pass(200);
    await siege.expectRefused('PEER_UNREACHABLE', /did not introduce itself in time/);
    expectOnlyRefusal(siege, link, 'PEER_UNREACHABLE');
  });

  it('but uses an invite and says nothing more is disconnected after a while', async () => {
    const siege = await Siege.begin();
    const { code } = await siege.nodes.settled(siege.victim.network.invite());
    siege.mark();
    const link = await siege.stranger().useInvite(siege.victim, code);
    await siege.pass(GREETING_MS);
    await siege.expectRefused('PEER_UNREACHABLE', /did not introduce itself in time/);
    expect(link.frames.map(([kind]) => kind)).toEqual(['welcome', 'refused']);
  });

  const openings: [what: string, bytes: string | Uint8Array][] = [
    ['nothing at all', ''],
    ['no JSON', 'hello'],
    ['half of some JSON', '["hello",{'],
    ['an object', '{"0":"hello","length":2}'],
    ['null', 'null'],
    ['an empty list', '[]'],
    ['a number for a kind', '[1]'],
    ['a list for a kind', '[["hello"]]'],
    ['bytes that are no text', Uint8Array.of(0xff, 0xfe, 0x00, 0x80)],
    ['something deep', nested(200_000)],
    ['a greeting without a body', '["hello"]'],
    ['a greeting whose body is null', '["hello",null]'],
    ['a greeting whose body is a list', '["hello",[]]'],
    ['a greeting without versions', '["hello",{"software":"x"}]'],
    ['a greeting with odd versions', '["hello",{"software":"x","protocol":{"min":"1","max":1}}]'],
    ['a greeting with half versions', '["hello",{"software":"x","protocol":{"min":1.5,"max":2.5}}]'],
    ['a greeting with nothing but versions', '["hello",{"software":"x","protocol":{"min":1,"max":1}}]'],
    ['a greeting by a reserved name', '["hello",{"__proto__":{"protocol":{"min":1,"max":1}}}]'],
    ['a data frame', '["d",1,1,0,[],[["m",1,"e","mole","sun","notification",1,1]]]'],
    ['a heartbeat', '["p",1]'],
    ['an echo', '["q",1]'],
    ['a farewell', '["bye","leaving"]'],
    ['a welcome', '["welcome",{}]'],
    ['an empty join', '["join",{}]'],
    ['a refusal', '["refused",{"code":"PEER_UNREACHABLE","reason":"never mind"}]'],
    ['an unknown word', '["open sesame"]'],
    ['a word with a meaning in JavaScript', '["__proto__"]'],
    ['an incompatibility that is none', '["incompatible",{"software":"x","protocol":{"min":1,"max":1}}]'],
    ['more than a frame may hold', `["hello","${'x'.repeat(MAX_FRAME_BYTES)}"]`],
  ];

  let shared: Siege;
  beforeAll(async () => {
    shared = await Siege.begin();
  });

  it.each(openings)('but says %s is refused, and hears nothing else', async (_, bytes) => {
    shared.mark();
    const link = shared.stranger().call(shared.victim);
    if (typeof bytes === 'string') link.sayText(bytes);
    else link.sayBytes(bytes);
    await shared.expectRefused('INVALID_FRAME');
    expectOnlyRefusal(shared, link, 'INVALID_FRAME');
    link.hello();
    await shared.pass();
    expect(link.frames).toHaveLength(1);
  });

  it('but says that it speaks other versions hears which release runs here, no more, and leaves no trace', async () => {
    const siege = await Siege.begin();
    const links = Array.from({ length: 10 }, () => siege.stranger().call(siege.victim));
    for (const link of links) link.hello({ protocol: { min: 7, max: 9 } });
    await siege.pass();
    for (const link of links) {
      const told = { protocol: { min: 1, max: 6 }, software: expect.stringMatching(/^ecliptic /) };
      expect(link.frames).toEqual([['incompatible', told]]);
      expect(link.closed).toBe(true);
    }
    expect(siege.victim.network.list()).toHaveLength(1);
    expect(siege.security()).toEqual([]);
    await siege.expectUnharmed();
  });

  it('but whose first words from here do not fit is let go instead of not being heard', async () => {
    const siege = await Siege.begin({ network: { limits: { queueChars: 60_000 } } });
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    for (let count = 0; count < 4; count++) {
      link.give(['r', removeMadeUp(siege, rogue)]);
      await siege.pass(1_000);
    }
    const next = (await siege.rogue()).call(siege.victim);
    next.hello();
    await siege.pass(0);
    expect(next.closed).toBe(true);
    expect(siege.victim.network.list().map(({ state }) => state)).toEqual(['connected', 'connected', 'away']);
    expect(siege.security()).toEqual([]);
    await siege.expectServing();
  });

  it.each([
    ['session', ['', 7, null, undefined, 'x'.repeat(129), {}]],
    ['software', [7, null, undefined, 'x'.repeat(257)]],
    ['time', ['1', null, undefined, {}]],
    [
      'addresses',
      [null, undefined, {}, 'ws://a', [7], ['http://a'], ['ws://a b'], ['ws://a/b'], new Array(9).fill('ws://a')],
    ],
  ])('but gives a %s that is none is refused', async (key, values) => {
    const member = await shared.rogue();
    for (const value of values) {
      shared.mark();
      const link = member.vouchFor().call(shared.victim);
      link.hello({ [key]: value });
      await shared.expectRefused('INVALID_FRAME');
      expectOnlyRefusal(shared, link, 'INVALID_FRAME');
    }
  });

  it.each([
    ['hello again', (link: RogueLink) => link.hello()],
    ['hello again with another session', (link: RogueLink) => link.hello({ session: 'another' })],
    ['a join', (link: RogueLink) => link.say(['join', joinBody('x', 'y')])],
    ['a welcome', (link: RogueLink) => link.say(['welcome', {}])],
    ['a refusal', (link: RogueLink) => link.say(['refused', { code: 'NO_MESH', reason: 'x' }])],
    [
      'an incompatibility',
      (link: RogueLink) => link.say(['incompatible', { software: 'x', protocol: { min: 9, max: 9 } }]),
    ],
  ])('but, once it is in, says %s is disconnected', async (_, say) => {
    const link = await (await shared.rogue()).meet(shared.victim);
    shared.mark();
    say(link);
    await shared.expectRefused('INVALID_FRAME', /there is no frame/);
    expect(link.closed).toBe(true);
  });

  it('and calls more often than twice at once is not listened to', async () => {
    const siege = await Siege.begin();
    const stranger = siege.stranger();
    const links = Array.from({ length: 10 }, () => stranger.call(siege.victim));
    await siege.pass();
    expect(links.filter(({ closed }) => !closed)).toHaveLength(2);
    expect(links.flatMap(({ frames }) => frames)).toEqual([]);
    expect(siege.security()).toEqual([]);
    await siege.expectUnharmed();
  });

  it('and stays silent again and again is listened to less and less often [NT.3]', async () => {
    const siege = await Siege.begin();
    const stranger = siege.stranger();
    let taken = 0;
    for (let second = 0; second < 600; second++) {
      const links = Array.from({ length: 4 }, () => stranger.call(siege.victim));
      await siege.pass(1);
      taken += links.filter(({ closed }) => !closed).length;
      await siege.pass(999);
    }
    // Two links for 5 s, then a wait of about 10 s.
    expect(taken).toBeLessThan(2 * (600 / 10));
    expect(siege.security().every(({ code }) => code === 'PEER_UNREACHABLE')).toBe(true);
    await siege.expectUnharmed();
  });

  it('among very many that say nothing does not keep a genuine member out for long', async () => {
    const siege = await Siege.begin();
    const silent = Array.from({ length: 64 }, () => siege.stranger().call(siege.victim));
    await siege.pass();
    expect(silent.filter(({ closed }) => closed)).toEqual([]);
    expect(siege.security()).toEqual([]);
    const tooMany = Array.from({ length: 10 }, () => siege.stranger().call(siege.victim));
    await siege.pass();
    expect(tooMany.every(({ closed }) => closed)).toBe(true);
    expect(tooMany.flatMap(({ frames }) => frames)).toEqual([]);
    expect(siege.security().map(({ code }) => code)).toEqual(new Array(10).fill('MEMBERSHIP_REFUSED'));
    await siege.expectUnharmed();
    siege.mark();
    await siege.pass(GREETING_MS);
    expect(silent.every(({ closed }) => closed)).toBe(true);
    expect(siege.security().map(({ code }) => code)).toEqual(new Array(64).fill('PEER_UNREACHABLE'));
    const member = await siege.nodes.start();
    await siege.nodes.join(member, siege.victim);
    expect(connected(siege.victim)).toBe(2);
    await siege.expectServing();
  });
});

describe('a message from another node', () => {
  /** A member whose announced agents are `mole` (L3), `chief` (L1) and `caged` (L3, in sandbox "lab"). */
  async function infiltrated(): Promise<{ siege: Siege; link: RogueLink }> {
    const siege = await Siege.begin();
    const link = await (await siege.rogue()).meet(siege.victim);
    link.announce({ id: 'mole' }, { id: 'chief', tier: 1 }, { id: 'caged', sandbox: 'lab' });
    await siege.pass();
    siege.mark();
    return { siege, link };
  }

  const forgeries: [what: string, item: (siege: Siege) => unknown[], code: ErrorCode][] = [
    ['an agent that was not announced', () => message('ghost', 'sun'), 'SENDER_REFUSED'],
    ['another node’s agent, by its id', () => message('europa', 'sun'), 'SENDER_REFUSED'],
    ['another node’s agent, in full', ({ bystander }) => message(`europa@${bystander.key}`, 'sun'), 'SENDER_REFUSED'],
    [
      'an announced agent, as if of another node',
      ({ bystander }) => message(`mole@${bystander.key}`, 'sun'),
      'SENDER_REFUSED',
    ],
    ['the recipient itself', () => message('sun', 'sun'), 'SENDER_REFUSED'],
    ['the victim’s agent, in full', ({ victim }) => message(`mars@${victim.key}`, 'sun'), 'SENDER_REFUSED'],
    ['an agent with a tier it has not', () => message('mole', 'sun', { metadata: { tier: 0 } }), 'SENDER_REFUSED'],
    [
      'an agent with a sandbox it has not',
      () => message('mole', 'sun', { metadata: { sandboxId: 'lab' } }),
      'SENDER_REFUSED',
    ],
    [
      'an agent with another sandbox than its own',
      () => message('caged', 'sun', { metadata: { sandboxId: 'open' } }),
      'SENDER_REFUSED',
    ],
    ['an agent that leaves its sandbox', () => message('caged', 'sun'), 'SANDBOX_VIOLATION'],
    ['an agent that the tiers keep away', () => message('chief', 'mars'), 'TIER_VIOLATION'],
    [
      'an agent that proposes without a reason',
      () => message('mole', 'sun', { type: 'task-proposal' }),
      'ESCALATION_REQUIRED',
    ],
  ];

  it.each(forgeries)('in the name of %s is refused, and its sender is told', async (_, item, code) => {
    const { siege, link } = await infiltrated();
    const number = link.next;
    link.give(item(siege));
    await siege.expectRefused(code);
    expect(link.frames.at(-1)?.[4]).toEqual([[number, code, expect.any(String)]]);
    expect(link.closed, 'what it may do it may still do').toBe(false);
    link.give(message('mole', 'sun', { payload: 'honest' }));
    await siege.pass();
    expect(siege.inbox).toEqual(['honest']);
  });

  it.each([
    ['to nobody', message('mole', 'ghost'), 'AGENT_NOT_FOUND'],
    ['to everybody at once', message('mole', '*'), 'AGENT_NOT_FOUND'],
    ['to be kept', ['s', ...message('mole', 'sun').slice(1)], 'STORE_REQUIRED'],
    ['that is too old', message('mole', 'sun', { metadata: { ttlMs: 1 } }), 'EXPIRED'],
    ['of a later schema', ['m', 2, ...message('mole', 'sun').slice(2)], 'SCHEMA_VERSION_MISMATCH'],
  ])('%s is not delivered, which is nobody’s crime', async (_, item, code) => {
    const { siege, link } = await infiltrated();
    const number = link.next;
    link.give(item);
    await siege.pass();
    expect(link.frames.at(-1)?.[4]).toEqual([[number, code, expect.any(String)]]);
    expect(siege.security()).toEqual([]);
    await siege.expectUnharmed();
  });

  it('to another node’s agent is not passed on', async () => {
    const { siege, link } = await infiltrated();
    link.give(message('mole', `europa@${siege.bystander.key}`), message('mole', 'europa'));
    await siege.pass();
    expect(link.frames.at(-1)?.[4]).toMatchObject([
      [expect.any(Number), 'AGENT_NOT_FOUND', expect.any(String)],
      [expect.any(Number), 'AGENT_NOT_FOUND', expect.any(String)],
    ]);
    await siege.expectUnharmed();
  });
});

describe('a card from another node', () => {
  type Forgery = [what: string, card: (siege: Siege, rogue: Rogue) => unknown];
  const full = (siege: Siege, rogue: Rogue, changes: object = {}) => {
    return { ...buildCard({ id: 'mole', tier: 3 }, siege.now), origin: 'remote', node: rogue.key, ...changes };
  };

  const forgeries: Forgery[] = [
    ['of a tier that the node may not have', (_, rogue) => rogue.card({ id: 'mole', tier: 0 })],
    ['for an address of another node', ({ bystander }, rogue) => rogue.forgedCard({ node: bystander.key })],
    [
      'for another node’s agent, whole',
      (siege, rogue) => rogue.forgedCard(full(siege, rogue, { id: 'europa', node: siege.bystander.key })),
    ],
    [
      'for the victim’s own agent',
      (siege, rogue) => rogue.forgedCard(full(siege, rogue, { id: 'sun', node: siege.victim.key })),
    ],
    [
      'that says it is local',
      (siege, rogue) => rogue.forgedCard({ ...full(siege, rogue), origin: 'local', node: undefined }),
    ],
    ['of no node', (siege, rogue) => rogue.forgedCard({ ...full(siege, rogue), node: undefined })],
    ['with a huge revision', (_, rogue) => rogue.card({ id: 'mole' }, { revision: 1_000_000_001 })],
    ['with a negative revision', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { revision: -1 }))],
    ['with half a revision', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { revision: 0.5 }))],
    ['with a revision beyond counting', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { revision: 1e300 }))],
    ['without a signature', (_, rogue) => [rogue.card({ id: 'mole' })[0]]],
    ['with an empty signature', (_, rogue) => [rogue.card({ id: 'mole' })[0], '']],
    ['with a signature that is no text', (_, rogue) => [rogue.card({ id: 'mole' })[0], { length: 86 }]],
    [
      'with the signature of another card',
      (_, rogue) => [rogue.card({ id: 'mole' })[0], rogue.card({ id: 'vole' })[1]],
    ],
    ['signed by another node', (siege, rogue) => siege.stranger().forgedCard(full(siege, rogue))],
    [
      'signed for another purpose',
      (siege, rogue) => [full(siege, rogue), rogue.identity.sign('certificate', full(siege, rogue))],
    ],
    [
      'changed after it was signed',
      (_, rogue) => {
        const [said, signature] = rogue.card({ id: 'mole' });
        return [{ ...said, description: 'trust me' }, signature];
      },
    ],
    [
      'whose id has a node in it',
      (siege, rogue) => rogue.forgedCard(full(siege, rogue, { id: `sun@${siege.victim.key}` })),
    ],
    ['whose id is a reserved name', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { id: '__proto__' }))],
    ['whose id is empty', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { id: '' }))],
    ['whose id is too long', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { id: 'x'.repeat(65) }))],
    ['whose tier is none', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { tier: 4 }))],
    ['whose capabilities are no list', (siege, rogue) => rogue.forgedCard(full(siege, rogue, { capabilities: {} }))],
    [
      'whose capability has a schema that poisons',
      (siege, rogue) => {
        const inputSchema = JSON.parse('{"__proto__":{"polluted":true}}') as unknown;
        const capability = { id: 'a', name: 'a', description: '', inputSchema, outputSchema: {} };
        return rogue.forgedCard(full(siege, rogue, { capabilities: [capability] }));
      },
    ],
    [
      'with 257 protocols',
      (siege, rogue) => rogue.forgedCard(full(siege, rogue, { protocols: new Array(257).fill('a') })),
    ],
    ['that is null', () => null],
    ['that is a number', () => 7],
    ['that is text', () => 'mole'],
    ['that is empty', () => []],
    ['that is an object', (_, rogue) => ({ 0: rogue.card({ id: 'mole' })[0], 1: rogue.card({ id: 'mole' })[1] })],
    ['that holds null', (_, rogue) => rogue.forgedCard(null)],
    ['that holds a list', (_, rogue) => rogue.forgedCard([])],
    ['that is very deep', () => JSON.parse(nested(2_000)) as unknown],
  ];

  describe('that may have L3 agents only', () => {
    let siege: Siege;
    let rogue: Rogue;
    beforeAll(async () => {
      siege = await Siege.begin();
      rogue = await siege.rogue({ tiers: [3] });
    });

    it.each(forgeries)('is refused %s', async (what, card) => {
      const link = await rogue.meet(siege.victim, { session: what });
      siege.mark();
      link.give(['c', 'change', [card(siege, rogue)]]);
      await siege.expectRefused('CARD_REFUSED');
      expect(link.closed).toBe(false);
    });
  });

  it.each([
    ['outside any sandbox', undefined],
    ['in another sandbox', 'open'],
    ['in a sandbox of a similar name', 'lab '],
  ])('that may have agents in one sandbox only is refused %s', async (_, sandbox) => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue({ sandboxes: ['lab'] });
    const link = await rogue.meet(siege.victim);
    siege.mark();
    link.announce({ id: 'mole', sandbox });
    await siege.expectRefused('CARD_REFUSED', /may not have an agent/);
    link.announce({ id: 'mole', sandbox: 'lab' });
    await siege.pass();
    expect(siege.victim.registry.getById('mole')).toMatchObject({ sandboxId: 'lab', node: rogue.key });
  });

  it('is taken although its neighbours are refused, each with an event of its own', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue({ tiers: [3] });
    const link = await rogue.meet(siege.victim);
    siege.mark();
    const bad = rogue.card({ id: 'chief', tier: 0 });
    link.give(['c', 'last', [bad, rogue.card({ id: 'mole' }), null, rogue.card({ id: 'vole' }), bad]]);
    await siege.pass();
    expect(siege.security().map(({ code }) => code)).toEqual(new Array(3).fill('CARD_REFUSED'));
    const remote = siege.victim.registry.getRemoteCards().filter(({ node }) => node === rogue.key);
    expect(remote.map(({ id }) => id)).toEqual(['mole', 'vole']);
    await siege.expectServing();
  });

  it('is refused in a list whose signature does not hold, with an event for each [NT.5]', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    siege.mark();
    const [cards] = rogue.cardList({ id: 'mole' }, { id: 'vole' });
    const [, signature] = rogue.cardList({ id: 'mole' });
    link.give(['c', 'last', cards, signature]);
    await siege.pass();
    expect(siege.security().map(({ code }) => code)).toEqual(['CARD_REFUSED', 'CARD_REFUSED']);
    await siege.expectUnharmed();
  });

  it('that was taken before is refused once the node’s grant does not allow it [NT.4]', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const card = rogue.card({ id: 'chief', tier: 0 });
    const link = await rogue.meet(siege.victim);
    link.give(['c', 'last', [card]]);
    await siege.pass();
    expect(siege.victim.registry.entry(`chief@${rogue.key}`)).toBeDefined();
    siege.victim.network.peers.get(rogue.key)!.grant = { tiers: [3], invite: false };
    siege.mark();
    link.give(['c', 'change', [card]]);
    await siege.expectRefused('CARD_REFUSED', /may not have an agent/);
  });

  it('takes no agent’s place that has the same id here or elsewhere', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    link.announce({ id: 'sun', tier: 3 }, { id: 'europa' });
    await siege.pass();
    expect(siege.victim.registry.getById('sun')).toMatchObject({ origin: 'local', tier: 0 });
    expect(siege.victim.registry.getById(`europa@${siege.bystander.key}`)).toMatchObject({ node: siege.bystander.key });
    const got: unknown[] = [];
    siege.bystander.agentById('europa').onNotification((heard) => void got.push(heard.payload));
    await siege.nodes.settled(siege.sun.send(`europa@${siege.bystander.key}`, 'for your eyes only'));
    expect(got).toEqual(['for your eyes only']);
    expect(link.items.filter(([kind]) => kind === 'm')).toEqual([]);
    await siege.expectServing();
  });

  it('that is gone takes no other node’s along', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    siege.mark();
    const { victim, bystander } = siege;
    const names = ['europa', 'sun', 'ghost', '*', '@', '__proto__'];
    link.give(['g', [...names, `europa@${bystander.key}`, `sun@${victim.key}`, `@${bystander.key}`]]);
    await siege.pass();
    await siege.expectUnharmed();
    link.announce({ id: 'mole' });
    await siege.pass();
    link.give(['g', ['mole']]);
    await siege.pass();
    await siege.expectUnharmed();
  });

  it('is refused with the whole conversation when it is the 32nd', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue({ tiers: [3] });
    const link = await rogue.meet(siege.victim);
    siege.mark();
    link.give(['c', 'change', new Array(20).fill(0)]);
    await siege.pass();
    expect(link.closed).toBe(false);
    link.give(['c', 'change', new Array(1_000).fill(0)], ['c', 'change', [rogue.card({ id: 'mole' })]]);
    await siege.pass();
    expect(siege.security().map(({ code }) => code)).toEqual([...new Array(32).fill('CARD_REFUSED'), 'INVALID_FRAME']);
    expect(link.closed).toBe(true);
    await siege.expectUnharmed();
  });

  describe('that has 10,000 already', () => {
    let siege: Siege;
    let rogue: Rogue;
    let link: RogueLink;
    beforeAll(async () => {
      siege = await Siege.begin();
      rogue = await siege.rogue();
      link = await rogue.meet(siege.victim);
      siege.mark();
      if (SOAK) await fillOverTheLink();
      else fillByHand();
      expect(siege.security()).toEqual([]);
      expect(siege.victim.registry.countOf(rogue.key)).toBe(10_000);
    }, 120_000);

    /** As a rogue would: ten thousand signatures are made and checked. */
    async function fillOverTheLink(): Promise<void> {
      for (let at = 0; at < 10_000; at += 500) {
        const cards = Array.from({ length: 500 }, (_, index) => rogue.card({ id: `mole-${at + index}` }));
        link.give(['c', at + 500 < 10_000 ? 'more' : 'last', cards]);
        await siege.pass(0);
      }
    }

    function fillByHand(): void {
      const card = buildCard({ id: 'mole', tier: 3 }, siege.now);
      for (let at = 0; at < 10_000; at++) siege.victim.registry.mergeRemote({ ...card, id: `mole-${at}` }, rogue.key);
    }

    it('is refused when it is one more', async () => {
      const phase = 'change';
      const next = await rogue.meet(siege.victim, { session: phase });
      siege.mark();
      const cards = [rogue.card({ id: 'one-more' }), rogue.card({ id: 'mole-5', description: phase })];
      next.give(['c', phase, cards]);
      await siege.pass();
      expect(siege.security()).toMatchObject([{ code: 'CARD_REFUSED', reason: expect.stringMatching(/10000 cards/) }]);
      expect(siege.victim.registry.countOf(rogue.key)).toBe(10_000);
      expect(siege.victim.registry.getById('mole-5')?.description, 'one that it has may change').toBe(phase);
      await siege.expectServing();
    });
  });
});

describe('the numbers of a conversation', () => {
  async function talking(): Promise<{ siege: Siege; rogue: Rogue; link: RogueLink }> {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    link.announce({ id: 'mole' });
    link.give(message('mole', 'sun', { payload: 'first' }));
    await siege.pass();
    expect(siege.inbox).toEqual(['first']);
    siege.mark();
    return { siege, rogue, link };
  }

  it('do not let a settled frame be repeated', async () => {
    const { siege, link } = await talking();
    link.data({ first: 3, base: 3, items: [message('mole', 'sun', { payload: 'second' })] });
    await siege.pass();
    siege.mark();
    link.data({ first: 2, base: 2, items: [message('mole', 'sun', { payload: 'first' })] });
    await siege.expectRefused('INVALID_FRAME', /repeats a settled item/);
    expect(siege.inbox).toEqual(['first', 'second']);
    expect(link.closed).toBe(true);
  });

  it('make a frame that is repeated before it is settled count once, without a violation', async () => {
    const { siege, link } = await talking();
    for (let count = 0; count < 5; count++) {
      link.data({ first: 2, items: [message('mole', 'sun', { payload: 'first' })] });
    }
    await siege.pass();
    expect(siege.security()).toEqual([]);
    await siege.expectUnharmed();
  });

  it('go on over the next link: each item is taken once', async () => {
    const { siege, rogue, link } = await talking();
    link.close();
    await siege.pass();
    const next = await rogue.meet(siege.victim);
    const again = [['c', 'change', []], message('mole', 'sun', { payload: 'first' })];
    next.data({ first: 1, items: [...again, message('mole', 'sun', { payload: 'second' })] });
    await siege.pass();
    expect(siege.inbox).toEqual(['first', 'second']);
    expect(siege.security()).toEqual([]);
  });

  it.each([
    ['an acknowledgement of what was never sent', { received: 1_000 }, /never sent/],
    ['an acknowledgement of very much', { received: Number.MAX_SAFE_INTEGER }, /never sent/],
    ['a gap', { first: 9, items: [['z', 'x']] }, /items before it are missing/],
    ['a very large gap', { first: Number.MAX_SAFE_INTEGER, items: [['z', 'x']] }, /items before it are missing/],
    ['a base beyond everything sent', { base: Number.MAX_SAFE_INTEGER, items: [['z', 'x']] }, /numbers are wrong/],
    ['a base beyond its first item', { first: 3, base: 4, items: [['z', 'x']] }, /numbers are wrong/],
    ['a base before the first item', { base: 0 }, /numbers are wrong/],
    ['a first item before the first', { first: 0, items: [['z', 'x']] }, /numbers are wrong/],
  ])('do not let %s pass', async (_, data, reason) => {
    const { siege, link } = await talking();
    link.data(data);
    await siege.expectRefused('INVALID_FRAME', reason);
    expect(link.closed).toBe(true);
  });

  const WRONG = [-1, 2 ** 53, 1e300, 1.5, '1', null, true, [], [1], {}];
  const wrongs = ['first', 'base', 'received'].flatMap((field) => WRONG.map((value) => [field, value] as const));

  describe('that are none', () => {
    let siege: Siege;
    let member: Rogue;
    beforeAll(async () => {
      siege = await Siege.begin();
      member = await siege.rogue();
    });

    it.each(wrongs)('are refused: %s %j', async (field, value) => {
      const link = await member.vouchFor().meet(siege.victim);
      siege.mark();
      link.data({ [field]: value, items: [['z', 'x']] });
      await siege.expectRefused('INVALID_FRAME', /numbers are wrong/);
      expect(link.closed).toBe(true);
    });

    it.each([
      ['are no list', 7],
      ['are null', null],
      ['are an object', {}],
      ['hold no lists', [1]],
      ['hold too little', [[1, 'MAILBOX_FULL']]],
      ['hold too much', [[1, 'MAILBOX_FULL', 'full', 'extra']]],
      ['refuse a negative number', [[-1, 'MAILBOX_FULL', 'full']]],
      ['refuse half a number', [[0.5, 'MAILBOX_FULL', 'full']]],
      ['refuse text', [['1', 'MAILBOX_FULL', 'full']]],
      ['have no code', [[1, null, 'full']]],
      ['have no reason', [[1, 'MAILBOX_FULL', null]]],
      ['are very many', new Array(10_001).fill([1, 'MAILBOX_FULL', ''])],
    ])('are refused: refusals that %s', async (_, refusals) => {
      const link = await member.vouchFor().meet(siege.victim);
      siege.mark();
      link.data({ refusals });
      await siege.expectRefused('INVALID_FRAME');
      expect(link.closed).toBe(true);
    });
  });

  it('do not let a refusal be about more than it is', async () => {
    const { siege, rogue, link } = await talking();
    link.acknowledges = false;
    const sent = siege.sun.send(`mole@${rogue.key}`, 'hi').catch((error: unknown) => error);
    await siege.pass(1);
    const seen = 2;
    link.data({ received: seen, refusals: [[seen, '__proto__', 'x'.repeat(100_000)]] });
    expect(await siege.nodes.settled(sent)).toMatchObject({ code: 'DELIVERY_FAILED' });
    await siege.expectUnharmed();
  });
});

describe('malformed frames after a genuine greeting', () => {
  let siege: Siege;
  let member: Rogue;
  beforeAll(async () => {
    siege = await Siege.begin();
    member = await siege.rogue();
  });

  async function expectShownOut(say: (link: RogueLink) => void): Promise<void> {
    const link = await member.vouchFor().meet(siege.victim);
    siege.mark();
    say(link);
    await siege.expectRefused(/^INVALID_(FRAME|ENVELOPE)$/);
    expect(link.closed).toBe(true);
  }

  const texts: [what: string, text: string][] = [
    ['empty', ''],
    ['not JSON', 'd'],
    ['cut off', '["d",1,1,0,[],[["m",1,'],
    ['followed by something', '["p",1]["p",1]'],
    ['an object', '{"0":"d","length":6}'],
    ['null', 'null'],
    ['a number', '1e400'],
    ['text', '"d"'],
    ['an empty list', '[]'],
    ['a list without a kind', '[null,1,1,0,[],[]]'],
    ['a list with a list for a kind', '[["d"],1,1,0,[],[]]'],
    ['very deep', nested(200_000)],
    ['an unknown kind', '["nonsense"]'],
    ['an empty kind', '[""]'],
    ['a kind in capitals', '["D",1,1,0,[],[]]'],
    ['a kind of a reserved name', '["__proto__"]'],
    ['a kind that every object has', '["constructor"]'],
    ['a very long kind', JSON.stringify(['x'.repeat(100_000)])],
    ['a d without anything', '["d"]'],
    ['a d without items', '["d",1,1,0,[]]'],
    ['a d whose items are null', '["d",1,1,0,[],null]'],
    ['a d whose items are an object', '["d",1,1,0,[],{"0":["z","x"],"length":1}]'],
    ['a d whose items are text', '["d",1,1,0,[],"items"]'],
    ['a d whose item is null', '["d",1,1,0,[],[null]]'],
    ['a d whose item is text', '["d",1,1,0,[],["z"]]'],
    ['a d whose item is an object', '["d",1,1,0,[],[{"0":"z","1":"x"}]]'],
    ['a d whose item is empty', '["d",1,1,0,[],[[]]]'],
    ['a d whose item has a number for a kind', '["d",1,1,0,[],[[1,"x"]]]'],
    ['a d whose item has a list for a kind', '["d",1,1,0,[],[[["z"],"x"]]]'],
    ['a d whose second item is wrong', '["d",1,1,0,[],[["z","x"],7]]'],
    ['a q without a time', '["q"]'],
    ['a q whose time is text', '["q","1"]'],
    ['a q whose time is null', '["q",null]'],
    ['a q whose time is an object', '["q",{"valueOf":1}]'],
    ['a p without a time', '["p"]'],
    ['a p whose time is text', '["p","1"]'],
    ['a p whose time is null', '["p",null]'],
    ['a p whose time is an object', '["p",{"__proto__":[1,2,3]},"more"]'],
    ['a p whose time is deep', `["p",${nested(200_000)}]`],
  ];

  it.each(texts)('are refused: %s', async (_, text) => {
    await expectShownOut((link) => link.sayText(text));
  });

  it.each([
    ['that are no text', Uint8Array.of(0xc3, 0x28, 0xff, 0x00)],
    ['of another encoding', Uint8Array.from(Buffer.from('["p",1]', 'utf16le'))],
    ['with a byte order mark', Uint8Array.from(Buffer.from('\ufeff["p",1]'))],
    ['that are all zero', new Uint8Array(1_000)],
  ])('are refused: bytes %s', async (_, bytes) => {
    await expectShownOut((link) => link.sayBytes(bytes));
  });

  it.each([
    ['a heartbeat from another time', '["p",-1e300]'],
    ['a heartbeat with more', '["p",1,{"__proto__":[1,2,3]}]'],
    ['an echo from another time', '["q",-1e300]'],
    ['an echo with more', '["q",1,2,3]'],
    ['a frame of the largest size', `["p",1,"${'x'.repeat(MAX_FRAME_BYTES - 10)}"]`],
    ['data with more', '["d",1,1,0,[],[],"more",{}]'],
  ])('are not: %s', async (_, text) => {
    const link = await member.vouchFor().meet(siege.victim);
    siege.mark();
    link.sayText(text);
    await siege.pass();
    expect(siege.security()).toEqual([]);
    expect(link.closed).toBe(false);
    await siege.expectUnharmed();
  });

  it.each([1, 1_000, 2 * MAX_FRAME_BYTES])('are refused: %i bytes more than a frame may have', async (more) => {
    await expectShownOut((link) => link.sayText(`["p",1,"${'x'.repeat(MAX_FRAME_BYTES - 10 + more)}"]`));
  });

  it.each([
    ['without a reason', ['bye']],
    ['with a made-up reason', ['bye', '__proto__']],
    ['with an object for a reason', ['bye', { toString: 1 }]],
    ['that it stops', ['bye', 'stopping']],
    ['that it leaves', ['bye', 'leaving']],
    ['that the victim was removed', ['bye', 'removed']],
  ])('end nobody’s conversation but the sender’s: a farewell %s', async (_, frame) => {
    const link = await member.vouchFor().meet(siege.victim);
    siege.mark();
    link.say(frame);
    await siege.pass();
    expect(link.closed).toBe(true);
    expect(siege.security()).toEqual([]);
    await siege.expectUnharmed();
  });

  const KEY = 'a'.repeat(64);
  const certificate = {
    ...{ mesh: KEY, node: KEY, name: 'x', grant: { tiers: [3], invite: false }, issuer: KEY },
    ...{ since: 1, issuedAt: 1, expiresAt: 2, signature: '' },
  };
  const removal = { mesh: KEY, of: [certificate], at: 1, keep: [], by: [certificate], signature: '' };
  const envelope = message('mole', 'sun').slice(1);
  /** An envelope with one field replaced. */
  const withField = (index: number, value: unknown) => envelope.with(index, value);
  const badFields: [number, unknown[]][] = [
    [0, ['1', null, 1.5, {}, [1]]],
    [1, ['', null, 7, {}, 'x'.repeat(129)]],
    [2, ['', null, 7, '@', 'a b', 'mole@', '@mole', '__proto__', '-', 'x'.repeat(300)]],
    [3, ['', null, 7, {}, 'x'.repeat(257)]],
    [4, ['', null, 7, 'gossip', 'toString', '__proto__', ['request']]],
    [5, [-1, null, '1', {}, true]],
    [7, ['', 7, {}, [], false, 'x'.repeat(129)]],
  ];
  const badMetadata = [
    null,
    7,
    'x',
    [],
    { tier: 4 },
    { tier: '0' },
    { sandboxId: '' },
    { sandboxId: 7 },
    { routingHint: 'everyone' },
    { escalationJustification: 7 },
    { durable: 1 },
    { ttlMs: 0 },
    { ttlMs: '1' },
    { traceparent: '' },
    { tracestate: {} },
  ];
  const envelopes = [
    ...badFields.flatMap(([index, values]) => values.map((value) => withField(index, value))),
    ...badMetadata.map((metadata) => [...envelope, metadata]),
    [],
    [1],
    envelope.slice(0, 6),
    withField(6, JSON.parse('{"a":{"__proto__":{"polluted":true}}}')),
    withField(6, JSON.parse(nested(65))),
    withField(6, 'x'.repeat(1_048_575)),
  ];

  const items: [kind: string, items: unknown[][]][] = [
    ['m', envelopes.map((fields) => ['m', ...fields])],
    [
      'x',
      [
        ['x'],
        ['x', 7, ...envelope],
        ['x', null, ...envelope],
        ['x', {}, ...envelope],
        ...envelopes.map((fields) => ['x', 'channel', ...fields]),
      ],
    ],
    [
      'c',
      [
        ['c'],
        ['c', 'last'],
        ['c', 'change'],
        ['c', null, []],
        ['c', 'sometimes', []],
        ['c', '__proto__', []],
        ['c', ['last'], []],
        ['c', 'change', null],
        ['c', 'change', 'cards'],
        ['c', 'change', 7],
        ['c', 'change', { 0: [], length: 1 }],
        ['c', 'last', {}],
        ['c', 'change', new Array(1_001).fill(0)],
      ],
    ],
    [
      'g',
      [['g'], ['g', null], ['g', 'sun'], ['g', 7], ['g', {}], ['g', [7]], ['g', [null]], ['g', ['']], ['g', [['sun']]]],
    ],
    [
      'g',
      [
        ['g', ['x'.repeat(129)]],
        ['g', new Array(1_001).fill('a')],
      ],
    ],
    [
      'o',
      [
        ['o'],
        ['o', 'channel'],
        ['o', 'channel', 'mole'],
        ['o', 7, 'mole', 'sun'],
        ['o', null, 'mole', 'sun'],
        ['o', ['channel'], 'mole', 'sun'],
        ['o', '', 'mole', 'sun'],
        ['o', 'x'.repeat(129), 'mole', 'sun'],
        ['o', 'channel', 7, 'sun'],
        ['o', 'channel', 'mole', null],
        ['o', 'channel', 'mole', { id: 'sun' }],
        ['o', 'channel', 'mole', 'x'.repeat(257)],
        ['o', 'channel', 'mole', 'sun', 'extra'],
      ],
    ],
    [
      'y',
      [
        ['y'],
        ['y', 7, null],
        ['y', null, null],
        ['y', '', null],
        ['y', 'channel'],
        ['y', 'channel', 7],
        ['y', 'channel', {}],
        ['y', 'channel', ['no']],
        ['y', 'channel', 'x'.repeat(4_097)],
        ['y', 'channel', null, 'extra'],
      ],
    ],
    ['z', [['z'], ['z', 7], ['z', null], ['z', {}], ['z', ['channel']]]],
    [
      'r',
      [
        ['r'],
        ['r', null],
        ['r', 7],
        ['r', 'removal'],
        ['r', []],
        ['r', {}],
        ...['of', 'by'].flatMap((chain) =>
          [
            ...[undefined, null, KEY, [], [7], [null], certificate, new Array(9).fill(certificate)],
            ...[{ node: 'x' }, { name: '' }, { grant: {} }, { since: undefined }, { issuedAt: '1' }, { extra: 1 }].map(
              (changes) => [{ ...certificate, ...changes }],
            ),
          ].map((value) => ['r', { ...removal, [chain]: value }]),
        ),
        ['r', { ...removal, mesh: 'x' }],
        ['r', { ...removal, at: -1 }],
        ['r', { ...removal, at: '1' }],
        ['r', { ...removal, node: KEY }],
        ['r', { ...removal, keep: 'all' }],
        ['r', { ...removal, keep: [7] }],
        ['r', { ...removal, keep: ['x'.repeat(129)] }],
        ['r', { ...removal, keep: new Array(257).fill(KEY) }],
        ['r', { ...removal, signature: 7 }],
        ['r', { ...removal, extra: true }],
      ],
    ],
    [
      'k',
      [
        ['k'],
        ['k', null],
        ['k', {}],
        ['k', 'all'],
        ['k', [7]],
        ['k', [null]],
        ['k', [[]]],
        ['k', [['x', []]]],
        ['k', [[KEY.toUpperCase(), []]]],
        ['k', [[KEY]]],
        ['k', [[KEY, null]]],
        ['k', [[KEY, 'ws://a']]],
        ['k', [[KEY, [7]]]],
        ['k', [[KEY, ['http://a']]]],
        ['k', [[KEY, ['ws://']]]],
        ['k', [[KEY, ['ws://a/b']]]],
        ['k', [[KEY, ['ws://a b']]]],
        ['k', [[KEY, [`ws://${'x'.repeat(256)}`]]]],
        ['k', [[KEY, new Array(9).fill('ws://a')]]],
        ['k', [[KEY, [], 'extra']]],
        ['k', new Array(257).fill([KEY, []])],
      ],
    ],
    ['unknown', [[''], ['M'], ['mm'], ['d'], ['__proto__'], ['constructor'], ['toString'], ['x'.repeat(100_000)]]],
  ];
  const flat = items.flatMap(([kind, list]) => list.map((item, index) => ({ kind, index, item })));

  it.each(flat)('are refused: item of kind $kind, number $index', async ({ item }) => {
    await expectShownOut((link) => link.give(item));
  });

  it('are not: a removal that is whole, but a lie; that is told of, and no reason to go', async () => {
    const link = await member.vouchFor().meet(siege.victim);
    siege.mark();
    link.give(['r', removal]);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /is not signed by a member that may remove it/);
    expect(link.closed).toBe(false);
  });
});

describe('anything at all after a genuine greeting', () => {
  const RUNS = SOAK ? 2_000 : 100;
  const KINDS = ['m', 'c', 'g', 'o', 'y', 'x', 'z', 'r', 'k', 'n', 's', 't', 'u', '', '__proto__', 'constructor'];
  const FRAMES = ['d', 'p', 'q', 'hello', 'join', 'welcome', 'refused', 'incompatible', '__proto__'];
  const arbAwkward: fc.Arbitrary<unknown> = fc.oneof(
    { weight: 4, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
    { weight: 2, arbitrary: fc.constantFrom<unknown>(0, 1, -1, 2 ** 53, 1.5, '', null, true, [], {}, [[]], [null]) },
    { weight: 2, arbitrary: fc.constantFrom('sun', 'mole', 'mole@', '*', 'change', 'last', 'request', 'leaving') },
    {
      weight: 2,
      arbitrary: fc
        .constantFrom('{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":[]}}', '{"toJSON":1,"then":1}')
        .map((text) => JSON.parse(text) as unknown),
    },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 3_000 }).map((levels) => JSON.parse(nested(levels)) as unknown) },
  );
  const arbItem = fc
    .tuple(fc.constantFrom(...KINDS), fc.array(arbAwkward, { maxLength: 10 }))
    .map(([kind, rest]) => [kind, ...rest]);
  const arbFrame = fc.oneof(
    fc.array(arbAwkward, { maxLength: 8 }),
    fc.tuple(fc.constantFrom(...FRAMES), fc.array(arbAwkward, { maxLength: 6 })).map(([kind, rest]) => [kind, ...rest]),
    fc.tuple(arbAwkward, arbAwkward, arbAwkward, arbAwkward, arbAwkward).map((rest) => ['d', ...rest]),
    fc.array(arbItem, { maxLength: 5 }).map((items) => ['d', 1, 1, 0, [], items]),
  );
  const arbText = fc.oneof(
    fc.string({ unit: 'binary' }).map((text) => new TextEncoder().encode(text)),
    // A genuine frame with some bytes changed.
    fc
      .tuple(fc.constantFrom(...FRAMES), fc.array(fc.tuple(fc.nat(60), fc.nat(255)), { minLength: 1, maxLength: 4 }))
      .map(([kind, changes]) => {
        const bytes = Buffer.from(JSON.stringify([kind, 1, 1, 0, [], [['z', 'channel'], message('mole', 'sun')]]));
        for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
        return Uint8Array.from(bytes);
      }),
  );

  /** Each attempt comes from a member of its own, so that none is shunned for what another did. */
  async function expectSurvived<T>(arbitrary: fc.Arbitrary<T>, say: (link: RogueLink, value: T) => void) {
    const siege = await Siege.begin();
    const member = await siege.rogue();
    siege.mark();
    const property = fc.asyncProperty(arbitrary, async (value) => {
      const before = siege.security().length;
      const link = await member.vouchFor().meet(siege.victim);
      say(link, value);
      await siege.pass(0);
      // A node that ends a link without a goodbye must report why.
      if (link.closed && link.frames.at(-1)?.[0] !== 'bye') expect(siege.security().length).toBeGreaterThan(before);
      link.say(['bye', 'leaving']);
    });
    await fc.assert(property, { numRuns: tries(RUNS, 'random attacks') });
    await siege.expectUnharmed();
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  }

  it('that is a list leaves the victim and its other peers as they were', { timeout: 300_000 }, async () => {
    await expectSurvived(arbFrame, (link, frame) => link.say(frame));
  });

  it('that is an item leaves the victim and its other peers as they were', { timeout: 300_000 }, async () => {
    await expectSurvived(arbItem, (link, item) => link.give(item));
  });

  it('that is bytes leaves the victim and its other peers as they were', { timeout: 300_000 }, async () => {
    await expectSurvived(arbText, (link, bytes) => link.sayBytes(bytes));
  });
});

describe('a peer that never acknowledges', () => {
  it('is sent everything again three times, with doubling waits, and then let go', async () => {
    const siege = await Siege.begin({ network: { limits: { acknowledgeMs: 600 } } });
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    link.announce({ id: 'mole' });
    await siege.pass();
    siege.mark();
    link.acknowledges = false;
    const failed = siege.sun.send(`mole@${rogue.key}`, 'hello?').catch((error: unknown) => error);
    for (let ms = 0; ms < 12_000 && !link.closed; ms += 100) {
      // Silent it is not: it only acknowledges nothing.
      link.say(['p', 1]);
      await siege.pass(100);
    }
    expect(await siege.nodes.settled(failed)).toMatchObject({
      code: 'DELIVERY_FAILED',
      details: { outcome: 'unknown' },
    });
    const times = link.frames.flatMap((frame, index) => {
      const items = frame[0] === 'd' ? (frame[5] as unknown[][]) : [];
      return items.some(([kind]) => kind === 'm') ? [link.times[index]!] : [];
    });
    const waits = times.slice(1).map((time, index) => time - times[index]!);
    expect(waits).toHaveLength(3);
    [600, 1_200, 2_400].forEach((wait, index) => {
      expect(Math.abs(waits[index]! - wait)).toBeLessThanOrEqual(300);
    });
    expect(siege.security()).toMatchObject([{ code: 'DELIVERY_FAILED', node: rogue.key }]);
    expect(siege.victim.network.peers.get(rogue.key)?.status).toBe('away');
    expect(link.closed).toBe(true);
    await siege.expectServing();
  });

  it('does not hold up what goes to others', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    link.announce({ id: 'mole' });
    await siege.pass();
    link.acknowledges = false;
    const fates = Array.from({ length: 1_000 }, () => siege.sun.send(`mole@${rogue.key}`, 'hello?'));
    const settled = Promise.allSettled(fates);
    await siege.expectServing();
    link.close();
    await siege.nodes.settled(settled);
    await siege.expectServing();
  });
});

describe('a removal', () => {
  const lies: [what: string, lie: (siege: Siege, member: Rogue, limited: Rogue) => Removal][] = [
    ['signed by a member that may not remove', (siege, _, limited) => remove(siege, limited)],
    [
      'signed by a stranger',
      (siege) => {
        const stranger = siege.stranger();
        stranger.chain = [stranger.certify(stranger.key, { mesh: siege.mesh })];
        return remove(siege, stranger);
      },
    ],
    [
      'signed by a member of another mesh',
      (siege) => {
        const root = siege.stranger();
        root.chain = [root.certify(root.key)];
        return remove(siege, root, { mesh: root.key });
      },
    ],
    [
      'in the founder’s name',
      (siege, member) => remove(siege, member, { by: siege.bystander.network.peers.get(siege.victim.key)!.chain! }),
    ],
    ['altered after it was signed', (siege, member) => ({ ...remove(siege, member), keep: ['somebody’s'] })],
    [
      'of another node than the one that was signed',
      (siege, member) => ({ ...remove(siege, member, { of: member.vouchFor().chain! }), of: siege.bystanderChain }),
    ],
    [
      'of a node that is no member',
      (siege, member) => {
        const stranger = siege.stranger();
        return remove(siege, member, { of: [stranger.certify(stranger.key, { mesh: siege.mesh })] });
      },
    ],
    [
      'of a node whose certificate was altered',
      (siege, member) => {
        const [own, ...rest] = siege.bystanderChain;
        return remove(siege, member, { of: [{ ...own!, since: 0 }, ...rest] });
      },
    ],
    [
      'of the founder',
      (siege, member) => remove(siege, member, { of: siege.bystander.network.peers.get(siege.victim.key)!.chain! }),
    ],
    ['from the future', (siege, member) => remove(siege, member, { at: siege.now + DAY_MS })],
    ['without a signature', (siege, member) => ({ ...remove(siege, member), signature: '' })],
    [
      'signed by one whose certificate has expired',
      (siege, member) => remove(siege, member.vouchFor({ expiresAt: siege.now })),
    ],
    [
      'signed by one that was let in by a member that may not',
      (siege, _, limited) => remove(siege, limited.vouchFor({ grant: { tiers: [3], invite: true } })),
    ],
  ];

  describe('that does not hold', () => {
    let siege: Siege;
    let limited: Rogue;
    let member: Rogue;
    let link: RogueLink;
    beforeAll(async () => {
      siege = await Siege.begin();
      limited = await siege.rogue({ tiers: [3] });
      member = await siege.rogue();
      link = await limited.meet(siege.victim);
    });

    it.each(lies)('%s is refused', async (_, lie) => {
      siege.mark();
      link.give(['r', lie(siege, member, limited)]);
      await siege.expectRefused('MEMBERSHIP_REFUSED', /is not signed by a member that may remove it/);
      // Not passed on either.
      expect(connected(siege.bystander)).toBe(1);
      expect(link.closed).toBe(false);
    });
  });

  it('of the founder is refused by other members too, which stay connected to it', async () => {
    const siege = await Siege.begin();
    const { bystander, victim } = siege;
    const rogue = await siege.rogue();
    const link = await rogue.meet(bystander);
    link.give(['r', remove(siege, rogue, { of: bystander.network.peers.get(victim.key)!.chain! })]);
    await siege.pass();
    expect(siege.nodes.events(bystander, 'security')).toMatchObject([{ code: 'MEMBERSHIP_REFUSED' }]);
    expect(bystander.registry.getById('sun')).toBeDefined();
    expect(bystander.network.peers.get(victim.key)?.status).toBe('connected');
    siege.mark();
    await siege.expectServing();
  });

  it('signed by one that was removed itself is refused', async () => {
    const siege = await Siege.begin();
    const removed = await siege.rogue();
    const removal = remove(siege, removed);
    await removed.meet(siege.victim);
    siege.victim.network.remove(removed.key);
    const link = await (await siege.rogue({ tiers: [3] })).meet(siege.victim);
    siege.mark();
    link.give(['r', removal]);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /is not signed by a member that may remove it/);
  });

  it('dated back by a removed node is refused, whichever node passes it on [T-F10]', async () => {
    const siege = await Siege.begin();
    const removed = await siege.rogue();
    await removed.meet(siege.victim);
    const before = siege.now;
    await siege.pass();
    siege.victim.network.remove(removed.key);
    const link = await (await siege.rogue({ tiers: [3] })).meet(siege.victim);
    siege.mark();
    link.give(['r', remove(siege, removed, { at: before })]);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /is not signed by a member that may remove it/);
    expect(siege.victim.network.peers.get(siege.bystander.key)?.status).toBe('connected');
  });

  it('by an accomplice lets no node in that the removed node vouched for since [T-F10]', async () => {
    const siege = await Siege.begin();
    const removed = await siege.rogue();
    const accomplice = await siege.rogue();
    await removed.meet(siege.victim);
    const puppet = removed.vouchFor();
    siege.victim.network.remove(removed.key);
    await siege.pass();
    const keep = [puppet.chain![0]!.signature];
    const link = await accomplice.meet(siege.victim);
    link.give(['r', remove(siege, accomplice, { of: removed.chain!, at: siege.now, keep })]);
    await siege.pass();
    siege.mark();
    puppet.call(siege.victim).hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', /issuer was removed/);
  });

  it('that is known is no offence of a node that repeats it, also after its signer was removed', async () => {
    const nodes = new Nodes();
    const [founder, deputy, other] = await nodes.startMesh(3);
    const removed = await Rogue.join(nodes, founder!);
    await removed.meet(deputy!);
    deputy!.network.remove(removed.key);
    await nodes.runtime.advance(1_000);
    founder!.network.remove(deputy!.key);
    await nodes.runtime.advance(1_000);
    const honest = await Rogue.join(nodes, founder!);
    const told = await honest.meet(founder!);
    const removals = told.items.filter(([kind]) => kind === 'r');
    expect(removals).toHaveLength(2);
    const before = [founder!, other!].map((node) => nodes.events(node, 'security').length);
    (await honest.meet(other!)).give(...removals, ...removals);
    await nodes.runtime.advance(100);
    expect([founder!, other!].map((node) => nodes.events(node, 'security').length)).toEqual(before);
  });

  it('takes those along whom the removed node had let in, wherever they are', async () => {
    const siege = await Siege.begin();
    const removed = await siege.rogue();
    await removed.meet(siege.victim);
    const friend = removed.vouchFor();
    const link = await friend.meet(siege.bystander);
    siege.victim.network.remove(removed.key);
    await siege.pass(3_000);
    expect(link.closed).toBe(true);
    expect(siege.bystander.network.peers.get(friend.key)).toBeUndefined();
    expect(siege.nodes.events(siege.bystander, 'security')).toMatchObject([
      { code: 'MEMBERSHIP_REFUSED', node: friend.key, reason: expect.stringMatching(/issuer was removed/) },
    ]);
  });

  it('leaves those that the removed node had let in and that the remover has met', async () => {
    const siege = await Siege.begin();
    const removed = await siege.rogue();
    await removed.meet(siege.victim);
    const friend = removed.vouchFor();
    const links = [await friend.meet(siege.victim), await friend.meet(siege.bystander)];
    siege.victim.network.remove(removed.key);
    await siege.pass(3_000);
    expect(links.map(({ closed }) => closed)).toEqual([false, false]);
    siege.mark();
    const late = removed.vouchFor().call(siege.victim);
    late.hello();
    await siege.expectRefused('MEMBERSHIP_REFUSED', /issuer was removed/);
    expect(late.closed).toBe(true);
  });

  // Weakness: `RemovalList` holds 1,000, and then takes no other, whoever signs it. A member that may invite makes that
  // many up, of nodes that it vouched for itself, and nobody can be removed any more, the rogue least of all.
  it('can be signed by the founder however many a member has made up', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-removals-'));
    try {
      const nodes = new Nodes();
      const before = await nodes.start({ network: { folder } });
      const rogue = await Rogue.join(nodes, before);
      await nodes.settled(before.stop());
      const { mesh } = rogue.chain![0]!;
      const removals = Array.from({ length: 1_000 }, () => {
        const of = [rogue.certify(madeUpKey({ nodes })), ...rogue.chain!];
        return signRemoval(rogue.identity, { mesh, of, at: nodes.runtime.now(), keep: [], by: rogue.chain! });
      });
      // Over a link, that many take half a minute.
      const file = join(folder, 'mesh.json');
      writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), removals }));
      const victim = await nodes.start({ network: { folder } });
      const link = await rogue.meet(victim);
      victim.network.remove(rogue.key);
      await nodes.runtime.advance(1_000);
      expect(link.closed).toBe(true);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('that is forged costs its sender the link after 32 of them, and the next call too [T-F14]', async () => {
    const siege = await Siege.begin();
    const rogue = await siege.rogue({ tiers: [3] });
    const link = await rogue.meet(siege.victim);
    siege.mark();
    const forged = { ...remove(siege, rogue), signature: '' };
    for (let i = 0; i < 31; i++) link.give(['r', { ...forged, at: i }]);
    await siege.pass();
    expect(link.closed).toBe(false);
    for (let i = 0; i < 200; i++) link.give(['r', { ...forged, at: 100 + i }]);
    await siege.pass();
    expect(link.closed).toBe(true);
    expect(siege.security().length).toBeLessThan(100);
    expect(siege.victim.network.peers.get(siege.bystander.key)?.status).toBe('connected');
    siege.mark();
    await siege.expectServing();
  });

  it('by a member that may is believed, whichever node passes it on', async () => {
    const siege = await Siege.begin();
    const member = await siege.rogue();
    const link = await (await siege.rogue({ tiers: [3] })).meet(siege.victim);
    siege.mark();
    link.give(['r', remove(siege, member)]);
    await siege.pass();
    expect(siege.security()).toEqual([]);
    expect(siege.victim.network.peers.get(siege.bystander.key)).toBeUndefined();
    expect(siege.victim.registry.getById('europa')).toBeUndefined();
  });
});

describe('a renewal', () => {
  const forgeries: [what: string, chain: (siege: Siege, member: Rogue) => unknown][] = [
    ['nothing', () => undefined],
    ['null', () => null],
    ['text', () => 'certificate'],
    ['an empty chain', () => []],
    ['an object', () => ({})],
    ['garbage', () => [{ mesh: 1 }, null]],
    ['something deep', () => JSON.parse(nested(3_000)) as unknown],
    ['the sender’s own chain', (_, member) => member.chain],
    ['another node’s chain', (siege) => siege.victim.network.peers.get(siege.bystander.key)!.chain],
    ['a chain of another mesh', (siege) => [siege.stranger().certify(siege.victim.key)]],
    [
      'a chain whose signature is wrong',
      (siege, member) => [{ ...member.certify(siege.victim.key), name: 'x' }, ...member.chain!],
    ],
    ['a chain by another than the issuer', (siege, member) => [member.certify(siege.victim.key), ...member.chain!]],
    [
      'a chain that grants less',
      (siege, member) => [member.certify(siege.victim.key, { grant: { tiers: [3], invite: false } }), ...member.chain!],
    ],
    [
      'a chain that ends sooner',
      (siege, member) => [member.certify(siege.victim.key, { expiresAt: siege.now + 1_000 }), ...member.chain!],
    ],
    ['the present chain', (siege) => siege.bystander.network.peers.get(siege.victim.key)!.chain],
    [
      'a chain that has expired',
      (siege, member) => [member.certify(siege.victim.key, { expiresAt: siege.now }), ...member.chain!],
    ],
  ];

  let siege: Siege;
  let member: Rogue;
  beforeAll(async () => {
    siege = await Siege.begin();
    member = await siege.rogue();
  });

  it.each(forgeries)('that is %s is refused', async (what, chain) => {
    const link = await member.meet(siege.victim, { session: what });
    siege.mark();
    const before = siege.victim.network.diagnose()[0];
    link.give(['n', chain(siege, member)]);
    await siege.expectRefused('MEMBERSHIP_REFUSED', /does not renew/);
    expect(siege.victim.network.diagnose()[0]).toEqual(before);
    await siege.nodes.settled(siege.victim.network.invite());
  });
});

describe('a channel from another node', () => {
  /** The victim's `sun` takes every channel; the rogue's `mole` and `vole` are announced, and `mole` has one open. */
  async function open(): Promise<{ siege: Siege; rogue: Rogue; link: RogueLink }> {
    const siege = await Siege.begin();
    siege.sun.onChannel((channel) => {
      channel.onMessage(({ payload }) => void siege.inbox.push(payload));
      return true;
    });
    const rogue = await siege.rogue();
    const link = await rogue.meet(siege.victim);
    link.announce({ id: 'mole' }, { id: 'vole' }, { id: 'chief', tier: 1 }, { id: 'caged', sandbox: 'lab' });
    link.give(['o', 'channel-1', 'mole', 'sun']);
    await siege.pass();
    expect(link.items.at(-1)).toEqual(['y', 'channel-1', null]);
    siege.mark();
    return { siege, rogue, link };
  }

  it.each([
    ['an agent that the tiers keep it from', 'chief', 'mars', 'TIER_VIOLATION'],
    ['an agent outside its sandbox', 'caged', 'sun', 'SANDBOX_VIOLATION'],
  ] as const)('is not opened to %s', async (_, from, to, code) => {
    const { siege, link } = await open();
    link.give(['o', 'channel-2', from, to]);
    await siege.expectRefused(code);
    expect(link.items.at(-1)).toEqual(['y', 'channel-2', expect.any(String)]);
    expect(link.closed).toBe(false);
  });

  const contradictions: [what: string, init: MessageInit][] = [
    ['with a tier that its agent has not', { metadata: { tier: 0 } }],
    ['with a sandbox that its agent has not', { metadata: { sandboxId: 'lab' } }],
  ];

  it.each(contradictions)('does not carry a message %s', async (_, init) => {
    const { siege, link } = await open();
    const number = link.next;
    link.give(onChannel('channel-1', 'mole', 'sun', init));
    await siege.pass();
    expect(new Set(siege.security().map(({ code }) => code))).toEqual(new Set(['SENDER_REFUSED']));
    expect(link.frames.at(-1)?.[4]).toEqual([[number, 'SENDER_REFUSED', expect.any(String)]]);
    await siege.expectUnharmed();
  });

  // Weakness: the router reports the contradiction, and `Inbound` reports the same `SENDER_REFUSED` once more.
  it.each(contradictions)('reports a message %s once', async (_, init) => {
    const { siege, link } = await open();
    link.give(onChannel('channel-1', 'mole', 'sun', init));
    await siege.expectRefused('SENDER_REFUSED');
  });

  it('carries its own agent’s messages, with or without the node in the address', async () => {
    const { siege, rogue, link } = await open();
    link.give(onChannel('channel-1', 'mole', 'sun', { payload: 1 }));
    link.give(onChannel('channel-1', `mole@${rogue.key}`, 'sun', { payload: 2 }));
    await siege.pass();
    expect(siege.inbox).toEqual([1, 2]);
    expect(siege.security()).toEqual([]);
  });

  it.each<[string, (siege: Siege) => string, string]>([
    ['from another agent of the same node', () => 'vole', 'sun'],
    ['from another node’s agent, by its id', () => 'europa', 'sun'],
    ['from another node’s agent, in full', ({ bystander }) => `europa@${bystander.key}`, 'sun'],
    ['from its agent, as if of another node', ({ bystander }) => `mole@${bystander.key}`, 'sun'],
    ['from its agent, as if of the victim', ({ victim }) => `mole@${victim.key}`, 'sun'],
    ['to another agent', () => 'mole', 'mars'],
    ['to another node’s agent', () => 'mole', 'europa'],
  ])('carries no message %s', async (_, from, to) => {
    const { siege, link } = await open();
    const number = link.next;
    link.give(onChannel('channel-1', from(siege), to));
    await siege.expectRefused('SENDER_REFUSED');
    expect(link.frames.at(-1)?.[4]).toEqual([[number, 'SENDER_REFUSED', expect.any(String)]]);
    expect(link.closed).toBe(false);
  });

  it.each(['ghost', 'europa', 'sun', '', '@', '__proto__'])('is not opened in the name of "%s"', async (from) => {
    const { siege, link } = await open();
    const number = link.next;
    link.give(['o', 'channel-2', from, 'sun']);
    await siege.expectRefused('SENDER_REFUSED', /no announced agent/);
    expect(link.frames.at(-1)?.[4]).toEqual([[number, 'SENDER_REFUSED', expect.any(String)]]);
    expect(link.closed).toBe(false);
  });

  it('is one of a thousand that a node may have at once', async () => {
    const { siege, link } = await open();
    link.give(...Array.from({ length: 1_005 }, (_, index) => ['o', `more-${index}`, 'mole', 'sun']));
    await siege.pass();
    const answers = link.items.filter(([kind, id]) => kind === 'y' && `${id}`.startsWith('more'));
    expect(answers.filter(([, , refusal]) => refusal === null)).toHaveLength(999);
    expect(answers.filter(([, , refusal]) => `${refusal}`.includes('too many'))).toHaveLength(6);
    expect(siege.victim.channels.listChannels()).toHaveLength(1_000);
    link.give(['z', 'more-1'], ['o', 'one-more', 'mole', 'sun']);
    await siege.pass();
    expect(link.items.at(-1)).toEqual(['y', 'one-more', null]);
    await siege.expectServing();
  });

  it('that another node has open takes nothing from this one, and is not closed or answered by it', async () => {
    const { siege, link } = await open();
    const { nodes, bystander, victim } = siege;
    const europa = bystander.agentById('europa');
    const channel = await nodes.settled(europa.openChannel(`sun@${victim.key}`));
    siege.mark();
    const number = link.next;
    link.give(onChannel(channel.id, 'mole', 'sun'), onChannel(channel.id, 'europa', 'sun'));
    link.give(['z', channel.id], ['y', channel.id, 'no'], ['y', channel.id, null]);
    await siege.pass();
    expect(link.frames.at(-1)?.[4]).toEqual([
      [number, 'CHANNEL_CLOSED', expect.any(String)],
      [number + 1, 'CHANNEL_CLOSED', expect.any(String)],
    ]);
    expect(channel.status).toBe('open');
    await siege.expectUnharmed();
    const { envelopes } = bystander;
    const sender = 'europa';
    const recipient = `sun@${victim.key}`;
    await nodes.settled(channel.send(envelopes.create({ sender, recipient, type: 'notification', payload: 'still' })));
    expect(siege.inbox).toEqual(['still']);
  });

  it('does not replace one that has the same id', async () => {
    const { siege, rogue, link } = await open();
    link.give(['o', 'channel-1', 'vole', 'sun'], ['o', 'channel-1', 'mole', 'sun']);
    await siege.pass();
    expect(link.items.slice(-2)).toEqual([
      ['y', 'channel-1', expect.any(String)],
      ['y', 'channel-1', expect.any(String)],
    ]);
    expect(siege.victim.channels.listChannels()).toMatchObject([
      { id: 'channel-1', status: 'open', remoteAgentId: `mole@${rogue.key}` },
    ]);
    await siege.expectUnharmed();
    link.give(onChannel('channel-1', 'mole', 'sun', { payload: 'through' }));
    await siege.pass();
    expect(siege.inbox).toEqual(['through']);
  });

  it('of an id that another node’s channel has is a channel of its own', async () => {
    const { siege, rogue, link } = await open();
    const { nodes, bystander, victim } = siege;
    const channel = await nodes.settled(bystander.agentById('europa').openChannel(`sun@${victim.key}`));
    link.give(['o', channel.id, 'mole', 'sun']);
    await siege.pass();
    const ends = victim.channels.listChannels().filter(({ id }) => id === channel.id);
    expect(ends.map(({ remoteAgentId }) => remoteAgentId).sort()).toEqual(
      [`europa@${bystander.key}`, `mole@${rogue.key}`].sort(),
    );
    link.give(['z', channel.id]);
    await siege.pass();
    expect(channel.status).toBe('open');
    await siege.expectServing();
  });

  it('that the victim asked for is answered only by the node that was asked', async () => {
    const { siege, rogue, link } = await open();
    const other = await (await siege.rogue()).meet(siege.victim);
    other.announce({ id: 'imp' });
    await siege.pass();
    const opening = siege.sun.openChannel(`mole@${rogue.key}`).catch((error: unknown) => error);
    await siege.pass();
    const [, channelId] = link.items.find(([kind]) => kind === 'o') as [string, string];
    other.give(['y', channelId, null]);
    await siege.pass();
    expect(siege.victim.channels.getChannel(channelId)?.status).toBe('connecting');
    link.give(['y', channelId, null], ['y', channelId, 'changed my mind'], ['y', channelId, null]);
    expect(await siege.nodes.settled(opening)).toMatchObject({ id: channelId, status: 'open' });
    await siege.expectServing();
  });

  it('ends with its node, and with nothing else', async () => {
    const { siege, link } = await open();
    const { nodes, bystander, victim } = siege;
    const channel = await nodes.settled(bystander.agentById('europa').openChannel(`sun@${victim.key}`));
    link.say(['bye', 'leaving']);
    await siege.pass();
    expect(victim.channels.listChannels().map(({ id }) => id)).toEqual([channel.id]);
    expect(channel.status).toBe('open');
    await siege.expectServing();
  });
});

describe('an honest node', () => {
  it('with many large cards is let in', async () => {
    const siege = await Siege.begin();
    const large = await siege.nodes.start();
    for (let count = 0; count < 64; count++) {
      const inputSchema = { about: 'x'.repeat(40_000) };
      large.agent({ id: `large-${count}`, capabilities: [{ id: 'large', inputSchema }] });
    }
    await siege.nodes.join(large, siege.victim);
    await siege.pass(1_000);
    expect(siege.security()).toEqual([]);
    expect(siege.victim.registry.countOf(large.key)).toBe(64);
  });

  /** A card of about that many characters. */
  async function withCard(character: string, characters: number) {
    const siege = await Siege.begin();
    const large = await siege.nodes.start();
    large.agent({ id: 'small' });
    const inputSchema = { about: character.repeat(20_000) };
    const capabilities = Array.from({ length: characters / 20_000 }, (_, index) => ({ id: `${index}`, inputSchema }));
    large.agent({ id: 'large', capabilities });
    const { code } = await siege.nodes.settled(siege.victim.network.invite());
    await siege.nodes.settled(large.network.join(code));
    await siege.pass(1_000);
    expect(siege.security()).toEqual([]);
    return siege.victim.registry.getRemoteCards().filter(({ node }) => node === large.key);
  }

  it('announces no card that is too large to travel, but the others', async () => {
    expect((await withCard('x', 1_000_000)).map(({ id }) => id)).toEqual(['small', 'large']);
    expect((await withCard('x', 1_100_000)).map(({ id }) => id)).toEqual(['small']);
  });

  // Weakness: `CardExchange` counts characters, and a frame is limited in bytes, of which a character may take three.
  it('announces no card that is too large to travel in bytes, but the others', async () => {
    expect((await withCard('漢', 800_000)).map(({ id }) => id)).toContain('small');
  });

  it('whose agent refuses a channel at length is not accused, and says the beginning of why', async () => {
    const siege = await Siege.begin();
    siege.sun.onChannel(() => {
      throw new Error('no '.repeat(2_000));
    });
    const opening = siege.bystander.agentById('europa').openChannel(`sun@${siege.victim.key}`);
    const error = await siege.nodes.settled(opening.catch((thrown: unknown) => thrown));
    expect(error).toMatchObject({ code: 'CHANNEL_CLOSED', details: { reason: expect.stringMatching(/no no no/) } });
    expect((error as { details: { reason: string } }).details.reason).toHaveLength(1_000);
    expect(siege.nodes.events(siege.bystander, 'security')).toEqual([]);
    expect(connected(siege.bystander)).toBe(1);
  });
});

describe('a member', () => {
  /** One that answers heartbeats but reads nothing more, so that the victim's end of the link is full. */
  async function unread(siege: Siege) {
    const rogue = await siege.rogue();
    const [own, theirs] = linkInProcess(siege.nodes.runtime, rogue.key, siege.victim.key);
    const link = new RogueLink(siege.nodes.runtime, rogue, own);
    const { kind, remoteKey, initiator, handshake, reliable } = theirs;
    let full = false;
    let sent = 0;
    const stuck: Link = {
      ...{ kind, remoteKey, initiator, handshake, reliable },
      send: (frame) => {
        if (full) sent++;
        else theirs.send(frame);
        return !full;
      },
      listen: (listener) => theirs.listen(listener),
      close: () => theirs.close(),
    };
    siege.victim.network.links.take(stuck);
    link.hello();
    await siege.pass(0);
    link.announce({ id: 'mole' });
    await siege.pass();
    const fill = () => {
      full = true;
    };
    return { rogue, link, fill, sent: () => sent };
  }

  /** One whose key is smaller than the victim's, so that it could decide which of several links stays. */
  async function decisive(siege: Siege): Promise<Rogue> {
    const member = await siege.rogue();
    let rogue = member.vouchFor();
    while (rogue.key > siege.victim.key) rogue = member.vouchFor();
    return rogue;
  }

  it('that reads nothing is let go like one that acknowledges nothing', async () => {
    const siege = await Siege.begin({ network: { limits: { acknowledgeMs: 500 } } });
    const { rogue, link, fill } = await unread(siege);
    siege.mark();
    fill();
    const failed = siege.sun.send(`mole@${rogue.key}`, 'hello?').catch((error: unknown) => error);
    for (let ms = 0; ms < 15_000 && !link.closed; ms += 500) {
      link.say(['p', 1]);
      await siege.pass(500);
    }
    expect(link.closed).toBe(true);
    expect(await siege.nodes.settled(failed)).toMatchObject({ code: 'DELIVERY_FAILED' });
    expect(siege.security()).toMatchObject([{ code: 'DELIVERY_FAILED', node: rogue.key }]);
    await siege.expectServing();
  });

  it('that reads nothing does not make the victim keep echoes for it', async () => {
    const siege = await Siege.begin();
    const { link, fill, sent } = await unread(siege);
    fill();
    for (let count = 0; count < 1_000; count++) link.say(['p', count]);
    await siege.pass();
    expect(sent()).toBeLessThanOrEqual(1);
    expect(link.closed).toBe(false);
  });

  it('does not make the victim look for nodes that have no certificate, or for many that it certified [T-F8]', async () => {
    const siege = await Siege.begin();
    const { victim } = siege;
    const limited = await siege.rogue({ tiers: [3] });
    const link = await limited.meet(victim);
    const before = victim.network.list().length;
    const claims = [
      ...Array.from({ length: 100 }, () => [madeUpKey(siege), ['ws://10.0.0.1:22']]),
      // It may not invite, so that its certificates count for nothing.
      ...Array.from({ length: 50 }, () => heardOf(limited.vouchFor(), ['ws://10.0.0.1:22'], siege.now)),
    ];
    link.give(['k', claims]);
    await siege.pass(0);
    expect(victim.network.list()).toHaveLength(before);
    const inviter = await siege.rogue();
    const other = await inviter.meet(victim);
    const ghosts = Array.from({ length: 200 }, () => inviter.vouchFor());
    other.give(['k', ghosts.map((ghost) => heardOf(ghost, ['ws://10.0.0.1:22'], siege.now))]);
    await siege.pass(0);
    const shown = victim.network.list().filter(({ state }) => state === 'connecting');
    expect(shown).toHaveLength(32);
    expect(siege.security()).toEqual([]);
    await siege.expectServing();
    // Each can be removed by its key, and all of them with the one that vouched for them.
    victim.network.remove(shown[0]!.node);
    expect(victim.network.list().some(({ node }) => node === shown[0]!.node)).toBe(false);
    victim.network.remove(inviter.key);
    await siege.pass(1_000);
    expect(victim.network.list().filter(({ state }) => state === 'connecting')).toEqual([]);
    await siege.nodes.join(await siege.nodes.start(), victim);
  });

  it.each<[string, [addresses: unknown, at: unknown, signature: unknown]]>([
    ['no addresses', ['ws://a', 0, '']],
    ['an address with a path', [['ws://a/b'], 0, '']],
    ['no time', [[], 'now', '']],
    ['no signature', [[], 0, 7]],
  ])('that tells of a known member with %s is disconnected', async (_, [addresses, at, signature]) => {
    const siege = await Siege.begin();
    const link = await (await siege.rogue()).meet(siege.victim);
    siege.mark();
    link.give(['k', [[siege.bystander.key, addresses, siege.bystanderChain, at, signature]]]);
    await siege.expectRefused('INVALID_FRAME');
    expect(link.closed).toBe(true);
  });

  it('does not change where the victim looks for another member, nor with what credentials [T-F8]', async () => {
    const siege = await Siege.begin();
    const { victim } = siege;
    const absent = await siege.rogue();
    (await absent.meet(victim, { addresses: ['ws://home:1'] })).close();
    const limited = await siege.rogue({ tiers: [3] });
    const link = await limited.meet(victim);
    const [node, , chain] = heardOf(absent, [], 0);
    const forged = heardOf(limited, ['ws://nowhere:1'], siege.now + 1);
    link.give(
      ['k', [[absent.key, ['ws://nowhere:1']]]],
      ['k', [[node, ['ws://nowhere:1'], chain, forged[3], forged[4]]]],
    );
    await siege.pass();
    expect(victim.network.peers.get(absent.key)?.addresses).toEqual(['ws://home:1']);
    siege.mark();
    link.give(['k', [[absent.key, ['ws://user:word@nowhere:1']]]]);
    await siege.expectRefused('INVALID_FRAME');
  });

  it('does not make the victim remember any number of refusals', async () => {
    const siege = await Siege.begin();
    const link = await (await siege.rogue({ tiers: [3] })).meet(siege.victim);
    for (let count = 0; count < 9 && !link.closed; count++) {
      link.give(...Array.from({ length: 1_000 }, () => onChannel('none', 'mole', 'sun')));
      await siege.pass(0);
    }
    await siege.expectRefused('INVALID_FRAME', /never settles refused items/);
    expect(link.closed).toBe(true);
  });

  it('has four links at most, the latest', async () => {
    const siege = await Siege.begin();
    const rogue = await decisive(siege);
    const links: RogueLink[] = [];
    for (let count = 0; count < 10; count++) links.push(await rogue.meet(siege.victim));
    await siege.pass(5_000);
    expect(links.map(({ closed }) => closed)).toEqual([...new Array(6).fill(true), ...new Array(4).fill(false)]);
    expect(siege.security()).toEqual([]);
  });

  it('that breaks the rules over one link is disconnected from all, and messages in flight to it fail', async () => {
    const siege = await Siege.begin();
    siege.sun.onChannel(() => true);
    const rogue = await decisive(siege);
    const first = await rogue.meet(siege.victim);
    first.announce({ id: 'mole' });
    first.give(['o', 'channel-1', 'mole', 'sun']);
    await siege.pass();
    const second = await rogue.meet(siege.victim);
    for (const link of [first, second]) link.acknowledges = false;
    const failed = siege.sun.send(`mole@${rogue.key}`, 'hello?').catch((error: unknown) => error);
    await siege.pass(1);
    siege.mark();
    second.say(['nonsense']);
    first.give(message('mole', 'sun'));
    await siege.pass();
    expect([first.closed, second.closed]).toEqual([true, true]);
    expect(siege.security()).toMatchObject([{ code: 'INVALID_FRAME', node: rogue.key }]);
    expect(await siege.nodes.settled(failed)).toMatchObject({
      code: 'DELIVERY_FAILED',
      details: { outcome: 'unknown' },
    });
    expect(siege.inbox).toEqual([]);
    expect(siege.victim.channels.listChannels()).toEqual([]);
    expect(siege.victim.network.peers.get(rogue.key)?.status).toBe('away');
    const soon = rogue.call(siege.victim);
    await siege.pass(1);
    expect([soon.closed, soon.frames]).toEqual([true, []]);
    await siege.pass(SHUN_MS);
    await rogue.meet(siege.victim);
    await siege.expectServing();
  });
});

/** What a member says of another: its certificate, and its addresses in its own signed words. */
function heardOf({ identity, key, chain }: Rogue, addresses: string[], at: number): unknown[] {
  return [key, addresses, chain, at, announce(identity, addresses, at).signature];
}
