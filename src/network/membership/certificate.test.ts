import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbJson } from '../../../test/generators.js';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import {
  type Certificate,
  type Chain,
  ChainSchema,
  checkChain,
  type Grant,
  isOwners,
  issueCertificate,
  isWithin,
  type Removals,
} from './certificate.js';
import { Identity, isSignedBy } from './identity.js';
import { nodeOf, type Removal, RemovalList, RemovalSchema, signRemoval } from './removal.js';
import { statement } from './statement.js';

const START = 1_577_836_800_000;
const DAY = 86_400_000;
const YEAR = 365 * DAY;
/** How far ahead another's clock may be. */
const SKEW = 3_600_000;
/** When a chain is looked at, unless a test says otherwise: all of its certificates were issued, none has expired. */
const NOW = START + DAY;
const RUNS = { numRuns: 150 };

const FULL: Grant = { tiers: [0, 1, 2, 3], invite: true };
/** The longest that a grant can be. */
const WIDE: Grant = { ...FULL, sandboxes: Array.from({ length: 256 }, (_, i) => `${i}`.padStart(128, '-')) };
const NOBODY: Removals = { isRemoved: () => false, isKept: () => false };

const PEOPLE = new Map<number, Identity>();
const ROOT = someone(200);
const STRANGER = someone(201);

type Content = Omit<Certificate, 'issuer' | 'signature'>;

/** A mesh as one line of members: the founder, whom the root signed, then each one invited by the one before. */
interface Line {
  readonly members: readonly Identity[];
  /** The membership of each, in the same order. */
  readonly chains: readonly Chain[];
}

function someone(number: number): Identity {
  const known = PEOPLE.get(number) ?? Identity.fromSeed(Buffer.alloc(32, number));
  PEOPLE.set(number, known);
  return known;
}

/** `changes` says, by generation, what is special about a member's certificate; 0 is the founder. */
function lineOf(length: number, changes: Readonly<Record<number, Partial<Content>>> = {}): Line {
  const members = Array.from({ length }, (_, generation) => someone(generation + 1));
  const chains: Chain[] = [];
  members.forEach(({ key: node }, generation) => {
    const issuedAt = changes[generation]?.issuedAt ?? START + generation * 1_000;
    const content = { mesh: ROOT.key, node, name: `node ${generation}`, grant: FULL, since: issuedAt, issuedAt };
    const issuer = members[generation - 1] ?? ROOT;
    const own = issueCertificate(issuer, { ...content, expiresAt: issuedAt + YEAR, ...changes[generation] });
    chains.push([own, ...(chains[generation - 1] ?? [])]);
  });
  return { members, chains };
}

function lastOf({ chains }: Line): Chain {
  return chains.at(-1)!;
}

function contentOf([certificate]: Chain): Content {
  const { issuer: _, signature: __, ...content } = certificate!;
  return content;
}

/** What a stranger says of itself. */
function selfMade(): Certificate {
  const content = { mesh: ROOT.key, node: STRANGER.key, name: 'me', grant: FULL, since: START, issuedAt: START };
  return issueCertificate(STRANGER, { ...content, expiresAt: START + YEAR });
}

interface Circumstances {
  mesh?: string;
  node?: string;
  now?: number;
  removals?: Removals;
}

function check(chain: Chain, { mesh = ROOT.key, node, now = NOW, removals = NOBODY }: Circumstances = {}): Grant {
  return checkChain(chain, { mesh, node: node ?? chain[0]!.node, now, removals });
}

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

function reasonOf(action: () => unknown): unknown {
  const { code, details } = refusal(action);
  expect(code).toBe('MEMBERSHIP_REFUSED');
  return details.reason;
}

function copyOf<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** The same bytes with one bit of them turned over. */
function flipped(signature: string, bit: number): string {
  const bytes = Buffer.from(signature, 'base64url');
  const at = bit % (bytes.length * 8);
  bytes[at >> 3] = bytes[at >> 3]! ^ (1 << (at & 7));
  return bytes.toString('base64url');
}

/** Another character in the place of one. */
function respelled(text: string, at: number): string {
  return text.slice(0, at) + (text[at] === '0' ? '1' : '0') + text.slice(at + 1);
}

/** Ways to change one field; each leaves a certificate that its schema takes. */
const CHANGES: Readonly<Record<string, (certificate: Certificate, salt: number) => Certificate>> = {
  mesh: (it, salt) => ({ ...it, mesh: respelled(it.mesh, salt % 64) }),
  node: (it, salt) => ({ ...it, node: respelled(it.node, salt % 64) }),
  name: (it, salt) => ({ ...it, name: `${it.name}${salt}` }),
  'one tier less': (it) => ({ ...it, grant: { ...it.grant, tiers: it.grant.tiers.slice(1) } }),
  'tiers in another order': (it) => ({ ...it, grant: { ...it.grant, tiers: [...it.grant.tiers].reverse() } }),
  sandboxes: (it, salt) => ({ ...it, grant: { ...it.grant, sandboxes: [...(it.grant.sandboxes ?? []), `s${salt}`] } }),
  invite: (it) => ({ ...it, grant: { ...it.grant, invite: !it.grant.invite } }),
  issuer: (it, salt) => ({ ...it, issuer: respelled(it.issuer, salt % 64) }),
  'member for longer': (it, salt) => ({ ...it, since: it.since - 1 - (salt % 900) }),
  'member for less long': (it, salt) => ({ ...it, since: it.since + 1 + (salt % 900) }),
  'issued later': (it, salt) => ({ ...it, issuedAt: it.issuedAt + 1 + (salt % 900) }),
  'issued earlier': (it, salt) => ({ ...it, issuedAt: it.issuedAt - 1 - (salt % 900) }),
  'expires later': (it, salt) => ({ ...it, expiresAt: it.expiresAt + 1 + salt }),
  'expires earlier': (it, salt) => ({ ...it, expiresAt: it.expiresAt - 1 - (salt % DAY) }),
  'a bit of the signature': (it, salt) => ({ ...it, signature: flipped(it.signature, salt) }),
  'no signature': (it) => ({ ...it, signature: '' }),
  'half a signature': (it) => ({ ...it, signature: it.signature.slice(0, 43) }),
  'its signature twice': (it) => ({ ...it, signature: it.signature.slice(0, 64).repeat(2) }),
};

describe('a chain of certificates', () => {
  it('of one to eight is a membership', () => {
    for (let length = 1; length <= 8; length++) {
      const chain = lastOf(lineOf(length));
      expect(chain).toHaveLength(length);
      expect(check(ChainSchema.parse(copyOf(chain)))).toEqual(FULL);
    }
  });

  it('is no longer than eight, and never empty', () => {
    expect(ChainSchema.safeParse(lastOf(lineOf(9))).success).toBe(false);
    expect(ChainSchema.safeParse([]).success).toBe(false);
  });

  it('gives the grant of the node itself, whatever those above it have', () => {
    const grant: Grant = { tiers: [3], sandboxes: ['red'], invite: false };
    expect(check(lastOf(lineOf(4, { 3: { grant } })))).toEqual(grant);
  });

  it('holds whatever order the members of its certificates come in', () => {
    const chain = lastOf(lineOf(3)).map(
      (certificate) => Object.fromEntries(Object.entries(certificate).reverse()) as unknown as Certificate,
    );
    expect(check(chain)).toEqual(FULL);
  });

  it.each([1, 3, 8])('of %i is refused after any change of any field of any certificate', (length) => {
    const since = START - 1_000;
    const changes = Object.fromEntries(Array.from({ length }, (_, generation) => [generation, { since }]));
    const grant: Grant = { tiers: [1, 2], sandboxes: ['red'], invite: true };
    const original = lastOf(lineOf(length, { ...changes, [length - 1]: { since, grant } }));
    expect(check(original)).toEqual(grant);
    const held: string[] = [];
    for (const at of original.keys()) {
      for (const [change, apply] of Object.entries(CHANGES)) {
        const chain = original.map((certificate, i) => (i === at ? apply(certificate, 7 + 31 * at) : certificate));
        expect(ChainSchema.safeParse(chain).success).toBe(true);
        try {
          check(chain, { node: original[0]!.node });
          held.push(`${change} of certificate ${at}`);
        } catch (error) {
          expect((error as EclipticError).code).toBe('MEMBERSHIP_REFUSED');
        }
      }
    }
    expect(held).toEqual([]);
  });

  it('is refused if one character of its JSON was changed so that it says something else', () => {
    const original = lastOf(lineOf(3, { 2: { grant: { tiers: [3], sandboxes: ['red'], invite: false } } }));
    const text = JSON.stringify(original);
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.string({ minLength: 1, maxLength: 1 }), (at, character) => {
        let value: unknown;
        try {
          value = JSON.parse(text.slice(0, at) + character + text.slice(at + 1));
        } catch {
          return;
        }
        const parsed = ChainSchema.safeParse(value);
        if (!parsed.success || statement('', parsed.data).equals(statement('', original))) return;
        expect(codeOf(() => check(parsed.data, { node: original[0]!.node }))).toBe('MEMBERSHIP_REFUSED');
      }),
      { numRuns: 600 },
    );
  });

  it('is refused if a certificate says more than its schema knows', () => {
    const [own] = lineOf(1).chains[0]!;
    expect(ChainSchema.safeParse([{ ...own, admin: true }]).success).toBe(false);
    expect(ChainSchema.safeParse([{ ...own, grant: { ...own!.grant, root: true } }]).success).toBe(false);
  });

  it('is refused with the signature of another certificate of the same issuer', () => {
    const { chains } = lineOf(3);
    const [own, ...above] = chains[2]!;
    const other = issueCertificate(someone(2), { ...contentOf(chains[2]!), name: 'another' });
    const chain = [{ ...own!, signature: other.signature }, ...above];
    expect(reasonOf(() => check(chain))).toMatch(/signature/);
  });

  it('is refused with a signature that its issuer made for another purpose', () => {
    const [own] = lineOf(1).chains[0]!;
    const { signature: _, ...content } = own!;
    const chain = [{ ...content, signature: ROOT.sign('card', content) }];
    expect(reasonOf(() => check(chain))).toMatch(/signature/);
  });

  it('of another mesh is refused', () => {
    expect(reasonOf(() => check(lastOf(lineOf(3)), { mesh: STRANGER.key }))).toMatch(/another mesh/);
  });

  it('that mixes two meshes is refused', () => {
    const { chains } = lineOf(2);
    const content = { ...contentOf(chains[1]!), mesh: STRANGER.key, node: STRANGER.key };
    const own = issueCertificate(someone(2), content);
    expect(reasonOf(() => check([own, ...chains[1]!]))).toMatch(/another mesh/);
  });

  it('of another node is refused', () => {
    const { chains, members } = lineOf(3);
    expect(reasonOf(() => check(chains[2]!, { node: members[1]!.key }))).toMatch(/another node/);
    expect(reasonOf(() => check(chains[2]!, { node: STRANGER.key }))).toMatch(/another node/);
  });

  it('holds until the moment its first certificate expires, and not then', () => {
    const chain = lastOf(lineOf(3));
    const { expiresAt } = chain[0]!;
    expect(check(chain, { now: expiresAt - 1 })).toEqual(FULL);
    expect(reasonOf(() => check(chain, { now: expiresAt }))).toMatch(/expired/);
    expect(reasonOf(() => check(chain, { now: expiresAt + YEAR }))).toMatch(/expired/);
  });

  it('outlives the certificates above it: a member stays one while its issuer renews', () => {
    const { chains } = lineOf(2, { 0: { expiresAt: START + 10_000 } });
    expect(check(chains[1]!, { now: START + 20_000 })).toEqual(FULL);
  });

  it.each([0, 1, 2])(
    'is refused if the member of generation %i, who invited the next, may not invite',
    (generation) => {
      const grant: Grant = { tiers: [0, 1, 2, 3], invite: false };
      expect(reasonOf(() => check(lastOf(lineOf(4, { [generation]: { grant } }))))).toMatch(/may not invite|beyond/);
      // Nor if the next may not either.
      const next = { [generation]: { grant }, [generation + 1]: { grant } };
      expect(reasonOf(() => check(lastOf(lineOf(generation + 2, next))))).toMatch(/may not invite/);
    },
  );

  it.each([
    ['a tier', { tiers: [1, 2], invite: true }, { tiers: [1, 2, 3], invite: true }],
    ['a higher tier', { tiers: [2, 3], invite: true }, { tiers: [0], invite: false }],
    [
      'a sandbox',
      { tiers: [3], sandboxes: ['red'], invite: true },
      { tiers: [3], sandboxes: ['red', 'blue'], invite: false },
    ],
    ['freedom from sandboxes', { tiers: [3], sandboxes: ['red'], invite: true }, { tiers: [3], invite: false }],
  ] satisfies [string, Grant, Grant][])('is refused if it hands on %s that its issuer has not', (_, above, below) => {
    expect(reasonOf(() => check(lastOf(lineOf(3, { 1: { grant: above }, 2: { grant: below } }))))).toMatch(/beyond/);
    // Nor does a certificate below it help.
    expect(reasonOf(() => check(lastOf(lineOf(4, { 1: { grant: above }, 2: { grant: above } }))))).toMatch(/beyond/);
  });

  it('passes the owner grant on from members that have it only; the founder has it without a word [FC.35]', () => {
    const owner: Grant = { ...FULL, owner: true };
    const given = lineOf(3, { 1: { grant: owner }, 2: { grant: owner } });
    expect(check(lastOf(given))).toEqual(owner);
    expect(given.chains.map(([own]) => isOwners(own!))).toEqual([true, true, true]);
    expect(lineOf(3).chains.map(([own]) => isOwners(own!))).toEqual([true, false, false]);
    expect(reasonOf(() => check(lastOf(lineOf(3, { 2: { grant: owner } }))))).toMatch(/beyond/);
    const [own, ...above] = lastOf(lineOf(2));
    const forged = [{ ...own!, grant: owner }, ...above];
    expect(reasonOf(() => check(forged))).toMatch(/signature/);
    expect(ChainSchema.safeParse([{ ...own!, grant: { ...FULL, owner: false } }, ...above]).success).toBe(false);
  });

  it('never grants what any issuer above did not have', () => {
    const arbGrant = fc.record(
      {
        tiers: fc.subarray([0, 1, 2, 3] as const, { minLength: 1 }).map((tiers) => [...tiers]),
        sandboxes: fc.subarray(['red', 'blue', 'green'], { minLength: 1 }),
        invite: fc.boolean(),
      },
      { requiredKeys: ['tiers', 'invite'] },
    );
    fc.assert(
      fc.property(fc.array(arbGrant, { minLength: 2, maxLength: 5 }), (grants) => {
        const line = lineOf(grants.length, Object.fromEntries(grants.map((grant, i) => [i, { grant }])));
        const own = grants.at(-1)!;
        const lawful = grants.slice(0, -1).every((above, i) => {
          const below = grants[i + 1]!;
          const inTiers = below.tiers.every((tier) => above.tiers.includes(tier));
          const inSandboxes =
            !above.sandboxes || (below.sandboxes ?? ['?']).every((id) => above.sandboxes!.includes(id));
          return above.invite && inTiers && inSandboxes;
        });
        if (lawful) expect(check(lastOf(line))).toEqual(own);
        else expect(codeOf(() => check(lastOf(line)))).toBe('MEMBERSHIP_REFUSED');
        if (!lawful) return;
        for (const above of grants) expect(isWithin(own, above)).toBe(true);
      }),
      RUNS,
    );
  });

  it('has a grant within another only if it holds no right that the other lacks', () => {
    const limit: Grant = { tiers: [1, 2], sandboxes: ['red', 'blue'], invite: false };
    expect(isWithin(limit, limit)).toBe(true);
    expect(isWithin({ tiers: [2], sandboxes: ['blue'], invite: false }, limit)).toBe(true);
    const beyond: Grant[] = [
      { ...limit, invite: true },
      { ...limit, tiers: [1, 3] },
      { ...limit, sandboxes: ['red', 'green'] },
      { tiers: [1], invite: false },
    ];
    expect(beyond.filter((grant) => isWithin(grant, limit))).toEqual([]);
    expect(beyond.filter((grant) => !isWithin(grant, FULL))).toEqual([]);
  });

  it.each([
    ['before its issuer was a member', START - 1],
    ['after its issuer’s certificate had expired', START + YEAR + 1],
  ])('is refused if it was issued %s', (_, issuedAt) => {
    const line = lineOf(2, { 1: { issuedAt } });
    expect(reasonOf(() => check(lastOf(line), { now: issuedAt + 1 }))).toMatch(/not a member at the time/);
  });

  it('holds if it was issued in the first or the last moment of its issuer’s certificate', () => {
    for (const issuedAt of [START, START + YEAR]) {
      expect(check(lastOf(lineOf(2, { 1: { issuedAt } })), { now: issuedAt + 1 })).toEqual(FULL);
    }
  });

  it('is refused without its issuer', () => {
    const chain = lastOf(lineOf(4));
    for (const missing of [1, 2, 3]) {
      const rest = chain.filter((_, i) => i !== missing);
      expect(reasonOf(() => check(rest))).toMatch(/issuer is missing/);
      expect(reasonOf(() => check(chain.slice(0, missing)))).toMatch(/issuer is missing/);
    }
  });

  it('is refused with another node in its issuer’s place', () => {
    const { chains } = lineOf(3);
    const { chains: others } = lineOf(3, { 1: { node: STRANGER.key } });
    expect(reasonOf(() => check([chains[2]![0]!, ...others[1]!]))).toMatch(/issuer is missing/);
  });

  it('is refused in any other order', () => {
    const chain = lastOf(lineOf(4));
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4, maxLength: 4 }), (order) => {
        if (order.every((place, i) => place === i)) return;
        const shuffled = order.map((place) => chain[place]!);
        expect(codeOf(() => check(shuffled, { node: chain[0]!.node }))).toBe('MEMBERSHIP_REFUSED');
        expect(codeOf(() => check(shuffled))).toBe('MEMBERSHIP_REFUSED');
      }),
      { numRuns: 100 },
    );
  });

  it('is refused with anything after the certificate that the root signed', () => {
    const { chains } = lineOf(2);
    expect(reasonOf(() => check([...chains[0]!, selfMade()]))).toMatch(/issuer is missing/);
    expect(codeOf(() => check([...chains[1]!, ...chains[1]!]))).toBe('MEMBERSHIP_REFUSED');
  });

  it('that a stranger made for itself is refused, whatever it calls its root', () => {
    const own = selfMade();
    expect(reasonOf(() => check([own]))).toMatch(/issuer is missing/);
    expect(reasonOf(() => check([{ ...own, issuer: ROOT.key }]))).toMatch(/signature/);
    expect(reasonOf(() => check([own, ...lineOf(1).chains[0]!]))).toMatch(/issuer is missing/);
  });

  it('is refused if a node appears twice in it, as when a node prolongs its own life', () => {
    const { chains, members } = lineOf(3);
    const { expiresAt } = chains[1]![0]!;
    const prolonged = issueCertificate(members[1]!, { ...contentOf(chains[1]!), expiresAt: expiresAt + 30 * DAY });
    expect(reasonOf(() => check([prolonged, ...chains[1]!]))).toMatch(/appears twice/);
    expect(codeOf(() => check([prolonged, ...chains[1]!], { now: expiresAt + DAY }))).toBe('MEMBERSHIP_REFUSED');
    const content = { ...contentOf(chains[1]!), issuedAt: NOW, since: NOW };
    const byItsGuest = issueCertificate(members[2]!, content);
    expect(reasonOf(() => check([byItsGuest, ...chains[2]!]))).toMatch(/appears twice/);
  });

  it.each([0, 1, 2])('is refused if the certificate of generation %i makes no sense in time', (generation) => {
    const issuedAt = START + 10_000;
    const check3 = (changes: Partial<Content>) => () => {
      return check(lastOf(lineOf(3, { 1: { issuedAt }, 2: { issuedAt }, [generation]: { issuedAt, ...changes } })));
    };
    expect(check3({ expiresAt: issuedAt + 400 * DAY, since: 0 })()).toEqual(FULL);
    expect(reasonOf(check3({ expiresAt: issuedAt + 400 * DAY + 1 }))).toMatch(/make no sense/);
    expect(reasonOf(check3({ since: issuedAt + 1 }))).toMatch(/make no sense/);
  });

  it('is refused if it is dated further ahead than clocks differ, where no removal would reach it', () => {
    const datedAt = (issuedAt: number) => lastOf(lineOf(3, { 2: { issuedAt } }));
    expect(check(datedAt(NOW + SKEW))).toEqual(FULL);
    expect(reasonOf(() => check(datedAt(NOW + SKEW + 1)))).toMatch(/future/);
  });

  it('is refused if its signature is spelled in another way', () => {
    const [own] = lineOf(1).chains[0]!;
    const spellings = [
      `${own!.signature}==`,
      `${own!.signature}!`,
      ` ${own!.signature}`,
      lastDigitTurned(own!.signature),
    ];
    const held = spellings.filter((signature) => {
      try {
        return check([{ ...own!, signature }]) !== undefined;
      } catch {
        return false;
      }
    });
    expect(held).toEqual([]);
  });
});

/** The same signature: the last of 86 digits stands for two bits and four that nobody reads. */
function lastDigitTurned(signature: string): string {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return signature.slice(0, -1) + digits[digits.indexOf(signature.at(-1)!) ^ 1];
}

interface RemovalChanges extends Partial<Omit<Removal, 'signature'>> {
  /** Whose key signs, if not that of the member whose chain it shows. */
  signer?: Identity;
}

/** A removal by one generation of another. */
function removalBy(line: Line, by: number, of: number, { signer, ...changes }: RemovalChanges = {}): Removal {
  const content = { mesh: ROOT.key, of: line.chains[of]!, at: NOW, keep: [], by: line.chains[by]! };
  return signRemoval(signer ?? line.members[by]!, { ...content, ...changes });
}

function listOf(...removals: Removal[]): RemovalList {
  const list = new RemovalList();
  for (const removal of removals) expect(list.add(removal, ROOT.key, removal.at)).toBe('new');
  return list;
}

describe('a removal', () => {
  const line = lineOf(4);
  const [founder, alice, bob, carol] = line.members as [Identity, Identity, Identity, Identity];
  /** The certificates that Alice gave Bob, and Bob gave Carol. */
  const [ofAlice, ofBob, ofCarol] = line.chains.slice(1).map(([own]) => own!.signature) as [string, string, string];

  it('by a member that may invite makes the chain of the removed node void', () => {
    const removals = listOf(RemovalSchema.parse(copyOf(removalBy(line, 0, 3))));
    expect(reasonOf(() => check(line.chains[3]!, { removals }))).toMatch(/node was removed/);
    expect(check(line.chains[2]!, { removals })).toEqual(FULL);
    expect(removals.all.map(nodeOf)).toEqual([carol.key]);
  });

  it('may come from any member that may invite, also from one that the removed node let in', () => {
    const removals = listOf(removalBy(line, 3, 1, { keep: [ofBob] }));
    expect(codeOf(() => check(line.chains[1]!, { removals }))).toBe('MEMBERSHIP_REFUSED');
    expect(check(line.chains[3]!, { removals })).toEqual(FULL);
  });

  it('counts for nothing by a member that may not invite, by a stranger, or of one that is no member', () => {
    const readers = lineOf(3, { 2: { grant: { tiers: [3], invite: false } } });
    const own = selfMade();
    const [first, ...above] = line.chains[3]!;
    const attempts = {
      'by a reader': removalBy(readers, 2, 1),
      'by a stranger with a member’s chain': removalBy(line, 0, 3, { signer: STRANGER }),
      'by a stranger': removalBy(line, 0, 3, { signer: STRANGER, by: [own] }),
      'by a stranger that names the root': removalBy(line, 0, 3, {
        signer: STRANGER,
        by: [{ ...own, issuer: ROOT.key }],
      }),
      'by a stranger that names the founder': removalBy(line, 0, 3, {
        signer: STRANGER,
        by: [own, ...line.chains[0]!],
      }),
      'of a stranger': removalBy(line, 0, 3, { of: [own] }),
      'of a stranger that names a member': removalBy(line, 0, 3, { of: [own, ...line.chains[0]!] }),
      'of a member by a changed certificate': removalBy(line, 0, 3, { of: [{ ...first!, name: 'x' }, ...above] }),
      'of a member without its issuer': removalBy(line, 0, 3, { of: [first!] }),
      'of the founder': removalBy(line, 1, 0),
      'of the founder, by itself': removalBy(line, 0, 0),
      'in another mesh': removalBy(line, 0, 3, { mesh: STRANGER.key }),
    };
    const list = new RemovalList();
    const taken = Object.entries(attempts).filter(([, removal]) => list.add(removal, ROOT.key, NOW) !== false);
    expect(taken.map(([name]) => name)).toEqual([]);
    expect(list.add(removalBy(line, 0, 3), STRANGER.key, NOW)).toBe(false);
    expect(list.all).toEqual([]);
    expect(list.add(removalBy(readers, 1, 2), ROOT.key, NOW)).toBe('new');
  });

  it('counts for nothing if anything in it was changed after it was signed', () => {
    const removal = removalBy(line, 0, 3, { keep: [ofAlice] });
    const { signature: _, ...content } = removal;
    const otherBy = lineOf(1, { 0: { name: 'another' } }).chains[0]!;
    const forgeries: Removal[] = [
      { ...removal, of: line.chains[2]! },
      { ...removal, at: removal.at + 1 },
      { ...removal, at: removal.at - 1 },
      { ...removal, at: 0 },
      { ...removal, keep: [] },
      { ...removal, keep: [ofAlice, ofAlice] },
      { ...removal, keep: [ofBob] },
      { ...removal, by: line.chains[1]! },
      { ...removal, by: otherBy },
      { ...removal, mesh: STRANGER.key },
      { ...removal, signature: '' },
      { ...removal, signature: `${removal.signature}=` },
      { ...removal, signature: removalBy(line, 0, 2).signature },
      { ...removal, signature: founder.sign('certificate', content) },
      ...Array.from({ length: 64 }, (_, i) => ({ ...removal, signature: flipped(removal.signature, i * 8) })),
    ];
    const list = new RemovalList();
    expect(forgeries.filter((forgery) => list.add(forgery, ROOT.key, NOW) !== false)).toEqual([]);
    expect(list.all).toEqual([]);
    expect(list.add(removal, ROOT.key, NOW)).toBe('new');
  });

  it('counts for nothing by a member whose certificate had expired, or that had been removed, before', () => {
    const at = line.chains[0]![0]!.expiresAt + 1;
    expect(new RemovalList().add(removalBy(line, 0, 3, { at }), ROOT.key, at)).toBe(false);
    const list = listOf(removalBy(line, 0, 1, { keep: [ofBob] }));
    expect(list.add(removalBy(line, 1, 3, { at: NOW + 1 }), ROOT.key, NOW + 1)).toBe('void');
    expect(check(line.chains[3]!, { removals: list, now: NOW + 1 })).toEqual(FULL);
  });

  it('reaches a member that was away until the certificate of its signer had expired', () => {
    const late = line.chains[0]![0]!.expiresAt + 1;
    expect(new RemovalList().add(removalBy(line, 0, 3), ROOT.key, late)).toBe('new');
  });

  it('that comes later than the removal of its signer counts only if that one keeps it, whatever its date [T-F10]', () => {
    const byAlice = removalBy(line, 1, 3, { at: NOW });
    const crossed = listOf(removalBy(line, 0, 1, { at: NOW + 1_000, keep: [ofBob, byAlice.signature] }));
    expect(crossed.add(byAlice, ROOT.key, NOW + 2_000)).toBe('new');
    expect(crossed.isRemoved(carol.key, START)).toBe(true);
    const silent = listOf(removalBy(line, 0, 1, { at: NOW + 1_000, keep: [ofBob] }));
    expect(silent.add(byAlice, ROOT.key, NOW + 2_000)).toBe('void');
    expect(silent.isRemoved(carol.key, START)).toBe(false);
  });

  it('may be dated ahead as far as clocks differ, and no further', () => {
    const list = new RemovalList();
    expect(list.add(removalBy(line, 1, 3, { at: NOW + 1_000 * YEAR }), ROOT.key, NOW)).toBe('void');
    expect(list.add(removalBy(line, 1, 3, { at: NOW + SKEW + 1 }), ROOT.key, NOW)).toBe('void');
    expect(list.add(removalBy(line, 1, 3, { at: NOW + SKEW }), ROOT.key, NOW)).toBe('new');
  });

  it('that is known is no news, whatever became of its signer', () => {
    const removal = removalBy(line, 1, 3);
    const list = listOf(removal, removalBy(line, 0, 1, { keep: [ofBob] }));
    expect(list.add(removal, ROOT.key, NOW)).toBe('known');
    expect(list.add(copyOf(removal), ROOT.key, NOW + 10 * YEAR)).toBe('known');
    expect(list.all).toHaveLength(2);
  });

  it('keeps only what every other removal of the same node keeps, in whichever order they come [T-F10]', () => {
    const first = removalBy(line, 2, 1, { at: NOW - 1_000, keep: [ofBob] });
    // A later word of an accomplice, which would bring back whom the removed node lets in.
    const accomplice = removalBy(line, 3, 1, { at: NOW, keep: [ofBob, ofCarol] });
    for (const list of [listOf(first, accomplice), listOf(accomplice, first), new RemovalList([accomplice, first])]) {
      expect(list.isRemoved(alice.key, NOW)).toBe(true);
      expect(list.isKept(alice.key, START, ofBob)).toBe(true);
      expect(list.isKept(alice.key, START, ofCarol)).toBe(false);
      // A membership that began after the first removal is ended by the second alone.
      expect(list.isKept(alice.key, NOW - 500, ofCarol)).toBe(true);
    }
    expect(listOf(first).add(removalBy(line, 3, 1, { at: NOW - 2_000, keep: [ofBob] }), ROOT.key, NOW)).toBe('known');
    const again = removalBy(line, 2, 1, { at: NOW, keep: [] });
    expect(listOf(first, again).all).toEqual([again]);
  });

  /** Removals of nodes that nobody knows, as a list reads them from disk. */
  function madeUp(count: number, by: number): Removal[] {
    const removal = removalBy(line, by, 3);
    const [own, ...above] = line.chains[3]!;
    const nodes = Array.from({ length: count }, (_, i) => `${1_000 + i}`.repeat(16));
    return nodes.map((node) => ({ ...removal, of: [{ ...own!, node }, ...above] }));
  }

  it('is one of 256 at most, but a founder’s always finds room among others’', () => {
    const full = new RemovalList([...madeUp(255, 1), removalBy(line, 1, 2, { at: NOW - 1 })]);
    expect(full.add(removalBy(line, 1, 3), ROOT.key, NOW)).toBe('void');
    expect(full.add(removalBy(line, 1, 2), ROOT.key, NOW)).toBe('new');
    expect(full.add(removalBy(line, 0, 3), ROOT.key, NOW)).toBe('new');
    expect(full.all).toHaveLength(256);
    expect(full.isRemoved(carol.key, START)).toBe(true);
    expect(new RemovalList(madeUp(255, 1)).add(removalBy(line, 1, 3), ROOT.key, NOW)).toBe('new');
    expect(new RemovalList(madeUp(256, 0)).add(removalBy(line, 0, 3), ROOT.key, NOW)).toBe('void');
  });

  it('that a founder’s one displaces is not that of a real member, while there are made-up ones', () => {
    const full = new RemovalList([removalBy(line, 2, 3), ...madeUp(255, 1)]);
    expect(full.add(removalBy(line, 0, 1, { keep: [ofBob] }), ROOT.key, NOW)).toBe('new');
    expect(full.isRemoved(carol.key, START)).toBe(true);
  });

  it('has an end', () => {
    const keep = Array.from({ length: 256 }, () => 'x'.repeat(128));
    expect(new RemovalList().add(removalBy(line, 0, 3, { keep }), ROOT.key, NOW)).toBe('new');
    const { chains, members } = lineOf(2, { 1: { grant: WIDE } });
    expect(new RemovalList().add(removalBy({ chains, members }, 0, 1, { keep }), ROOT.key, NOW)).toBe(false);
  });

  it('can be made of every member: no chain says more than a removal holds', () => {
    expect(ChainSchema.safeParse(lastOf(lineOf(2, { 1: { grant: WIDE } }))).success).toBe(false);
    const sandboxes = Array.from({ length: 16 }, (_, index) => `${index}`.padEnd(128, 'x'));
    const heaviest = lineOf(
      8,
      Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map((at) => [at, { grant: { ...FULL, sandboxes } }])),
    );
    expect(ChainSchema.safeParse(lastOf(heaviest)).success).toBe(true);
    const keep = Array.from({ length: 256 }, () => 'x'.repeat(86));
    expect(new RemovalList().add(removalBy(heaviest, 6, 7, { keep }), ROOT.key, NOW)).toBe('new');
  });

  it('keeps those whose certificates it names, and makes everyone else void that came by way of the removed', () => {
    const keepsBob = listOf(removalBy(line, 0, 1, { keep: [ofBob] }));
    expect(codeOf(() => check(line.chains[1]!, { removals: keepsBob }))).toBe('MEMBERSHIP_REFUSED');
    expect(check(line.chains[2]!, { removals: keepsBob })).toEqual(FULL);
    expect(check(line.chains[3]!, { removals: keepsBob })).toEqual(FULL);
    const keepsNobody = listOf(removalBy(line, 0, 1));
    expect(reasonOf(() => check(line.chains[2]!, { removals: keepsNobody }))).toMatch(/issuer was removed/);
    expect(reasonOf(() => check(line.chains[3]!, { removals: keepsNobody }))).toMatch(/issuer was removed/);
  });

  it.each([
    ['by a certificate of the removed node itself', 1, [removalBy(line, 0, 1, { keep: [ofAlice] })]],
    ['by a certificate that another issued', 3, [removalBy(line, 0, 1, { keep: [ofCarol] })]],
    ['by the key of a node', 2, [removalBy(line, 0, 1, { keep: [bob.key] })]],
    ['by the removal of another', 2, [removalBy(line, 0, 3, { keep: [ofBob] }), removalBy(line, 0, 1)]],
    [
      'if only the nearer of two removed issuers does',
      3,
      [removalBy(line, 0, 1), removalBy(line, 0, 2, { keep: [ofCarol] })],
    ],
    [
      'if only the farther of two removed issuers does',
      3,
      [removalBy(line, 0, 1, { keep: [ofBob] }), removalBy(line, 0, 2)],
    ],
  ])('keeps nobody %s', (_, generation, removals) => {
    expect(codeOf(() => check(line.chains[generation]!, { removals: listOf(...removals) }))).toBe('MEMBERSHIP_REFUSED');
  });

  it('of two issuers keeps those whom both keep', () => {
    const removals = listOf(removalBy(line, 0, 1, { keep: [ofBob] }), removalBy(line, 0, 2, { keep: [ofCarol] }));
    expect(check(line.chains[3]!, { removals })).toEqual(FULL);
    expect(codeOf(() => check(line.chains[2]!, { removals }))).toBe('MEMBERSHIP_REFUSED');
  });

  it('leaves a member that it keeps able to invite others', () => {
    const removals = listOf(removalBy(line, 0, 1, { keep: [ofBob] }));
    const content = { ...contentOf(line.chains[3]!), node: STRANGER.key, since: NOW + 1_000, issuedAt: NOW + 1_000 };
    const invited = issueCertificate(bob, content);
    expect(check([invited, ...line.chains[2]!], { removals, now: NOW + 2_000 })).toEqual(FULL);
  });

  it('ends the removed node’s right to issue, also to those it keeps and with an old date', () => {
    const modest = lineOf(3, { 2: { grant: { tiers: [3], invite: false } } });
    const removals = listOf(removalBy(modest, 0, 1, { keep: [modest.chains[2]![0]!.signature] }));
    expect(check(modest.chains[2]!, { removals }).invite).toBe(false);
    for (const issuedAt of [START + 2_000, NOW + 1]) {
      const widened = issueCertificate(alice, { ...contentOf(modest.chains[2]!), grant: FULL, issuedAt });
      const attempt = () => check([widened, ...modest.chains[1]!], { removals, now: NOW + 2 });
      expect(reasonOf(attempt)).toMatch(/issuer was removed/);
    }
  });

  it('cannot take back what the root itself signed, though it is in a list', () => {
    const removals = new RemovalList([removalBy(line, 1, 0)]);
    expect(removals.isRemoved(founder.key, START)).toBe(true);
    expect(check(line.chains[0]!, { removals })).toEqual(FULL);
    expect(check(line.chains[3]!, { removals })).toEqual(FULL);
  });

  it('ends memberships begun up to its moment, however often they are renewed, and none begun later', () => {
    const removals = listOf(removalBy(line, 0, 2));
    const bobs = (changes: Partial<Content>) => lineOf(3, { 2: changes }).chains[2]!;
    const over = [
      bobs({ issuedAt: NOW }),
      bobs({ issuedAt: NOW + 1, since: NOW }),
      bobs({ issuedAt: NOW + 1, since: 0 }),
    ];
    for (const chain of over) {
      expect(reasonOf(() => check(chain, { removals, now: NOW + DAY }))).toMatch(/node was removed/);
    }
    expect(check(bobs({ issuedAt: NOW + 1 }), { removals, now: NOW + DAY })).toEqual(FULL);
  });

  it('stays in force for those whom the removed node had invited before it was invited again', () => {
    const removals = listOf(removalBy(line, 0, 2));
    expect(codeOf(() => check(line.chains[3]!, { removals, now: NOW + DAY }))).toBe('MEMBERSHIP_REFUSED');
    const anew = lineOf(4, { 2: { issuedAt: NOW + 1 }, 3: { issuedAt: NOW + 2 } });
    expect(check(anew.chains[3]!, { removals, now: NOW + DAY })).toEqual(FULL);
  });

  it('cannot be slipped by a removed node that issues itself a certificate of a later date', () => {
    const removals = listOf(removalBy(line, 0, 2));
    const own = issueCertificate(bob, { ...contentOf(line.chains[2]!), since: NOW + 1, issuedAt: NOW + 1 });
    expect(codeOf(() => check([own, ...line.chains[2]!], { removals, now: NOW + 2 }))).toBe('MEMBERSHIP_REFUSED');
  });
});

/** The same value with the keys of every object the other way round. */
function backwards(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(backwards);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, backwards(member)]),
  );
}

/** The same value with a member that is undefined in every object. */
function withNothings(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withNothings);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, member]) => [key, withNothings(member)]);
  return Object.fromEntries([['nothing at all', undefined], ...members]);
}

describe('a statement', () => {
  it('is the same text in any order of keys, with members that are undefined, and after a journey as JSON', () => {
    fc.assert(
      fc.property(arbJson(), (value) => {
        const text = statement('test', value);
        for (const same of [backwards(value), withNothings(value), copyOf(value)]) {
          expect(statement('test', same).equals(text)).toBe(true);
        }
      }),
      RUNS,
    );
  });

  it('of one purpose is never that of another', () => {
    const arbPurpose = fc.oneof(
      fc.string(),
      fc.constantFrom('card', 'certificate', 'removal', 'link proof', 'card 1\n{}', 'card 1\nnull 1\n', ''),
    );
    fc.assert(
      fc.property(arbPurpose, arbPurpose, arbJson(), arbJson(), (purpose, other, value, otherValue) => {
        if (purpose === other) return;
        expect(statement(purpose, value).equals(statement(other, otherValue))).toBe(false);
        expect(statement(purpose, value).equals(statement(other, value))).toBe(false);
      }),
      RUNS,
    );
  });

  it('of one value is never that of another', () => {
    fc.assert(
      fc.property(arbJson(), arbJson(), (value, other) => {
        if (statement('test', value).equals(statement('test', other))) expect(value).toEqual(other);
      }),
      { numRuns: 500 },
    );
    const different = [null, 0, '0', 'null', [], {}, [[]], [null], [0], ['0'], { a: 1 }, { a: '1' }, [{ a: 1 }], '{}'];
    expect(new Set(different.map((value) => statement('test', value).toString())).size).toBe(different.length);
  });

  it.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a symbol', Symbol('x')],
    ['a function inside', { a: () => 1 }],
    ['undefined in a list', [undefined]],
    ['NaN', { a: Number.NaN }],
    ['an infinite number', { a: Number.POSITIVE_INFINITY }],
    ['a date', { a: new Date(0) }],
    ['a map', { a: new Map([['b', 1]]) }],
    ['a list with a hole', new Array(1)],
    ['a large integer', { a: 1n }],
    ['an object of a class', { a: new (class Some {})() }],
  ])('of %s, which is no JSON, is refused with an error of the catalogue', (_, value) => {
    expect(codeOf(() => statement('test', value))).toBe('INVALID_ENVELOPE');
  });

  it('is signed for its own purpose, value and key only', () => {
    fc.assert(
      fc.property(arbJson(), (value) => {
        const signature = STRANGER.sign('test', value);
        expect(isSignedBy(STRANGER.key, 'test', value, signature)).toBe(true);
        expect(isSignedBy(STRANGER.key, 'test ', value, signature)).toBe(false);
        expect(isSignedBy(STRANGER.key, 'test', [value], signature)).toBe(false);
        expect(isSignedBy(ROOT.key, 'test', value, signature)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });
});
