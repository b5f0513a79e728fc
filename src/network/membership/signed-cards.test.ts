import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbAgentCard, arbJson } from '../../../test/generators.js';
import type { AgentCard, AgentTier } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Grant } from './certificate.js';
import { Identity } from './identity.js';
import { announceCard, CardReader, checkSignedCard, permits, signCard, signCards } from './signed-cards.js';

const RUNS = { numRuns: 150 };
const FULL: Grant = { tiers: [0, 1, 2, 3], invite: true };
const NODE = Identity.fromSeed(Buffer.alloc(32, 1));
const OTHER = Identity.fromSeed(Buffer.alloc(32, 2));

function card(fields: Partial<AgentCard> = {}): AgentCard {
  const schema = { type: 'object', properties: { deep: { enum: [1, null, true, 'x'] } } };
  return {
    id: 'mars',
    name: 'MARS',
    version: '1.0.0',
    description: 'writes code',
    tier: 2,
    protocols: ['a2a/1.0'],
    endpoints: [{ transport: 'websocket', address: 'ws://mars.example' }],
    capabilities: [{ id: 'codegen.react', name: 'React', description: '', inputSchema: schema, outputSchema: null }],
    revision: 3,
    sandboxId: 'red',
    origin: 'local',
    lastSeenAt: 1_577_836_800_000,
    ...fields,
  };
}

/** What arrives of a value at the other end of a link. */
function sent<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Why a card is refused; an error of another kind, or none, fails the test. */
function reasonOf(value: unknown, node = NODE.key, grant = FULL): string {
  try {
    checkSignedCard(value, node, grant);
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    expect(error.code).toBe('CARD_REFUSED');
    expect(error.details.node).toBe(node);
    return String(error.details.reason);
  }
  throw new Error('nothing was refused');
}

/** A card as its node would sign it if it did not care what is in it. */
function signedAnyway(said: unknown, identity = NODE): unknown {
  return [said, identity.sign('card', said)];
}

/** What `signCard` makes a node say, with some of it changed before it is signed. */
function saying(changes: Record<string, unknown>): unknown {
  return signedAnyway(sent({ ...card(), origin: 'remote', node: NODE.key, ...changes }));
}

type Path = readonly (string | number)[];

/** Every place in a JSON value, but for its root. */
function placesIn(value: unknown, above: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [];
  const keys: (string | number)[] = Array.isArray(value) ? [...value.keys()] : Object.keys(value);
  return keys.flatMap((key) => {
    const here = [...above, key];
    return [here, ...placesIn((value as Record<string | number, unknown>)[key], here)];
  });
}

function other(value: unknown): unknown {
  if (typeof value === 'string') return `${value}x`;
  if (typeof value === 'number') return value === 7 ? 8 : 7;
  if (typeof value === 'boolean') return !value;
  if (value === null) return 0;
  return Array.isArray(value) ? [...value, 'x'] : { ...value, 'one member more': 1 };
}

const MUTATIONS = {
  changed: (value: unknown) => other(value),
  removed: () => undefined,
  'made nothing': (value: unknown) => (value === null ? false : null),
  wrapped: (value: unknown) => [value],
  'made a text': (value: unknown) => (typeof value === 'string' ? [value] : JSON.stringify(value)),
} satisfies Record<string, (value: unknown) => unknown>;

/** The same with one place of it changed. */
function mutated(value: unknown, path: Path, mutation: (value: unknown) => unknown): unknown {
  const copy = sent(value) as Record<string | number, unknown>;
  let holder = copy;
  for (const key of path.slice(0, -1)) holder = holder[key] as Record<string | number, unknown>;
  const last = path.at(-1)!;
  const changed = mutation(holder[last]);
  if (changed !== undefined) holder[last] = changed;
  else if (Array.isArray(holder)) holder.splice(last as number, 1);
  else delete holder[last];
  return copy;
}

describe('a signed card', () => {
  it('is taken as its node said it', () => {
    fc.assert(
      fc.property(arbAgentCard(), (local) => {
        const taken = checkSignedCard(sent(signCard(NODE, local)), NODE.key, FULL);
        expect(taken).toEqual({ ...local, origin: 'remote', node: NODE.key });
      }),
      RUNS,
    );
  });

  it('is taken whatever order its members come in', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    const backwards = Object.fromEntries(Object.entries(said).reverse());
    expect(checkSignedCard([backwards, signature], NODE.key, FULL).id).toBe('mars');
  });

  it('is taken, and cannot be changed afterwards', () => {
    const taken = checkSignedCard(sent(signCard(NODE, card())), NODE.key, FULL);
    expect(Object.isFrozen(taken)).toBe(true);
    expect(Object.isFrozen(taken.capabilities[0])).toBe(true);
  });

  it('always names the node that signed it, whatever the card said before', () => {
    const foreign = { ...card(), origin: 'remote', node: OTHER.key } as AgentCard;
    const taken = checkSignedCard(sent(signCard(NODE, foreign)), NODE.key, FULL);
    expect(taken).toMatchObject({ origin: 'remote', node: NODE.key });
  });

  it('is refused after any change of any of its fields', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    const held: string[] = [];
    const places = placesIn(said);
    for (const path of places) {
      for (const [name, mutation] of Object.entries(MUTATIONS)) {
        try {
          checkSignedCard([mutated(said, path, mutation), signature], NODE.key, FULL);
          held.push(`${path.join('.')} ${name}`);
        } catch (error) {
          expect((error as EclipticError).code).toBe('CARD_REFUSED');
        }
      }
    }
    expect(held).toEqual([]);
    expect(places.length).toBeGreaterThan(30);
  });

  it('is refused after any change of any field of any card', () => {
    fc.assert(
      fc.property(arbAgentCard(), fc.nat(), fc.constantFrom(...Object.values(MUTATIONS)), (local, place, mutation) => {
        const [said, signature] = sent(signCard(NODE, local));
        const places = placesIn(said);
        const changed = mutated(said, places[place % places.length]!, mutation);
        reasonOf([changed, signature]);
      }),
      RUNS,
    );
  });

  it('is refused with a member more than was signed', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    expect(reasonOf([{ ...said, extra: 1 }, signature])).toMatch(/signature/);
    const { sandboxId: _, ...unboxed } = card();
    const [free, freeSignature] = sent(signCard(NODE, unboxed));
    expect(reasonOf([{ ...free, sandboxId: 'red' }, freeSignature])).toMatch(/signature/);
  });

  it('is refused without its signature, or with one that is no text', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    for (const value of [
      [said, undefined],
      [said, null],
      [said, ''],
      [said, 7],
      [said, [signature]],
      [said, { signature }],
      [said, signature.slice(0, 43)],
      [said, signature.repeat(2)],
      [said, Buffer.from(signature, 'base64url').toString('hex')],
    ]) {
      expect(reasonOf(value)).toMatch(/signature is missing or wrong/);
    }
  });

  it('is refused with a bit of its signature turned over', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    for (let bit = 0; bit < 512; bit += 7) {
      const bytes = Buffer.from(signature, 'base64url');
      bytes[bit >> 3] = bytes[bit >> 3]! ^ (1 << (bit & 7));
      expect(reasonOf([said, bytes.toString('base64url')])).toMatch(/signature/);
    }
  });

  it('is refused with its signature spelled in another way', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    const standard = Buffer.from(signature, 'base64url').toString('base64');
    for (const spelling of [`${signature}==`, ` ${signature}`, `${signature}\n`, `${signature}!`, standard]) {
      expect(reasonOf([said, spelling])).toMatch(/signature is missing or wrong/);
    }
  });

  it('is refused if it is more or less than a card and its signature', () => {
    const [said, signature] = sent(signCard(NODE, card()));
    for (const value of [
      [said],
      [said, signature, 'more'],
      [],
      said,
      signature,
      { 0: said, 1: signature, length: 2 },
    ]) {
      expect(reasonOf(value)).toMatch(/not a valid agent card/);
    }
  });

  it('is refused with the signature of another card, of another purpose or of another node', () => {
    const [said] = sent(signCard(NODE, card()));
    const [, another] = sent(signCard(NODE, card({ revision: 4 })));
    const purposes = ['certificate', 'removal', 'link proof', 'card ', 'Card', ''];
    const signatures = [another, OTHER.sign('card', said), ...purposes.map((purpose) => NODE.sign(purpose, said))];
    for (const signature of signatures) expect(reasonOf([said, signature])).toMatch(/signature/);
  });

  it('is refused for an address of another node, whichever node signed it', () => {
    const others = sent(signCard(OTHER, card()));
    expect(reasonOf(others)).toContain(OTHER.key);
    expect(reasonOf(signedAnyway(others[0]))).toContain(OTHER.key);
    expect(reasonOf(saying({ node: NODE.key.toUpperCase() }))).toMatch(/address of node/);
  });

  it('is refused if it says that it is local, or names no node', () => {
    expect(reasonOf(saying({ origin: 'local' }))).toMatch(/node/);
    expect(reasonOf(saying({ origin: 'local', node: undefined }))).toMatch(/address of node/);
    expect(reasonOf(saying({ node: undefined }))).toMatch(/node/);
    expect(reasonOf(signedAnyway(sent(card())))).toMatch(/address of node/);
  });

  it('is taken up to the last revision that a process can reach, and refused beyond', () => {
    expect(checkSignedCard(saying({ revision: 1_000_000_000 }), NODE.key, FULL).revision).toBe(1_000_000_000);
    expect(reasonOf(saying({ revision: 1_000_000_001 }))).toMatch(/changed 1000000001 times/);
    expect(reasonOf(saying({ revision: Number.MAX_SAFE_INTEGER }))).toMatch(/changed/);
    for (const revision of [-1, 0.5, 1e300, '3', null]) reasonOf(saying({ revision }));
  });

  it('is refused with an id that is no agent’s own', () => {
    for (const id of ['', '*', 'a.b', 'mars@elsewhere', `mars@${OTHER.key}`, ' mars', 'x'.repeat(65), '__proto__']) {
      reasonOf(saying({ id }));
    }
  });

  it('is taken exactly if the grant permits it', () => {
    const arbGrant = fc.record(
      {
        tiers: fc.subarray<AgentTier>([0, 1, 2, 3], { minLength: 1 }),
        sandboxes: fc.subarray(['red', 'blue', 'green'], { minLength: 1 }),
        invite: fc.boolean(),
      },
      { requiredKeys: ['tiers', 'invite'] },
    );
    const arbTier = fc.constantFrom<AgentTier>(0, 1, 2, 3);
    const arbSandbox = fc.constantFrom('red', 'blue', 'black', 'Red', 'red ', 'red,blue', undefined);
    fc.assert(
      fc.property(arbGrant, arbTier, arbSandbox, (grant, tier, sandboxId) => {
        const local = card({ tier, sandboxId });
        const lawful =
          grant.tiers.includes(tier) && (!grant.sandboxes || grant.sandboxes.some((granted) => granted === sandboxId));
        expect(permits(grant, local)).toBe(lawful);
        const value = sent(signCard(NODE, local));
        if (lawful)
          expect(checkSignedCard(value, NODE.key, grant)).toMatchObject(sandboxId ? { tier, sandboxId } : { tier });
        else {
          const where = sandboxId === undefined ? 'outside any sandbox' : `in sandbox "${sandboxId}"`;
          expect(reasonOf(value, NODE.key, grant)).toBe(`the node may not have an agent of tier ${tier} ${where}`);
        }
      }),
      RUNS,
    );
  });

  it('is refused as garbage, with no other error', () => {
    const everything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withSparseArray: true,
      withNullPrototype: true,
      withObjectString: true,
    });
    fc.assert(
      fc.property(everything, everything, (value, signature) => {
        reasonOf(value);
        reasonOf([value, signature]);
        reasonOf([{ ...card(), origin: 'remote', node: NODE.key, extra: value }, signature]);
      }),
      RUNS,
    );
  });

  it('is refused if its own node signed something that is no card, with no other error', () => {
    fc.assert(
      fc.property(arbJson(), (value) => {
        reasonOf(signedAnyway(value));
      }),
      RUNS,
    );
  });

  it('is refused if its own node signed a card with a field of another kind, with no other error', () => {
    const fields = ['id', 'name', 'version', 'tier', 'protocols', 'endpoints', 'capabilities', 'revision', 'origin'];
    const arbNoCardField = arbJson().filter((value) => typeof value !== 'string' && typeof value !== 'number');
    fc.assert(
      fc.property(fc.constantFrom(...fields), arbNoCardField, (field, value) => {
        if (Array.isArray(value) && value.length === 0) return;
        if (Array.isArray(value) && field === 'protocols' && value.every((entry) => typeof entry === 'string')) return;
        reasonOf(saying({ [field]: value }));
      }),
      RUNS,
    );
  });

  it('is refused if it is too deep, too large or refers to itself, with no other error', () => {
    const deep = (levels: number): unknown => {
      let value: unknown = 1;
      for (let level = 0; level < levels; level++) value = [value];
      return value;
    };
    const said = { ...card(), origin: 'remote', node: NODE.key };
    const capability = { id: 'x', name: 'x', description: '', inputSchema: null, outputSchema: null };
    const circular: Record<string, unknown> = { ...said };
    circular.self = circular;
    const [, signature] = signCard(NODE, card());
    for (const value of [
      { ...said, extra: deep(100_000) },
      { ...said, capabilities: [{ ...capability, inputSchema: deep(65) }] },
      { ...said, capabilities: [{ ...capability, inputSchema: 'x'.repeat(65_537) }] },
      { ...said, capabilities: new Array(257).fill(capability) },
      { ...said, protocols: new Array(257).fill('x') },
      { ...said, description: 'x'.repeat(4_097) },
      circular,
    ]) {
      reasonOf([value, signature]);
    }
  });
});

/** The cards of a list as they arrive, and their signature. */
function list(cards: readonly AgentCard[], identity = NODE): { cards: object[]; signature: string } {
  const announced = cards.map((each) => announceCard(identity, each));
  const digests = announced.map(({ digest }) => digest);
  return { cards: announced.map(({ text }) => JSON.parse(text)), signature: signCards(identity, digests) };
}

/** The cards that a reader takes from a list; a refused one is missing. */
function taken(reader: CardReader, cards: readonly unknown[], signature: unknown): AgentCard[] {
  const cardAt = reader.readList(cards, signature);
  return cards.flatMap((_, index) => {
    try {
      return [cardAt(index)];
    } catch (error) {
      expect(error).toMatchObject({ code: 'CARD_REFUSED' });
      return [];
    }
  });
}

describe('a list of cards with one signature [NT.5]', () => {
  const three = [card(), card({ id: 'venus' }), card({ id: 'earth', tier: 3 })];

  it('is taken as its node said it', () => {
    fc.assert(
      fc.property(fc.array(arbAgentCard(), { maxLength: 5 }), (local) => {
        const { cards, signature } = list(local);
        const expected = local.map((each) => ({ ...each, origin: 'remote', node: NODE.key }));
        expect(taken(new CardReader(NODE.key), cards, signature)).toEqual(expected);
      }),
      RUNS,
    );
  });

  it('is taken whatever order the members of a card come in', () => {
    const { cards, signature } = list(three);
    const backwards = cards.map((each) => Object.fromEntries(Object.entries(each).reverse()));
    expect(taken(new CardReader(NODE.key), backwards, signature)).toHaveLength(3);
  });

  it.each<[string, (cards: object[]) => unknown[]]>([
    ['one card is changed', ([first, ...rest]) => [{ ...first, tier: 0 }, ...rest]],
    ['a card is missing', (cards) => cards.slice(1)],
    ['a card is added', (cards) => [...cards, { ...cards[0], id: 'mole' }]],
    ['a card is there twice', (cards) => [...cards, cards[0]]],
    ['two cards have changed places', ([first, second, third]) => [second, first, third]],
    ['something cannot be signed', (cards) => [...cards, JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)]],
  ])('is refused as a whole when %s', (_, change) => {
    const { cards, signature } = list(three);
    expect(taken(new CardReader(NODE.key), change(cards), signature)).toEqual([]);
  });

  it.each<[string, (signature: string) => unknown]>([
    ['missing', () => null],
    ['no text', () => 7],
    ['another node’s', () => list(three, OTHER).signature],
    ['that of one card', () => signCard(NODE, three[0]!)[1]],
    ['spelled in another way', (signature) => `${signature}=`],
  ])('is refused when its signature is %s', (_, change) => {
    const { cards, signature } = list(three);
    expect(taken(new CardReader(NODE.key), cards, change(signature))).toEqual([]);
  });

  it('does not prove a single card with its signature', () => {
    const { cards, signature } = list([card()]);
    expect(reasonOf([cards[0], signature])).toMatch(/signature/);
  });
});

describe('the reader of a node’s cards [NT.4]', () => {
  it('recognises a card that it has checked, with whatever signature it comes again', () => {
    const reader = new CardReader(NODE.key);
    const first = reader.readSigned(sent(signCard(NODE, card())));
    expect(reader.readSigned(sent(signCard(NODE, card())))).toBe(first);
    const { cards, signature } = list([card({ id: 'venus' }), card()]);
    expect(taken(reader, cards, signature)[1]).toBe(first);
  });

  it('checks a card of the same agent that differs', () => {
    const reader = new CardReader(NODE.key);
    const [said, signature] = sent(signCard(NODE, card()));
    reader.readSigned([said, signature]);
    expect(() => reader.readSigned([{ ...said, tier: 0 }, signature])).toThrow(/signature is missing or wrong/);
    const changed = reader.readSigned(sent(signCard(NODE, card({ tier: 0 }))));
    expect(changed.tier).toBe(0);
  });

  it('does not remember a card that it refused', () => {
    const reader = new CardReader(NODE.key);
    const [said] = sent(signCard(NODE, card()));
    for (let attempt = 0; attempt < 2; attempt++)
      expect(() => reader.readSigned([said, 'forged'])).toThrow(/signature/);
  });

  it('remembers a limited number of cards and of characters', () => {
    const many = new CardReader(NODE.key);
    const read = (reader: CardReader, each: AgentCard) => reader.readSigned(sent(signCard(NODE, each)));
    const first = read(many, card());
    for (let index = 0; index < 999; index++) read(many, card({ id: `agent-${index}` }));
    expect(read(many, card())).toBe(first);
    for (let index = 0; index < 1_000; index++) read(many, card({ id: `other-${index}` }));
    expect(read(many, card())).not.toBe(first);
    const long = new CardReader(NODE.key);
    const short = read(long, card());
    const description = 'x'.repeat(4_000);
    for (let index = 0; index < 300; index++) read(long, card({ id: `agent-${index}`, description }));
    expect(read(long, card())).not.toBe(short);
  });
});
