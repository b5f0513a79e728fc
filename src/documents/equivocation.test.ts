import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../test/evidence.js';
import { Identity } from '../network/membership/identity.js';
import type { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import { type Proof, proofAgainst, quarantinePoint } from './equivocation.js';
import { LiveDocument } from './live-document.js';
import { Replica } from './replica.js';
import { mergeSegments, type Segment } from './segment.js';
import { SegmentRecords } from './segment-records.js';
import type { SyncMessage } from './sync-message.js';
import { stateSegments } from './tables.js';

const THREAD = 'state:open:plan';

interface Place {
  readonly name: string;
  readonly identity: Identity;
  readonly address: string;
  readonly store: MemoryStore;
  readonly faults: [error: EclipticError, source: string][];
  document: LiveDocument;
}

/** Honest durable replicas, links that deliver in any order, and a member whose messages a test makes itself. */
class Mesh {
  readonly runtime: SimulatedRuntime;
  readonly places: Place[] = [];
  readonly rogue: Identity;
  readonly rogueAddress: string;

  constructor(seed: number, count: number) {
    this.runtime = new SimulatedRuntime({ seed });
    this.rogue = Identity.create(this.runtime);
    this.rogueAddress = `rogue@${this.rogue.key}`;
    for (let index = 0; index < count; index++) {
      const identity = Identity.create(this.runtime);
      const name = `agent-${index}`;
      const place = { name, identity, address: `${name}@${identity.key}`, store: new MemoryStore(), faults: [] };
      this.places.push({ ...place, document: this.#open(place) });
    }
    for (const place of this.places) this.#meet(place);
  }

  /** Ends a replica, and starts it again with the contents of its disk. */
  async restart(place: Place): Promise<void> {
    for (const other of this.places) other.document.part(place.address);
    await place.document.close();
    place.document = this.#open(place);
    this.#meet(place);
    for (const other of this.places) if (other !== place) other.document.join(place.address);
  }

  /** Sends a replica segments of the rogue author, as they come over the wire. */
  feed(place: Place, ...segments: Segment[]): void {
    for (const segment of segments) segment.sign(THREAD, this.rogue);
    const payload = { kind: 'update', segments: segments.map((segment) => segment.wire()) };
    const vectorClock = { [segments[0]!.stream]: segments.at(-1)!.number };
    const message = { sourceAgentId: this.rogueAddress, vectorClock, payload, timestamp: 0 };
    place.document.take(this.rogueAddress, JSON.parse(JSON.stringify(message)));
  }

  #meet(place: Place): void {
    for (const other of this.places) if (other !== place) place.document.join(other.address);
    place.document.join(this.rogueAddress);
  }

  #open(place: Omit<Place, 'document'>): LiveDocument {
    const { runtime } = this;
    return new LiveDocument(
      {
        runtime,
        agentId: place.name,
        records: new SegmentRecords(place.store),
        link: {
          self: place.address,
          isLocal: () => false,
          mayRead: () => true,
          mayWrite: () => true,
          sign: (segment) => {
            if (segment.author === place.address) segment.sign(THREAD, place.identity);
          },
          post: (to, message) => this.#post(place.address, to, message),
        },
        assertMayWrite: () => {},
        onBad: (error, source) => place.faults.push([error, source]),
        onClose: () => {},
        callbackFailed: () => {},
      },
      'plan',
      THREAD,
      runtime.id().toLowerCase(),
    );
  }

  #post(from: string, to: string, message: SyncMessage) {
    const text = JSON.stringify(message);
    this.runtime.setTimer(
      () => this.places.find(({ address }) => address === to)?.document.take(from, JSON.parse(text)),
      1 + Math.floor(this.runtime.random() * 80),
    );
    return { delivered: true, path: 'remote', targetAgentId: to, latencyMs: 0 } as const;
  }
}

/** An author that tells two stories under one stream. */
class TwoFaced {
  readonly faces: readonly [Replica, Replica];
  readonly stories: readonly [Segment[], Segment[]] = [[], []];

  constructor(stream: string) {
    this.faces = [new Replica(THREAD, stream), new Replica(THREAD, stream)];
  }

  write(one: string, other: string): void {
    for (const [index, value] of [one, other].entries()) {
      const face = this.faces[index]!;
      face.doc.getArray('l:list').push([value]);
      const segment = face.take()!;
      face.commit(segment);
      this.stories[index]!.push(segment);
    }
  }
}

function equivocations({ faults }: Place): EclipticError[] {
  return faults.map(([error]) => error).filter(({ details }) => details.equivocation === true);
}

async function expectAlike(mesh: Mesh): Promise<void> {
  await mesh.runtime.advance(120_000);
  const [first, ...others] = mesh.places.map(({ document }) => document);
  for (const other of others) {
    expect(other.toJSON()).toEqual(first!.toJSON());
    expect(other.quarantined).toEqual(first!.quarantined);
    expect(other.vector).toEqual(first!.vector);
  }
}

describe('an author that signs two segments under one number', () => {
  const arbSteps = fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant('write' as const), who: fc.nat(2) }),
      fc.record({ kind: fc.constant('rogue' as const), differs: fc.boolean() }),
      fc.record({ kind: fc.constant('feed' as const), who: fc.nat(2), face: fc.nat(1) }),
      fc.record({ kind: fc.constant('restart' as const), who: fc.nat(2) }),
      fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(200) }),
    ),
    { minLength: 5, maxLength: 30 },
  );

  it('is quarantined at the same number by every replica, which all have the same content [T-F13]', {
    timeout: 600_000,
  }, async () => {
    let proven = 0;
    await fc.assert(
      fc.asyncProperty(fc.nat(), arbSteps, async (seed, steps) => {
        const mesh = new Mesh(seed, 3);
        await mesh.runtime.advance(200);
        const rogue = new TwoFaced(`${mesh.rogueAddress}/1`);
        let fork: number | undefined;
        const fed = [new Set<number>(), new Set<number>()];
        for (const [index, step] of steps.entries()) {
          if (step.kind === 'pass') await mesh.runtime.advance(step.ms);
          else if (step.kind === 'write') mesh.places[step.who]!.document.list('list').push(`honest ${index}`);
          else if (step.kind === 'restart') {
            const done = mesh.restart(mesh.places[step.who]!);
            await mesh.runtime.advance(5);
            await done;
          } else if (step.kind === 'rogue') {
            rogue.write(`rogue ${index}`, step.differs ? `other ${index}` : `rogue ${index}`);
            if (step.differs) fork ??= rogue.stories[0].length;
          } else if (rogue.stories[step.face]!.length > 0) {
            mesh.feed(mesh.places[step.who]!, ...rogue.stories[step.face]!);
            fed[step.face]!.add(rogue.stories[step.face]!.length);
          }
        }
        await expectAlike(mesh);
        const points = mesh.places[0]!.document.quarantined;
        for (const place of mesh.places) expect(equivocations(place).length > 0).toBe(Object.keys(points).length > 0);
        if (Object.keys(points).length > 0) {
          proven++;
          expect(points[`${mesh.rogueAddress}/1`]).toBeGreaterThanOrEqual(fork!);
          expect(Object.keys(points)).toEqual([`${mesh.rogueAddress}/1`]);
        }
        // Every replica can go on, also one whose own changes built on the refused ones.
        for (const { document, name } of mesh.places) document.list('list').push(`last of ${name}`);
        await expectAlike(mesh);
        const list = mesh.places[0]!.document.list('list').toJSON();
        for (const { name } of mesh.places) expect(list).toContain(`last of ${name}`);
      }),
      { numRuns: tries(process.env.ECLIPTIC_SOAK ? 500 : 50, 'random histories') },
    );
    // About a quarter of the histories prove it; none would mean that the histories are useless.
    expect(proven).toBeGreaterThan(0);
  });

  it('is refused after a restart too, and its segments are gone from disk [T-F13]', async () => {
    const mesh = new Mesh(1, 2);
    await mesh.runtime.advance(200);
    const [one, other] = mesh.places as [Place, Place];
    const rogue = new TwoFaced(`${mesh.rogueAddress}/1`);
    rogue.write('same', 'same');
    rogue.write('black', 'white');
    mesh.feed(one, ...rogue.stories[0]);
    mesh.feed(other, ...rogue.stories[1]);
    await expectAlike(mesh);
    expect(one.document.toJSON()).toEqual({ list: ['same'] });
    expect(one.document.quarantined).toEqual({ [`${mesh.rogueAddress}/1`]: 2 });
    expect(one.faults[0]![0].code).toBe('CRDT_DESERIALIZATION_FAILED');
    expect([other.address, mesh.rogueAddress]).toContain(one.faults[0]![1]);
    const restarted = mesh.restart(one);
    await mesh.runtime.advance(5);
    await restarted;
    await one.document.ready;
    for (const face of [0, 1] as const) mesh.feed(one, ...rogue.stories[face]);
    await expectAlike(mesh);
    expect(one.document.toJSON()).toEqual({ list: ['same'] });
    const rows = await one.store.read(stateSegments);
    expect(rows.map(({ number }) => number).sort()).toEqual([0, 1]);
  });

  it('takes nothing with it that others wrote without having seen it [T-F13]', async () => {
    const mesh = new Mesh(2, 2);
    await mesh.runtime.advance(200);
    const [one, other] = mesh.places as [Place, Place];
    one.document.list('list').push('before');
    await mesh.runtime.advance(200);
    const rogue = new TwoFaced(`${mesh.rogueAddress}/1`);
    rogue.write('black', 'white');
    mesh.feed(one, ...rogue.stories[0]);
    other.document.list('list').push('unseen');
    await mesh.runtime.advance(0);
    one.document.list('list').push('built on it');
    mesh.feed(other, ...rogue.stories[1]);
    await expectAlike(mesh);
    expect(one.document.list('list').toJSON().sort()).toEqual(['before', 'unseen']);
  });
});

describe('merged segments', () => {
  const stream = (mesh: Mesh) => `${mesh.rogueAddress}/1`;

  it('of an honest author never contradict its single ones, nor merges of merges [T-F13]', async () => {
    const arbOps = fc.array(fc.tuple(fc.nat(3), fc.nat(9), fc.string({ maxLength: 4 })), {
      minLength: 8,
      maxLength: 24,
    });
    fc.assert(
      fc.property(arbOps, fc.nat(), (ops, cut) => {
        const author = new Replica(THREAD, 'ada@node/1');
        const run: Segment[] = [];
        for (const [kind, at, text] of ops) {
          const list = author.doc.getArray('l:list');
          const words = author.doc.getText('t:text');
          author.doc.transact(() => {
            if (kind === 0) author.doc.getMap('m:map').set(`key ${at % 3}`, text);
            else if (kind === 1) list.insert(at % (list.length + 1), [text, at]);
            else if (kind === 2) words.insert(at % (words.length + 1), `${text}.`);
            else {
              words.insert(0, 'gone at once');
              words.delete(0, 12);
              if (list.length > 0) list.delete(at % list.length);
            }
          });
          const segment = author.take()!;
          author.commit(segment);
          run.push(segment);
        }
        const middle = 1 + (cut % (run.length - 1));
        const parts = [run.slice(0, middle), run.slice(middle)].map((part) =>
          part.length > 1 ? mergeSegments(part) : part[0]!,
        );
        expect(mergeSegments(parts).claim().digest).toBe(mergeSegments(run).claim().digest);
        expect(proofAgainst(author.stream, mergeSegments(parts).claim(), run)).toBeUndefined();
      }),
      { numRuns: tries(100, 'random histories') },
    );
  });

  it('that are not the merge of the single ones prove that their author equivocates [T-F13]', async () => {
    const mesh = new Mesh(3, 2);
    await mesh.runtime.advance(200);
    const [one, other] = mesh.places as [Place, Place];
    const rogue = new TwoFaced(stream(mesh));
    for (let i = 0; i < 4; i++) rogue.write(`black ${i}`, `white ${i}`);
    mesh.feed(one, ...rogue.stories[0]);
    mesh.feed(other, mergeSegments(rogue.stories[1]));
    await expectAlike(mesh);
    expect(one.document.quarantined).toEqual({ [stream(mesh)]: 1 });
    expect(one.document.toJSON()).toEqual({});
  });

  it('of a replica make another merge its single ones alike [T-F13]', async () => {
    const mesh = new Mesh(4, 2);
    await mesh.runtime.advance(200);
    const [one, other] = mesh.places as [Place, Place];
    const rogue = new TwoFaced(stream(mesh));
    for (let i = 0; i < 4; i++) rogue.write(`same ${i}`, `same ${i}`);
    mesh.feed(one, ...rogue.stories[0]);
    mesh.feed(other, mergeSegments(rogue.stories[1]));
    await expectAlike(mesh);
    expect(one.document.quarantined).toEqual({});
    expect(one.document.segments).toHaveLength(1);
    expect(one.document.list('list').length).toBe(4);
  });
});

describe('a proof of equivocation', () => {
  const runtime = new SimulatedRuntime();
  const author = Identity.create(runtime);
  const rogue = new TwoFaced(`ada@${author.key}/1`);
  rogue.write('same', 'same');
  rogue.write('black', 'white');
  for (const segment of rogue.stories.flat()) segment.sign(THREAD, author);
  const [[first, black], [, white]] = rogue.stories as unknown as [[Segment, Segment], [Segment, Segment]];
  const proof: Proof = { stream: first.stream, claim: black.claim(), against: [white.claim()], updates: [] };

  it('holds for two segments that one node signed under one number, and for nothing less [T-F13]', () => {
    expect(quarantinePoint(THREAD, proof)).toBe(2);
    expect(quarantinePoint('state:open:other', proof)).toBeUndefined();
    expect(quarantinePoint(THREAD, { ...proof, against: [black.claim()] })).toBeUndefined();
    expect(quarantinePoint(THREAD, { ...proof, against: [first.claim()] })).toBeUndefined();
    expect(quarantinePoint(THREAD, { ...proof, stream: `bob@${author.key}/1` })).toBeUndefined();
    const forged = { ...white.claim(), digest: 'f'.repeat(64) };
    expect(quarantinePoint(THREAD, { ...proof, against: [forged] })).toBeUndefined();
    const one = mergeSegments(rogue.stories[0]);
    one.sign(THREAD, author);
    const run = { claim: one.claim(), against: [first.claim(), black.claim()] };
    const updates = [first, black].map(({ update }) => Buffer.from(update).toString('base64'));
    expect(quarantinePoint(THREAD, { ...proof, ...run, updates })).toBeUndefined();
    const untrue = { ...run, against: [first.claim(), white.claim()] };
    updates[1] = Buffer.from(white.update).toString('base64');
    expect(quarantinePoint(THREAD, { ...proof, ...untrue, updates })).toBe(1);
  });

  it('that does not hold changes nothing, and is reported with its source [T-F13]', async () => {
    const mesh = new Mesh(5, 2);
    await mesh.runtime.advance(200);
    const [one, other] = mesh.places as [Place, Place];
    one.document.list('list').push('honest');
    await mesh.runtime.advance(200);
    const forged: Proof = { ...proof, against: [{ ...white.claim(), signature: 'none' }] };
    for (let i = 0; i < 3; i++) {
      const payload = { kind: 'equivocation', proof: forged };
      other.document.take(mesh.rogueAddress, { sourceAgentId: 'rogue', vectorClock: {}, payload, timestamp: 0 });
    }
    expect(other.faults.map(([{ code }, source]) => [code, source])).toEqual([
      ['CRDT_DESERIALIZATION_FAILED', mesh.rogueAddress],
    ]);
    await expectAlike(mesh);
    expect(other.document.toJSON()).toEqual({ list: ['honest'] });
    expect(other.document.quarantined).toEqual({});
  });
});
