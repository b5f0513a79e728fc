import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MembershipMemory } from '../../../test/network/membership-memory.js';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { type Certificate, type Chain, type Grant, issueCertificate, NodeKeySchema } from './certificate.js';
import { Identity, isNodeKey, isSignedBy, NODE_KEY } from './identity.js';
import { inviteId, proveInvite } from './invite.js';
import { type Handshake, Membership, type Welcome } from './membership.js';
import { MembershipFile, type MembershipState, type MembershipStore } from './membership-file.js';
import { type Removal, RemovalSchema, signRemoval } from './removal.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const FULL: Grant = { tiers: [0, 1, 2, 3], invite: true };
const READER: Grant = { tiers: [3], invite: false };
const HASH = Buffer.alloc(64, 7);
const OTHER_HASH = Buffer.alloc(64, 8);

interface Member {
  readonly identity: Identity;
  readonly membership: Membership;
  readonly store: MembershipStore;
}

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-membership-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The typed error that the action ends with; anything else fails the test. */
function refusal(action: () => unknown): EclipticError {
  try {
    action();
  } catch (error) {
    if (error instanceof EclipticError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

function codeOf(action: () => unknown): ErrorCode {
  return refusal(action).code;
}

/** What arrives of a value at the other end of a link. */
function sent<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

function newcomer(runtime: SimulatedRuntime, store: MembershipStore = new MembershipMemory()): Member {
  const identity = Identity.create(runtime);
  return { identity, store, membership: new Membership({ runtime, identity, store }) };
}

function founder(runtime: SimulatedRuntime, store?: MembershipStore): Member {
  const member = newcomer(runtime, store);
  member.membership.create('founder', []);
  return member;
}

/** The same node after it was stopped and started again. */
function restarted({ identity, store }: Member, runtime: SimulatedRuntime): Member {
  return { identity, store, membership: new Membership({ runtime, identity, store }) };
}

function welcomeFor(host: Member, guest: Member, grant: Grant = FULL, name = 'guest'): Welcome {
  const secret = host.membership.invite(grant, HOUR);
  const handshake = { hash: HASH, initiator: false, remoteKey: guest.identity.key };
  const proof = proveInvite(secret, 'guest', HASH);
  return sent(host.membership.admit(inviteId(secret), proof, name, handshake).welcome);
}

/** Lets a node into the mesh of another; returns the new member. */
function admitted(host: Member, guest: Member, grant: Grant = FULL): Member {
  guest.membership.adopt(welcomeFor(host, guest, grant), []);
  return guest;
}

/** A founder, then each one invited by the one before. */
function line(length: number, runtime = new SimulatedRuntime()): Member[] {
  const members = [founder(runtime)];
  while (members.length < length) members.push(admitted(members.at(-1)!, newcomer(runtime)));
  return members;
}

/** One link between two nodes, as each of them sees it. */
function link(caller: Member, called: Member, hash: Uint8Array = HASH): [Handshake, Handshake] {
  return [
    { hash, initiator: true, remoteKey: called.identity.key },
    { hash, initiator: false, remoteKey: caller.identity.key },
  ];
}

/** Does one node admit another that shows its chain and a proof made for a link between them? */
function admits(host: Member, guest: Member, chain: Chain = guest.membership.chain): Grant {
  const [of, at] = link(guest, host);
  return host.membership.checkPeer(sent(chain), guest.membership.prove(of), at).grant;
}

/** A removal of one member by another, signed without asking whether it may. */
function removalBy(remover: Member, removed: Member, changes: Partial<Omit<Removal, 'signature'>> = {}): Removal {
  const { mesh, chain: by } = remover.membership;
  const { issuedAt } = removed.membership.chain[0]!;
  const content = { mesh, of: removed.membership.chain, at: issuedAt, keep: [], by, ...changes };
  return sent(signRemoval(remover.identity, content));
}

/** The issuer of a node's certificate renews it. */
function renew(issuer: Member, member: Member): Chain {
  const renewed = issuer.membership.renewed(sent(member.membership.chain))!;
  member.membership.renew(sent(renewed), issuer.identity.key);
  return renewed;
}

function contentOf(certificate: Certificate): Omit<Certificate, 'issuer' | 'signature'> {
  const { issuer: _, signature: __, ...content } = certificate;
  return content;
}

describe('a node of no mesh', () => {
  it('says so when it is asked for anything that needs one', () => {
    const [member, removed] = line(2) as [Member, Member];
    const { membership } = newcomer(new SimulatedRuntime({ seed: 2 }));
    const { chain } = removed.membership;
    const handshake = { hash: HASH, initiator: true, remoteKey: member.identity.key };
    const actions = [
      () => membership.mesh,
      () => membership.chain,
      () => membership.grant,
      () => membership.topic,
      () => membership.prove(handshake),
      () => membership.remove(chain),
      () => membership.takeRemoval(removalBy(member, removed)),
      () => membership.renew(chain, member.identity.key),
      () => membership.members.noteAddresses({ [member.identity.key]: ['ws://x'] }),
      () => membership.checkPeer(chain, 'x', handshake),
    ];
    expect(actions.map(codeOf)).toEqual(actions.map(() => 'NO_MESH'));
    expect(membership.joined).toBe(false);
    expect(membership.bootstrap).toEqual([]);
    expect(membership.members.addresses).toEqual({});
    expect(membership.removals).toEqual([]);
  });
});

describe('founding a mesh', () => {
  it('makes its founder a member that may do everything', () => {
    const runtime = new SimulatedRuntime();
    const { membership, identity } = founder(runtime);
    expect(membership.joined).toBe(true);
    expect(membership.grant).toEqual(FULL);
    expect(membership.chain).toHaveLength(1);
    expect(membership.chain[0]).toMatchObject({ node: identity.key, issuer: membership.mesh, since: runtime.now() });
    expect(membership.mesh).not.toBe(identity.key);
  });

  it('gives every mesh a key and a meeting place of its own', () => {
    const runtime = new SimulatedRuntime();
    const [one, other] = [founder(runtime), founder(runtime)];
    expect(one.membership.mesh).not.toBe(other.membership.mesh);
    expect(one.membership.topic.equals(other.membership.topic)).toBe(false);
    expect(codeOf(() => admits(one, other))).toBe('MEMBERSHIP_REFUSED');
  });

  it('is refused to a member, and so is joining', () => {
    const runtime = new SimulatedRuntime();
    const [host, guest] = [founder(runtime), founder(runtime)];
    const mesh = guest.membership.mesh;
    expect(codeOf(() => guest.membership.create('again', []))).toBe('MESH_EXISTS');
    expect(codeOf(() => guest.membership.adopt(welcomeFor(host, guest), []))).toBe('MESH_EXISTS');
    expect(guest.membership.mesh).toBe(mesh);
  });

  it('does not count if it could not be written', () => {
    mkdirSync(join(folder, 'mesh.json.new'));
    const member = newcomer(new SimulatedRuntime(), new MembershipFile(folder));
    expect(codeOf(() => member.membership.create('x', []))).toBe('DATA_FOLDER');
    expect(member.membership.joined).toBe(false);
  });
});

describe('joining a mesh', () => {
  it('is refused with a welcome for another node, or of another mesh', () => {
    const runtime = new SimulatedRuntime();
    const [host, guest, other] = [founder(runtime), newcomer(runtime), newcomer(runtime)];
    const welcome = welcomeFor(host, guest);
    const attempts: Welcome[] = [
      welcomeFor(host, other),
      { ...welcome, mesh: founder(runtime).membership.mesh },
      { ...welcome, chain: host.membership.chain },
      { ...welcome, chain: welcome.chain.slice(0, 1) },
    ];
    const codes = attempts.map((attempt) => codeOf(() => guest.membership.adopt(attempt, [])));
    expect(codes).toEqual(attempts.map(() => 'MEMBERSHIP_REFUSED'));
    expect(guest.membership.joined).toBe(false);
    guest.membership.adopt(welcome, []);
    expect(guest.membership.joined).toBe(true);
  });

  it('brings no removals along: those the members tell, each signed', async () => {
    const runtime = new SimulatedRuntime();
    const host = founder(runtime);
    const removed = admitted(host, newcomer(runtime));
    const removal = host.membership.remove(removed.membership.chain);
    await runtime.advance(1);
    const guest = newcomer(runtime);
    const welcome = welcomeFor(host, guest);
    expect(Object.keys(welcome).sort()).toEqual(['bootstrap', 'chain', 'meetingSecret', 'mesh']);
    guest.membership.adopt({ ...welcome, removals: [{ ...removal, signature: 'x' }] } as Welcome, []);
    expect(guest.membership.removals).toEqual([]);
    expect(guest.membership.takeRemoval(sent(removal))).toBe(true);
    for (const member of [guest, restarted(guest, runtime)]) {
      expect(codeOf(() => admits(member, removed))).toBe('MEMBERSHIP_REFUSED');
    }
  });
});

describe('a link between two members', () => {
  it('is admitted from both of its ends, with the grant of the other', () => {
    const runtime = new SimulatedRuntime();
    const host = founder(runtime);
    const guest = admitted(host, newcomer(runtime), READER);
    const [called, calling] = link(guest, host);
    expect(host.membership.checkPeer(sent(guest.membership.chain), guest.membership.prove(called), calling)).toEqual({
      chain: guest.membership.chain,
      grant: READER,
    });
    const back = guest.membership.checkPeer(sent(host.membership.chain), host.membership.prove(calling), called);
    expect(back.grant).toEqual(FULL);
  });

  it('is admitted with the longest chain', () => {
    const members = line(8);
    const last = members.at(-1)!;
    for (const member of [members[0]!, members[1]!, members[6]!]) {
      expect(admits(member, last)).toEqual(FULL);
      expect(admits(last, member)).toEqual(FULL);
    }
  });

  it.each(['the caller', 'the called'])(
    'is refused to a stranger in the place of %s, whatever proof it gives',
    (side) => {
      const runtime = new SimulatedRuntime();
      const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
      const mallory = founder(runtime);
      const initiator = side === 'the called';
      /** The link as Alice sees it: at its other end is Bob, or so he says. */
      const mine: Handshake = { hash: HASH, initiator, remoteKey: bob.identity.key };
      const bobs: Handshake = { hash: HASH, initiator: !initiator, remoteKey: alice.identity.key };
      const proofs: Record<string, unknown> = {
        reflected: alice.membership.prove(mine),
        'reflected, in the other role': alice.membership.prove({ ...mine, initiator: !initiator }),
        'replayed from another handshake': bob.membership.prove({ ...bobs, hash: OTHER_HASH }),
        'replayed from a longer handshake': bob.membership.prove({ ...bobs, hash: Buffer.concat([HASH, HASH]) }),
        'of the other role': bob.membership.prove({ ...bobs, initiator }),
        'for another node': bob.membership.prove({ ...bobs, remoteKey: carol.identity.key }),
        'for itself': bob.membership.prove({ ...bobs, remoteKey: bob.identity.key }),
        'of another member': carol.membership.prove(bobs),
        'of a stranger': mallory.membership.prove(bobs),
        'of another purpose': bob.identity.sign('card', { from: bob.identity.key, to: alice.identity.key }),
        stripped: undefined,
        'nothing at all': null,
        'an empty text': '',
        'a number': 7,
        'a list': [bob.membership.prove(bobs)],
        'an object': { proof: bob.membership.prove(bobs) },
        'half of it': bob.membership.prove(bobs).slice(0, 43),
        'twice over': bob.membership.prove(bobs).repeat(2),
        'an invite’s': proveInvite(Buffer.alloc(16), 'guest', HASH),
      };
      const held = Object.entries(proofs).filter(([, proof]) => {
        try {
          alice.membership.checkPeer(sent(bob.membership.chain), proof, mine);
          return true;
        } catch (error) {
          expect((error as EclipticError).code).toBe('MEMBERSHIP_REFUSED');
          return false;
        }
      });
      expect(held.map(([name]) => name)).toEqual([]);
      expect(alice.membership.checkPeer(bob.membership.chain, bob.membership.prove(bobs), mine).grant).toEqual(FULL);
    },
  );

  it('is refused to a member that passes on the proof of another', () => {
    const [alice, bob, mallory] = line(3) as [Member, Member, Member];
    // Bob calls Mallory, who calls Alice at the same moment and hands her everything that Bob says.
    const bobs = link(bob, mallory, OTHER_HASH)[0];
    const [, alices] = link(mallory, alice);
    const proof = bob.membership.prove(bobs);
    expect(codeOf(() => alice.membership.checkPeer(bob.membership.chain, proof, alices))).toBe('MEMBERSHIP_REFUSED');
    expect(codeOf(() => alice.membership.checkPeer(mallory.membership.chain, proof, alices))).toBe(
      'MEMBERSHIP_REFUSED',
    );
    const pretended = { ...alices, remoteKey: bob.identity.key };
    expect(codeOf(() => alice.membership.checkPeer(bob.membership.chain, proof, pretended))).toBe('MEMBERSHIP_REFUSED');
  });

  it('is refused to a node that shows the chain of another, though its own proof holds', () => {
    const [alice, bob, carol] = line(3) as [Member, Member, Member];
    expect(codeOf(() => admits(alice, bob, carol.membership.chain))).toBe('MEMBERSHIP_REFUSED');
    expect(codeOf(() => admits(alice, carol, bob.membership.chain))).toBe('MEMBERSHIP_REFUSED');
  });

  it('is refused to garbage, and with no other error', () => {
    const [alice, bob] = line(2) as [Member, Member];
    const [of, at] = link(bob, alice);
    const proof = bob.membership.prove(of);
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withDate: true, withNullPrototype: true }), (value) => {
        expect(codeOf(() => alice.membership.checkPeer(bob.membership.chain, value, at))).toBe('MEMBERSHIP_REFUSED');
        expect(codeOf(() => alice.membership.checkPeer(value, proof, at))).toBe('MEMBERSHIP_REFUSED');
        expect(codeOf(() => alice.membership.checkPeer([value], proof, at))).toBe('MEMBERSHIP_REFUSED');
        expect(codeOf(() => alice.membership.checkPeer(value, value, at))).toBe('MEMBERSHIP_REFUSED');
      }),
      { numRuns: 150 },
    );
  });

  it('is refused to any chain of which a part is of another kind', () => {
    const members = line(3);
    const [alice, , carol] = members as [Member, Member, Member];
    const [of, at] = link(carol, alice);
    const proof = carol.membership.prove(of);
    const fields = Object.keys(carol.membership.chain[0]!);
    fc.assert(
      fc.property(fc.nat(2), fc.constantFrom(...fields), fc.anything(), (index, field, value) => {
        const chain: Record<string, unknown>[] = sent(carol.membership.chain);
        if (JSON.stringify(chain[index]![field]) === JSON.stringify(value)) return;
        chain[index]![field] = value;
        expect(codeOf(() => alice.membership.checkPeer(chain, proof, at))).toBe('MEMBERSHIP_REFUSED');
      }),
      { numRuns: 300 },
    );
  });

  it('is refused to a member whose certificate has expired', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    await runtime.advance(YEAR - 1);
    expect(admits(alice, bob)).toEqual(FULL);
    await runtime.advance(1);
    expect(codeOf(() => admits(alice, bob))).toBe('MEMBERSHIP_REFUSED');
  });

  it('lapses when the certificate of the other expires, or it is removed', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    expect(alice.membership.lapsed(bob.membership.chain)).toBeUndefined();
    alice.membership.remove(carol.membership.chain);
    expect(alice.membership.lapsed(carol.membership.chain)).toMatch(/removed/);
    expect(alice.membership.lapsed(bob.membership.chain)).toBeUndefined();
    await runtime.advance(YEAR);
    expect(alice.membership.lapsed(bob.membership.chain)).toMatch(/expired/);
  });

  it('lapses for one that came by way of a removed node and was not met, and not for one that was', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol, dave] = line(4, runtime) as [Member, Member, Member, Member];
    const erin = admitted(bob, newcomer(runtime));
    admits(alice, carol);
    alice.membership.remove(bob.membership.chain);
    for (const { membership } of [carol, dave]) expect(alice.membership.lapsed(membership.chain)).toBeUndefined();
    for (const { membership } of [bob, erin]) expect(alice.membership.lapsed(membership.chain)).toMatch(/removed/);
  });
});

describe('removing a member', () => {
  it('shuts it out at once and permanently, everywhere the removal reaches', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    const removal = RemovalSchema.parse(sent(alice.membership.remove(carol.membership.chain)));
    expect(codeOf(() => admits(alice, carol))).toBe('MEMBERSHIP_REFUSED');
    expect(admits(bob, carol)).toEqual(FULL);
    // It is news once.
    expect([1, 2, 3].map(() => bob.membership.takeRemoval(sent(removal)))).toEqual([true, false, false]);
    expect(alice.membership.takeRemoval(sent(removal))).toBe(false);
    for (const member of [alice, bob, restarted(alice, runtime), restarted(bob, runtime)]) {
      expect(codeOf(() => admits(member, carol))).toBe('MEMBERSHIP_REFUSED');
      expect(member.membership.removals).toEqual([removal]);
    }
  });

  it('is told to the removed node as well, which then cannot remove others', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    const removal = alice.membership.remove(bob.membership.chain);
    expect(bob.membership.takeRemoval(sent(removal))).toBe(true);
    await runtime.advance(1);
    expect(codeOf(() => bob.membership.remove(carol.membership.chain))).toBe('MEMBERSHIP_REFUSED');
    expect(bob.membership.removals).toHaveLength(1);
  });

  it('is refused to a member that may not invite, for the node itself and for the founder', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    const reader = admitted(alice, newcomer(runtime), READER);
    const attempts: [Member, Member][] = [
      [reader, bob],
      [bob, bob],
      [bob, alice],
      [alice, alice],
    ];
    for (const [{ membership }, removed] of attempts) {
      expect(codeOf(() => membership.remove(removed.membership.chain))).toBe('NOT_GRANTED');
      expect(membership.removals).toEqual([]);
    }
  });

  it('by a member that may not, by a stranger or unsigned, or of the founder, is refused and forgotten', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    const reader = admitted(alice, newcomer(runtime), READER);
    const stranger = founder(runtime);
    const genuine = removalBy(bob, carol);
    const { mesh, chain } = bob.membership;
    const lies: Removal[] = [
      removalBy(reader, carol),
      removalBy(stranger, carol, { mesh }),
      removalBy(stranger, carol, { mesh, by: chain }),
      removalBy(bob, alice),
      removalBy(bob, stranger),
      removalBy(bob, carol, { at: runtime.now() + 2 * HOUR }),
      { ...genuine, signature: '' },
      { ...genuine, at: genuine.at + 1 },
      { ...genuine, keep: [carol.membership.chain[0]!.signature] },
      { ...genuine, of: reader.membership.chain },
      { ...genuine, by: alice.membership.chain },
    ];
    const codes = lies.map((lie) => codeOf(() => alice.membership.takeRemoval(sent(lie))));
    expect(codes).toEqual(lies.map(() => 'MEMBERSHIP_REFUSED'));
    expect(alice.membership.removals).toEqual([]);
    for (const member of [alice, carol]) expect(admits(bob, member)).toEqual(FULL);
    expect(alice.membership.takeRemoval(genuine)).toBe(true);
  });

  it('keeps the nodes that it had invited and that were met, also over a restart, and makes the others void', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol, dave] = line(4, runtime) as [Member, Member, Member, Member];
    const erin = admitted(bob, newcomer(runtime));
    // Dave’s chain shows Carol’s certificate as well.
    admits(alice, dave);
    const removal = restarted(alice, runtime).membership.remove(bob.membership.chain);
    expect(removal.keep).toEqual([carol.membership.chain[0]!.signature]);
    for (const member of [restarted(alice, runtime), carol, dave]) {
      member.membership.takeRemoval(sent(removal));
      for (const out of [bob, erin]) expect(codeOf(() => admits(member, out))).toBe('MEMBERSHIP_REFUSED');
      for (const kept of [carol, dave]) if (kept !== member) expect(admits(member, kept)).toEqual(FULL);
    }
    // Those it keeps can invite, remove and renew as before.
    await runtime.advance(YEAR / 2);
    const frank = admitted(carol, newcomer(runtime));
    expect(admits(dave, frank)).toEqual(FULL);
    renew(carol, dave);
    expect(admits(frank, dave)).toEqual(FULL);
    expect(dave.membership.takeRemoval(sent(carol.membership.remove(frank.membership.chain)))).toBe(true);
  });

  it('remembers a thousand certificates that were met, once each', () => {
    const [alice, bob] = line(2) as [Member, Member];
    for (let round = 0; round < 3; round++) admits(alice, bob);
    const { met, ...rest } = alice.store.load()!;
    const ofBob = bob.membership.chain.map(({ issuer, signature }) => [issuer, signature]);
    expect(met).toEqual(ofBob);
    const many = Array.from({ length: 1_000 }, (_, i): [string, string] => [bob.identity.key, `${i}`]);
    alice.store.save({ ...rest, met: many });
    const again = restarted(alice, new SimulatedRuntime());
    admits(again, bob);
    expect(alice.store.load()!.met).toEqual([...many.slice(2), ...ofBob]);
    const { keep } = again.membership.remove(bob.membership.chain);
    expect(keep).toEqual(many.slice(-256).map(([, signature]) => signature));
  });

  it('does not keep the removed node from being invited again later', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    bob.membership.takeRemoval(sent(alice.membership.remove(carol.membership.chain)));
    carol.membership.leave();
    admitted(bob, carol);
    await runtime.advance(1);
    for (const member of [alice, bob]) expect(admits(member, carol)).toEqual(FULL);
    bob.membership.takeRemoval(sent(alice.membership.remove(carol.membership.chain)));
    for (const member of [alice, bob]) expect(codeOf(() => admits(member, carol))).toBe('MEMBERSHIP_REFUSED');
  });

  it('shuts out a member whose inviter’s clock is ahead', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    const ahead = new SimulatedRuntime({ seed: 3, start: runtime.now() + HOUR / 12 });
    const carol = admitted(restarted(bob, ahead), newcomer(runtime));
    expect(admits(alice, carol)).toEqual(FULL);
    alice.membership.remove(carol.membership.chain);
    expect(codeOf(() => admits(alice, carol))).toBe('MEMBERSHIP_REFUSED');
  });

  it('holds against an inviter that renews the removed node, which it does unless it knows', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    await runtime.advance(YEAR / 2 + DAY);
    const removal = alice.membership.remove(carol.membership.chain);
    await runtime.advance(DAY);
    // Bob was away; Carol is the first to call him.
    expect(admits(bob, carol)).toEqual(FULL);
    const renewed = bob.membership.renewed(carol.membership.chain)!;
    expect(codeOf(() => admits(alice, carol, renewed))).toBe('MEMBERSHIP_REFUSED');
    bob.membership.takeRemoval(sent(removal));
    expect(bob.membership.renewed(carol.membership.chain)).toBeUndefined();
  });

  it('that is known is no lie when it comes again after its signer was removed, or has expired', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    const first = bob.membership.remove(carol.membership.chain);
    expect(alice.membership.takeRemoval(sent(first))).toBe(true);
    await runtime.advance(1);
    alice.membership.remove(bob.membership.chain);
    expect(alice.membership.takeRemoval(sent(first))).toBe(false);
    await runtime.advance(YEAR);
    expect(alice.membership.takeRemoval(sent(first))).toBe(false);
  });

  it('counts only once it is on disk', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    const removal = bob.membership.remove(carol.membership.chain);
    const save = alice.store.save.bind(alice.store);
    alice.store.save = () => {
      throw new EclipticError('DATA_FOLDER', 'the disk is full');
    };
    expect(codeOf(() => alice.membership.takeRemoval(sent(removal)))).toBe('DATA_FOLDER');
    expect(alice.membership.removals).toEqual([]);
    alice.store.save = save;
    // It comes again; now there is room.
    expect(alice.membership.takeRemoval(sent(removal))).toBe(true);
    expect(codeOf(() => admits(restarted(alice, runtime), carol))).toBe('MEMBERSHIP_REFUSED');
  });
});

describe('the owner grant', () => {
  const OWNER: Grant = { ...FULL, owner: true };

  it('is given by devices that have it, on request only, and ends with the membership [FC.35]', () => {
    const runtime = new SimulatedRuntime();
    const desktop = founder(runtime);
    const laptop = admitted(desktop, newcomer(runtime), OWNER);
    const tablet = admitted(laptop, newcomer(runtime), OWNER);
    const guest = admitted(laptop, newcomer(runtime));
    expect([desktop, laptop, tablet, guest].map(({ membership }) => membership.isOwners)).toEqual([
      ...[true, true, true, false],
    ]);
    expect(codeOf(() => guest.membership.invite(OWNER, HOUR))).toBe('NOT_GRANTED');
    expect(newcomer(runtime).membership.isOwners).toBe(false);
    expect(restarted(tablet, runtime).membership.isOwners).toBe(true);
    desktop.membership.remove(laptop.membership.chain);
    expect(desktop.membership.lapsed(laptop.membership.chain)).toMatch(/removed/);
  });
});

describe('renewal', () => {
  it('is given by the issuer past half the life of a certificate, and not before', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    await runtime.advance(YEAR / 2 - 1);
    expect(alice.membership.renewed(bob.membership.chain)).toBeUndefined();
    await runtime.advance(1);
    const renewed = renew(alice, bob);
    expect(renewed[0]).toMatchObject({ issuedAt: runtime.now(), expiresAt: runtime.now() + YEAR });
    expect(bob.membership.chain).toEqual(renewed);
    expect(alice.membership.renewed(bob.membership.chain)).toBeUndefined();
  });

  it('makes a member outlive its first certificate, and its restart', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    await runtime.advance(YEAR / 2);
    renew(alice, bob);
    renew(bob, carol);
    await runtime.advance(YEAR / 2 + DAY);
    expect(admits(bob, restarted(carol, runtime))).toEqual(FULL);
    expect(admits(carol, restarted(bob, runtime))).toEqual(FULL);
  });

  it('keeps the name, the grant and the beginning of the membership', async () => {
    const runtime = new SimulatedRuntime();
    const alice = founder(runtime);
    const grant: Grant = { tiers: [2, 3], sandboxes: ['red', 'blue'], invite: false };
    const bob = admitted(alice, newcomer(runtime), grant);
    const { since } = bob.membership.chain[0]!;
    await runtime.advance(YEAR * 0.75);
    renew(alice, bob);
    expect(bob.membership.chain[0]).toMatchObject({ name: 'guest', grant, node: bob.identity.key, since });
  });

  it('is given by the issuer only', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    await runtime.advance(YEAR * 0.75);
    expect(alice.membership.renewed(carol.membership.chain)).toBeUndefined();
    expect(carol.membership.renewed(bob.membership.chain)).toBeUndefined();
    expect(bob.membership.renewed(alice.membership.chain)).toBeUndefined();
    expect(bob.membership.renewed(carol.membership.chain)).toHaveLength(3);
  });

  it('is not given to one that has expired', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    await runtime.advance(YEAR);
    expect(alice.membership.renewed(bob.membership.chain)).toBeUndefined();
  });

  it('of the founder is its own work, past the half and not before', async () => {
    const runtime = new SimulatedRuntime();
    const alice = founder(runtime, new MembershipFile(folder));
    const { chain, mesh } = alice.membership;
    await runtime.advance(YEAR / 2 - 1);
    expect(restarted(alice, runtime).membership.chain).toEqual(chain);
    await runtime.advance(1);
    const renewed = restarted(alice, runtime);
    expect(renewed.membership.chain).toHaveLength(1);
    expect(renewed.membership.chain[0]).toMatchObject({
      ...contentOf(chain[0]!),
      issuer: mesh,
      issuedAt: runtime.now(),
      expiresAt: runtime.now() + YEAR,
    });
    expect(restarted(alice, runtime).membership.chain).toEqual(renewed.membership.chain);
  });

  it('of the founder works long after its certificate has expired, and those it invited stay members', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    await runtime.advance(YEAR - DAY);
    const renewed = restarted(alice, runtime);
    expect(admits(bob, renewed)).toEqual(FULL);
    expect(admits(renewed, bob)).toEqual(FULL);
    await runtime.advance(10 * YEAR);
    expect(restarted(alice, runtime).membership.chain[0]!.expiresAt).toBeGreaterThan(runtime.now());
  });

  it('of the founder needs no restart: it comes with the next link', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    const [{ since }] = alice.membership.chain as [Certificate];
    await runtime.advance(YEAR - DAY);
    const [, calling] = link(bob, alice);
    alice.membership.prove(calling);
    expect(alice.membership.chain[0]).toMatchObject({ since, expiresAt: runtime.now() + YEAR });
    expect(admits(bob, alice)).toEqual(FULL);
  });

  it('comes from the issuer only, for the same node, mesh and grant, and for longer', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    const mallory = admitted(alice, newcomer(runtime));
    const stranger = founder(runtime);
    const before = bob.membership.chain;
    const own = contentOf(before[0]!);
    await runtime.advance(YEAR / 2);
    const genuine = sent(alice.membership.renewed(before)!);
    const [issuedAt, expiresAt] = [runtime.now(), runtime.now() + YEAR];
    const by = (issuer: Member, changes: Partial<Certificate> = {}) => {
      const content = { ...own, issuedAt, expiresAt, ...changes };
      return [issueCertificate(issuer.identity, content), ...issuer.membership.chain];
    };
    const attempts: Record<string, readonly [unknown, Member?]> = {
      'of another node': [carol.membership.chain],
      'of its issuer': [alice.membership.chain],
      'of another mesh': [welcomeFor(stranger, bob).chain],
      'that is no longer': [before],
      'that is shorter': [by(alice, { expiresAt: own.expiresAt - 1 })],
      'that has expired': [by(alice, { issuedAt: own.issuedAt, expiresAt: issuedAt })],
      'that lives too long': [by(alice, { expiresAt: issuedAt + 401 * DAY })],
      'that says less': [by(alice, { grant: READER })],
      'that says more': [by(alice, { grant: { ...FULL, sandboxes: ['red'] } })],
      'that was changed': [[{ ...genuine[0], name: 'x' }, ...genuine.slice(1)]],
      'without its issuer': [genuine.slice(0, 1)],
      'of its own making': [by(bob)],
      'by another member': [by(mallory)],
      'by another member, from that one': [by(mallory), mallory],
      'that is genuine, from another member': [genuine, mallory],
      'that is genuine, from the node itself': [genuine, bob],
    };
    const taken = Object.entries(attempts).filter(([, [chain, from = alice]]) => {
      try {
        bob.membership.renew(sent(chain), from.identity.key);
        return true;
      } catch (error) {
        expect((error as EclipticError).code).toBe('MEMBERSHIP_REFUSED');
        return false;
      }
    });
    expect(taken.map(([name]) => name)).toEqual([]);
    expect(bob.membership.chain).toEqual(before);
    bob.membership.renew(genuine, alice.identity.key);
    expect(bob.membership.chain).toEqual(genuine);
  });

  it('by a member does not turn the founder into one that can be removed', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, mallory] = line(2, runtime) as [Member, Member];
    const before = alice.membership.chain;
    await runtime.advance(DAY);
    const content = { ...contentOf(before[0]!), issuedAt: runtime.now(), expiresAt: runtime.now() + YEAR };
    const chain = [issueCertificate(mallory.identity, content), ...mallory.membership.chain];
    for (const from of [mallory, alice]) {
      expect(codeOf(() => alice.membership.renew(sent(chain), from.identity.key))).toBe('MEMBERSHIP_REFUSED');
    }
    expect(alice.membership.chain).toEqual(before);
  });

  it('by garbage is refused with an error of the catalogue, and changes nothing', () => {
    const [alice, bob] = line(2) as [Member, Member];
    const before = bob.membership.chain;
    const refused = (value: unknown) => {
      expect(codeOf(() => bob.membership.renew(value, alice.identity.key))).toBe('MEMBERSHIP_REFUSED');
      expect(bob.membership.chain).toBe(before);
    };
    for (const value of [undefined, null, 7, 'chain', [], [null], {}, [{ mesh: 'x' }]]) refused(value);
    fc.assert(
      fc.property(fc.anything(), (value) => {
        refused(value);
        refused([value]);
      }),
      { numRuns: 100 },
    );
  });
});

describe('the addresses of others', () => {
  it('are kept, and written only when they change', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    let saves = 0;
    const save = alice.store.save.bind(alice.store);
    alice.store.save = (state) => {
      saves++;
      save(state);
    };
    for (let round = 0; round < 3; round++)
      alice.membership.members.noteAddresses({ [bob.identity.key]: ['ws://b:1'] });
    expect(saves).toBe(1);
    alice.membership.members.noteAddresses({ [bob.identity.key]: ['ws://b:2'], [carol.identity.key]: ['ws://c'] });
    // Nothing is no news.
    alice.membership.members.noteAddresses({ [bob.identity.key]: [] });
    alice.membership.members.noteAddresses({});
    expect(saves).toBe(2);
    const known = { [bob.identity.key]: ['ws://b:2'], [carol.identity.key]: ['ws://c'] };
    expect(restarted(alice, runtime).membership.members.addresses).toEqual(known);
  });

  it('do not grow without end: the oldest are forgotten', () => {
    const { membership } = founder(new SimulatedRuntime());
    const keyOf = (number: number) => `${1_000 + number}`.repeat(16);
    const some = (from: number, to: number) =>
      Object.fromEntries(Array.from({ length: to - from }, (_, i) => [keyOf(from + i), ['ws://x']]));
    for (let round = 0; round < 6; round++) membership.members.noteAddresses(some(round * 250, round * 250 + 250));
    const nodes = Object.keys(membership.members.addresses);
    expect(nodes.length).toBeGreaterThanOrEqual(1_000);
    expect(nodes.length).toBeLessThanOrEqual(1_250);
    expect(nodes).toContain(keyOf(1_499));
    expect(nodes).not.toContain(keyOf(0));
  });
});

describe('leaving a mesh', () => {
  it('forgets everything on disk but the node key', () => {
    const runtime = new SimulatedRuntime();
    const identity = Identity.keptIn(folder, runtime);
    const store = new MembershipFile(folder);
    const membership = new Membership({ runtime, identity, store });
    membership.create('founder', []);
    membership.invite(FULL, HOUR);
    expect(readdirSync(folder).sort()).toEqual(['mesh.json', 'node.key']);
    membership.leave();
    expect(readdirSync(folder)).toEqual(['node.key']);
    expect(membership.joined).toBe(false);
    expect(membership.openInvites()).toEqual([]);
    expect(Identity.keptIn(folder, runtime).key).toBe(identity.key);
    expect(new Membership({ runtime, identity, store }).joined).toBe(false);
  });

  it('forgets a draft as well that a crash has left, with its secrets', () => {
    const runtime = new SimulatedRuntime();
    const { membership } = founder(runtime, new MembershipFile(folder));
    writeFileSync(join(folder, 'mesh.json.new'), readFileSync(join(folder, 'mesh.json')));
    membership.leave();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('forgets the removals, and lets the node found or join another', async () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob, carol] = line(3, runtime) as [Member, Member, Member];
    bob.membership.takeRemoval(sent(alice.membership.remove(carol.membership.chain)));
    const left = bob.membership.mesh;
    bob.membership.leave();
    expect(bob.membership.removals).toEqual([]);
    bob.membership.create('anew', []);
    expect(bob.membership.mesh).not.toBe(left);
    expect(bob.membership.removals).toEqual([]);
    expect(admits(bob, admitted(bob, newcomer(runtime)))).toEqual(FULL);
  });

  it('twice, or without a mesh, does nothing', () => {
    const member = newcomer(new SimulatedRuntime(), new MembershipFile(folder));
    member.membership.leave();
    member.membership.leave();
    expect(member.membership.joined).toBe(false);
  });

  it('does not count if the file could not be deleted', () => {
    const runtime = new SimulatedRuntime();
    const alice = founder(runtime);
    alice.store.clear = () => {
      throw new EclipticError('DATA_FOLDER', 'read-only');
    };
    expect(codeOf(() => alice.membership.leave())).toBe('DATA_FOLDER');
    expect(alice.membership.joined).toBe(true);
  });
});

describe('the membership file', () => {
  const file = () => join(folder, 'mesh.json');
  const draft = () => join(folder, 'mesh.json.new');

  /** A founder with everything in its file: an invite of each state, a removal, one met, addresses. */
  function busyFounder(runtime: SimulatedRuntime): Member {
    const alice = founder(runtime, new MembershipFile(folder));
    const bob = admitted(alice, newcomer(runtime));
    const carol = admitted(alice, newcomer(runtime), { tiers: [3], sandboxes: ['red'], invite: false });
    admits(alice, carol);
    alice.membership.remove(carol.membership.chain);
    alice.membership.revokeInvite(alice.membership.invite(FULL, HOUR));
    alice.membership.invite(READER, HOUR);
    alice.membership.members.noteAddresses({ [bob.identity.key]: ['ws://bob.example:1'] });
    return alice;
  }

  it('is for its owner only, also if another was there before', () => {
    const alice = founder(new SimulatedRuntime(), new MembershipFile(folder));
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    chmodSync(file(), 0o644);
    writeFileSync(draft(), 'left by a crash', { mode: 0o666 });
    alice.membership.invite(FULL, HOUR);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(existsSync(draft())).toBe(false);
  });

  it('survives a restart with everything in it', () => {
    const runtime = new SimulatedRuntime();
    const { membership: before, identity } = busyFounder(runtime);
    const after = new Membership({ runtime, identity, store: new MembershipFile(folder) });
    expect(after.mesh).toBe(before.mesh);
    expect(after.chain).toEqual(before.chain);
    expect(after.topic.equals(before.topic)).toBe(true);
    expect(after.removals).toEqual(before.removals);
    expect(after.members.addresses).toEqual(before.members.addresses);
    expect(after.openInvites()).toEqual(before.openInvites());
    expect(after.openInvites()).toHaveLength(1);
    const store = new MembershipFile(folder);
    const state = store.load()!;
    expect(state.met).toHaveLength(2);
    store.save(state);
    expect(store.load()).toEqual(state);
  });

  it('is no membership where there is none', () => {
    expect(new MembershipFile(folder).load()).toBeUndefined();
    expect(new MembershipFile(join(folder, 'nowhere')).load()).toBeUndefined();
    // Nor where a crash came before the first one was finished.
    writeFileSync(draft(), '{"version":1');
    expect(new MembershipFile(folder).load()).toBeUndefined();
  });

  it.each([
    ['nothing', '', /JSON/],
    ['no JSON', 'not json', /JSON/],
    ['null', 'null', /its start/],
    ['a number', '7', /its start/],
    ['a list', '[]', /its start/],
    ['an empty object', '{}', /version/],
    ['an older version', '{"version":0}', /version/],
    ['a version that is a text', '{"version":"2"}', /version/],
    ['a version between versions', '{"version":1.5}', /version/],
  ])('with %s in it is refused, and left as it is', (_, text, place) => {
    writeFileSync(file(), text);
    const { code, message, details } = refusal(() => newcomer(new SimulatedRuntime(), new MembershipFile(folder)));
    expect(code).toBe('DATA_FOLDER');
    expect(message).toContain(file());
    expect(message).toMatch(place);
    expect(details.file).toBe(file());
    expect(readFileSync(file(), 'utf8')).toBe(text);
    expect(readdirSync(folder)).toEqual(['mesh.json']);
  });

  it('that is damaged says where, and is left as it is', () => {
    const { identity } = busyFounder(new SimulatedRuntime());
    const whole = readFileSync(file(), 'utf8');
    const { meetingSecret } = JSON.parse(whole) as MembershipState;
    const damages: [string, (state: MembershipState) => void][] = [
      ['mesh', (state) => Object.assign(state, { mesh: 'x' })],
      ['rootSeed', (state) => Object.assign(state, { rootSeed: 'abcd' })],
      ['meetingSecret', (state) => Object.assign(state, { meetingSecret: 7 })],
      ['chain', (state) => Object.assign(state, { chain: [] })],
      ['chain.0.grant.tiers', (state) => Object.assign(state.chain[0]!.grant, { tiers: [] })],
      ['chain.0.grant.tiers.0', (state) => Object.assign(state.chain[0]!.grant, { tiers: [4] })],
      ['chain.0.since', (state) => Object.assign(state.chain[0]!, { since: -1 })],
      ['chain.0.expiresAt', (state) => Object.assign(state.chain[0]!, { expiresAt: null })],
      ['bootstrap.0', (state) => Object.assign(state, { bootstrap: [1] })],
      ['addresses.x', (state) => Object.assign(state, { addresses: { x: 'ws://y' } })],
      ['invites.0.state', (state) => Object.assign(state.invites[0]!, { state: 'lost' })],
      ['invites.0.by', (state) => Object.assign(state.invites[0]!, { by: 'somebody' })],
      ['removals.0.by.0.node', (state) => Object.assign(state.removals[0]!.by[0]!, { node: 'X'.repeat(64) })],
      ['removals.0.of', (state) => Object.assign(state.removals[0]!, { of: [] })],
      ['met.0.0', (state) => Object.assign(state.met[0]!, ['x'])],
      ['its start', (state) => Object.assign(state, { extra: true })],
    ];
    for (const [place, damage] of damages) {
      const state = JSON.parse(whole) as MembershipState;
      damage(state);
      const text = JSON.stringify(state);
      writeFileSync(file(), text);
      const store = new MembershipFile(folder);
      const { code, message } = refusal(() => new Membership({ runtime: new SimulatedRuntime(), identity, store }));
      expect(code).toBe('DATA_FOLDER');
      expect(message).toContain(`damaged at ${place}:`);
      expect(message).not.toContain(meetingSecret);
      expect(readFileSync(file(), 'utf8')).toBe(text);
    }
  });

  it('that was cut off anywhere is refused, and left as it is', () => {
    busyFounder(new SimulatedRuntime());
    const text = readFileSync(file(), 'utf8');
    fc.assert(
      fc.property(fc.nat(text.length - 1), (length) => {
        writeFileSync(file(), text.slice(0, length));
        expect(codeOf(() => new MembershipFile(folder).load())).toBe('DATA_FOLDER');
        expect(readFileSync(file(), 'utf8')).toHaveLength(length);
      }),
      { numRuns: 100 },
    );
  });

  it('with any byte changed is read or refused, with no other error', () => {
    busyFounder(new SimulatedRuntime());
    const bytes = readFileSync(file());
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.nat(255), (at, byte) => {
        const damaged = Buffer.from(bytes);
        damaged[at] = byte;
        writeFileSync(file(), damaged);
        try {
          new MembershipFile(folder).load();
        } catch (error) {
          expect(error).toBeInstanceOf(EclipticError);
          expect((error as EclipticError).code).toMatch(/^(DATA_FOLDER|SCHEMA_VERSION_MISMATCH)$/);
        }
        expect(readFileSync(file()).equals(damaged)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('of a later release is refused, and left as it is', () => {
    const { identity } = busyFounder(new SimulatedRuntime());
    const state = JSON.parse(readFileSync(file(), 'utf8')) as object;
    for (const later of [
      { ...state, version: 3 },
      { version: 1_000, everything: 'different' },
    ]) {
      const text = JSON.stringify(later);
      writeFileSync(file(), text);
      const store = new MembershipFile(folder);
      const { code, details } = refusal(() => new Membership({ runtime: new SimulatedRuntime(), identity, store }));
      expect(code).toBe('SCHEMA_VERSION_MISMATCH');
      expect(details).toMatchObject({ expected: 2, found: later.version });
      expect(readFileSync(file(), 'utf8')).toBe(text);
    }
  });

  it('whose certificate was edited is refused, and says so [T-G4]', () => {
    const { identity } = busyFounder(new SimulatedRuntime());
    const whole = readFileSync(file(), 'utf8');
    const edits: ((state: MembershipState) => void)[] = [
      (state) => Object.assign(state.chain[0]!, { name: 'another' }),
      (state) => Object.assign(state.chain[0]!, { expiresAt: state.chain[0]!.expiresAt + 1 }),
      (state) => Object.assign(state.chain[0]!.grant, { tiers: [0, 1] }),
      (state) => Object.assign(state, { mesh: identity.key }),
    ];
    for (const edit of edits) {
      const state = JSON.parse(whole) as MembershipState;
      edit(state);
      writeFileSync(file(), JSON.stringify(state));
      const store = new MembershipFile(folder);
      expect(refusal(() => new Membership({ runtime: new SimulatedRuntime(), identity, store }))).toMatchObject({
        code: 'DATA_FOLDER',
        message: expect.stringMatching(/mesh.json is damaged/),
      });
    }
  });

  it('that cannot be written, as in a read-only folder, keeps no member out [T-G4]', () => {
    const runtime = new SimulatedRuntime();
    const [alice, bob] = line(2, runtime) as [Member, Member];
    alice.store.save = () => {
      throw new EclipticError('DATA_FOLDER', 'cannot use mesh.json: EROFS');
    };
    expect(admits(alice, bob)).toEqual(FULL);
    expect(codeOf(() => alice.membership.invite(FULL, HOUR))).toBe('DATA_FOLDER');
    expect(alice.membership.openInvites()).toEqual([]);
  });

  it('of the first release is read, and has no members until they are met', () => {
    const { identity, membership } = busyFounder(new SimulatedRuntime());
    const { members, ...state } = JSON.parse(readFileSync(file(), 'utf8')) as MembershipState;
    expect(members).toEqual([]);
    writeFileSync(file(), JSON.stringify({ ...state, version: 1 }));
    const after = new Membership({ runtime: new SimulatedRuntime(), identity, store: new MembershipFile(folder) });
    expect(after.mesh).toBe(membership.mesh);
    expect(after.members.all).toEqual([]);
  });

  it('is refused if a folder stands in its place', () => {
    mkdirSync(file());
    expect(codeOf(() => new MembershipFile(folder).load())).toBe('DATA_FOLDER');
  });

  it('is the old one after a crash between the draft and its renaming', () => {
    const runtime = new SimulatedRuntime();
    const { identity, membership } = founder(runtime, new MembershipFile(folder));
    const text = readFileSync(file(), 'utf8');
    for (const left of ['', text.slice(0, 100), text.replace('founder', 'nobody')]) {
      writeFileSync(draft(), left);
      const after = new Membership({ runtime, identity, store: new MembershipFile(folder) });
      expect(after.mesh).toBe(membership.mesh);
      expect(after.chain[0]!.name).toBe('founder');
      expect(readFileSync(file(), 'utf8')).toBe(text);
    }
    new Membership({ runtime, identity, store: new MembershipFile(folder) }).invite(FULL, HOUR);
    expect(new MembershipFile(folder).load()!.invites).toHaveLength(1);
    expect(existsSync(draft())).toBe(false);
  });

  it('is unchanged, and so is the membership, if a change could not be written', () => {
    const runtime = new SimulatedRuntime();
    const { membership, identity } = founder(runtime, new MembershipFile(folder));
    const text = readFileSync(file(), 'utf8');
    mkdirSync(draft());
    expect(codeOf(() => membership.invite(FULL, HOUR))).toBe('DATA_FOLDER');
    expect(codeOf(() => membership.members.noteAddresses({ [identity.key]: ['ws://x'] }))).toBe('DATA_FOLDER');
    expect(membership.openInvites()).toEqual([]);
    expect(membership.members.addresses).toEqual({});
    expect(readFileSync(file(), 'utf8')).toBe(text);
  });

  it('of another node is refused, and left as it is', () => {
    const runtime = new SimulatedRuntime();
    founder(runtime, new MembershipFile(folder));
    const text = readFileSync(file(), 'utf8');
    const { code, message } = refusal(() => newcomer(runtime, new MembershipFile(folder)));
    expect(code).toBe('DATA_FOLDER');
    expect(message).toMatch(/another node/);
    expect(readFileSync(file(), 'utf8')).toBe(text);
  });

  it.each([
    ['no name', '', 'a node'],
    ['a name of space', ' \t', 'a node'],
    ['a name that is too long', 'x'.repeat(257), 'x'.repeat(256)],
  ])('can be read again after founding or joining under %s', (_, name, known) => {
    const runtime = new SimulatedRuntime();
    const host = newcomer(runtime, new MembershipFile(folder));
    host.membership.create(name, []);
    expect(host.store.load()!.chain[0]!.name).toBe(known);
    host.store.clear();
    const guest = newcomer(runtime, new MembershipFile(folder));
    guest.membership.adopt(welcomeFor(founder(runtime), guest, FULL, name), []);
    expect(guest.store.load()!.chain[0]!.name).toBe(known);
  });
});

describe('the identity of a node', () => {
  const file = () => join(folder, 'node.key');

  it('is the same each time in the same folder', () => {
    const first = Identity.keptIn(folder, new SimulatedRuntime({ seed: 1 }));
    const again = Identity.keptIn(folder, new SimulatedRuntime({ seed: 2 }));
    expect(again.key).toBe(first.key);
    expect(again.keyPair).toEqual(first.keyPair);
    expect(again.sign('test', 1)).toBe(first.sign('test', 1));
    expect(first.key).toMatch(NODE_KEY);
  });

  it('is never shared by two nodes', () => {
    const runtime = new SimulatedRuntime();
    const keys = Array.from({ length: 10 }, (_, i) => {
      const own = join(folder, `${i}`);
      mkdirSync(own);
      return Identity.keptIn(own, runtime).key;
    });
    keys.push(...Array.from({ length: 90 }, () => Identity.create(runtime).key));
    expect(new Set(keys).size).toBe(100);
  });

  it('is kept in a file for its owner only', () => {
    const { key } = Identity.keptIn(folder, new SimulatedRuntime());
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['node.key']);
    expect(readFileSync(file(), 'utf8')).not.toContain(key);
  });

  it('survives an editor that adds a line’s end', () => {
    const { key } = Identity.keptIn(folder, new SimulatedRuntime());
    writeFileSync(file(), `${readFileSync(file(), 'utf8')}\n`);
    expect(Identity.keptIn(folder, new SimulatedRuntime()).key).toBe(key);
  });

  it.each([
    ['nothing', ''],
    ['a part of a key', 'ab'.repeat(31)],
    ['more than a key', 'ab'.repeat(33)],
    ['two keys', `${'ab'.repeat(32)}\n${'cd'.repeat(32)}`],
    ['something else', 'zz'.repeat(32)],
    ['capital letters', 'AB'.repeat(32)],
    ['bytes', '\0'.repeat(32)],
  ])('is not read from a file with %s in it, which is left as it is', (_, text) => {
    writeFileSync(file(), text);
    const { code, message, details } = refusal(() => Identity.keptIn(folder, new SimulatedRuntime()));
    expect(code).toBe('DATA_FOLDER');
    expect(details.file).toBe(file());
    if (text.trim()) expect(message).not.toContain(text.trim());
    expect(readFileSync(file(), 'utf8')).toBe(text);
    expect(readdirSync(folder)).toEqual(['node.key']);
  });

  it('is not kept where nothing can be', () => {
    expect(codeOf(() => Identity.keptIn(join(folder, 'nowhere'), new SimulatedRuntime()))).toBe('DATA_FOLDER');
    mkdirSync(file());
    expect(codeOf(() => Identity.keptIn(folder, new SimulatedRuntime()))).toBe('DATA_FOLDER');
  });

  it('shows nothing of its secret when it is printed', () => {
    const identity = Identity.create(new SimulatedRuntime());
    expect(JSON.stringify(identity)).toBe(JSON.stringify({ key: identity.key }));
    expect(Object.keys(identity)).toEqual(['key']);
  });

  it('is made again from its seed', () => {
    const identity = Identity.create(new SimulatedRuntime());
    const same = Identity.fromSeed(Buffer.from(identity.seed, 'hex'));
    expect(same.key).toBe(identity.key);
    expect(isSignedBy(identity.key, 'test', { a: 1 }, same.sign('test', { a: 1 }))).toBe(true);
  });

  it('has signed nothing that it has not', () => {
    const identity = Identity.create(new SimulatedRuntime());
    const signature = identity.sign('test', { a: 1 });
    fc.assert(
      fc.property(fc.string(), fc.anything(), (text, value) => {
        expect(isSignedBy(identity.key, 'test', { a: 1 }, text)).toBe(false);
        expect(isSignedBy(text, 'test', { a: 1 }, signature)).toBe(false);
        expect(isSignedBy(identity.key, 'test', { a: 1, value: [value] }, signature)).toBe(false);
      }),
      { numRuns: 100 },
    );
    expect(isSignedBy(identity.key.toUpperCase(), 'test', { a: 1 }, signature)).toBe(false);
    expect(isSignedBy('ff'.repeat(32), 'test', { a: 1 }, signature)).toBe(false);
    for (const spelling of [`${signature}==`, ` ${signature}`, `${signature}!`]) {
      expect(isSignedBy(identity.key, 'test', { a: 1 }, spelling)).toBe(false);
    }
  });

  it('is never a key for which anybody can sign', () => {
    // The points of small order, in each of their spellings: a signature for them needs no secret.
    const neutral = `01${'00'.repeat(31)}`;
    const orderEight = [
      '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
      'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    ];
    const aboutP = ['ec', 'ed', 'ee'].map((first) => `${first}${'ff'.repeat(30)}7f`);
    const points = [neutral, '00'.repeat(32), ...orderEight, ...aboutP];
    const negative = points.map((key) => {
      const bytes = Buffer.from(key, 'hex');
      bytes[31] = bytes[31]! | 0x80;
      return bytes.toString('hex');
    });
    const keys = [...points, ...negative];
    const signature = Buffer.concat([Buffer.from(neutral, 'hex'), Buffer.alloc(32)]).toString('base64url');
    const signs = (key: string) => Array.from({ length: 20 }).some((_, i) => isSignedBy(key, 'test', i, signature));
    expect(keys.filter((key) => isNodeKey(key) || NodeKeySchema.safeParse(key).success || signs(key))).toEqual([]);
    const { key } = Identity.create(new SimulatedRuntime());
    expect([isNodeKey(key), NodeKeySchema.safeParse(key).success]).toEqual([true, true]);
  });
});
