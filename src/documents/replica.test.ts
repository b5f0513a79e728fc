import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as Y from 'yjs';
import { tries } from '../../test/evidence.js';
import { Identity } from '../network/membership/identity.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { Replica } from './replica.js';
import { clientOf, mergeSegments, Segment } from './segment.js';
import { contentOf } from './views.js';

const THREAD = 'state:open:plan';
const ROUNDS = process.env.ECLIPTIC_SOAK ? 3_000 : 200;

function replica(name: string, session = '1'): Replica {
  return new Replica(THREAD, `${name}@node/${session}`);
}

function map(of: Replica): Y.Map<unknown> {
  return of.doc.getMap('m:map');
}

/** Makes a change, and takes it as a segment that counts. */
function change(of: Replica, make: (doc: Y.Doc) => void): Segment {
  make(of.doc);
  const segment = of.take()!;
  of.commit(segment);
  return segment;
}

function states(of: Replica): unknown {
  return [...Y.decodeStateVector(Y.encodeStateVector(of.doc))].sort(([a], [b]) => a - b);
}

function sameDeletions(a: Replica, b: Replica): boolean {
  const of = ({ doc }: Replica) => Y.createDeleteSetFromStructStore(doc.store);
  return Y.equalDeleteSets(of(a), of(b));
}

describe('a segment from the wire', () => {
  it('keeps no more memory than its update needs [T-F15]', () => {
    const author = replica('ada');
    const wire = { ...change(author, () => map(author).set('k', 1)).wire() };
    const { update } = Segment.read(wire);
    expect(update.buffer.byteLength).toBe(update.length);
  });
});

describe('segments', () => {
  it('Feature: a2a-mcp-protocols, Property 28: CRDT concurrent update confluence [P28 R9.3]', () => {
    const arbOps = fc.array(fc.tuple(fc.nat(2), fc.nat(5), fc.nat(20), fc.string({ maxLength: 5 })), { maxLength: 30 });
    fc.assert(
      fc.property(arbOps, fc.infiniteStream(fc.nat()), (ops, dice) => {
        const authors = ['ada', 'bob', 'cyd'].map((name) => replica(name));
        const all: Segment[] = [];
        const draw = (below: number) => dice.next().value! % below;
        for (const [index, kind, at, text] of ops) {
          const author = authors[index]!;
          // Some of what the others wrote is known, some is not.
          for (const segment of all) if (draw(2) === 0) author.apply(segment);
          author.doc.transact(() => operate(author.doc, kind, at, text));
          const segment = author.take();
          if (!segment) continue;
          author.commit(segment);
          all.push(segment);
        }
        const readers = [...authors, replica('dee'), replica('eve')];
        for (const reader of readers) {
          const order = [...all, ...all].map((segment) => ({ segment, key: draw(1_000) }));
          order.sort((a, b) => a.key - b.key);
          for (const { segment } of order) reader.apply(segment);
        }
        const [first, ...others] = readers as [Replica, ...Replica[]];
        for (const other of others) {
          expect(contentOf(other.doc)).toEqual(contentOf(first.doc));
          expect(states(other)).toEqual(states(first));
          expect(other.vector).toEqual(first.vector);
          expect(sameDeletions(other, first)).toBe(true);
        }
      }),
      { numRuns: tries(100, 'random histories') },
    );
  });

  it('wait for segments they depend on; beyond the limit they are dropped, to be asked for again', () => {
    const author = replica('ada');
    const segments = Array.from({ length: 1_500 }, (_, i) => change(author, () => map(author).set('k', i)));
    const reader = replica('bob');
    for (const segment of segments.slice(1)) expect(reader.apply(segment)).toMatchObject({ applied: [], early: true });
    const { applied } = reader.apply(segments[0]!);
    expect(applied).toHaveLength(1_001);
    expect(reader.lacks(author.vector)).toBe(true);
    expect(map(reader).get('k')).toBe(1_000);
    for (const segment of author.missing(reader.vector, 1e9, 1e9).segments) reader.apply(segment);
    expect(map(reader).get('k')).toBe(1_499);
    expect(reader.vector).toEqual(author.vector);
  });

  it('of a replica that lost its latest ones in a crash never come to mean something else', () => {
    const before = replica('ada', 'first');
    const kept = change(before, () => map(before).set('kept', 1));
    const lost = change(before, () => map(before).set('lost', 1));
    const reader = replica('bob');
    for (const segment of [kept, lost]) reader.apply(segment);
    // It is opened again with its stored segments, under another session and so under another client.
    const after = replica('ada', 'second');
    expect(after.load([kept], () => expect.unreachable())).toEqual([]);
    const anew = change(after, () => map(after).set('anew', 2));
    reader.apply(anew);
    for (const segment of reader.missing(after.vector, 1e9, 1e9).segments) after.apply(segment);
    expect(contentOf(after.doc)).toEqual({ map: { kept: 1, lost: 1, anew: 2 } });
    expect(contentOf(reader.doc)).toEqual(contentOf(after.doc));
    expect(states(reader)).toEqual(states(after));
  });

  it('of one author, with no dependency between them, are merged: others merge theirs to the same, and latecomers get it', () => {
    const author = replica('ada');
    const reader = replica('bob');
    const behind = replica('cyd');
    for (let i = 0; i < 64; i++) {
      const segment = change(author, () => map(author).set(`key ${i % 10}`, i));
      reader.apply(segment);
      if (i < 20) behind.apply(segment);
    }
    const one = author.merge()!;
    expect([one.first, one.number, one.turns]).toEqual([1, 64, 64]);
    author.swap(one);
    expect(author.segments).toEqual([one]);
    const run = reader.replaceable(author.stream, 1, 64)!;
    expect(Buffer.from(mergeSegments(run).update).equals(Buffer.from(one.update))).toBe(true);
    reader.swap(mergeSegments(run));
    const latecomer = replica('dee');
    for (const other of [behind, latecomer]) {
      for (const segment of author.missing(other.vector, 1e9, 1e9).segments) other.apply(segment);
      expect(contentOf(other.doc)).toEqual(contentOf(author.doc));
      expect(other.vector).toEqual(author.vector);
      expect(sameDeletions(other, author)).toBe(true);
    }
    // What comes after builds on it, whether a replica has the one or the many.
    const next = change(author, () => map(author).delete('key 3'));
    for (const other of [reader, behind, latecomer]) {
      other.apply(next);
      expect(contentOf(other.doc)).toEqual(contentOf(author.doc));
    }
  });

  it('do not become one where another’s came between them', () => {
    const author = replica('ada');
    const other = replica('bob');
    for (let i = 0; i < 200; i++) {
      other.apply(change(author, () => map(author).set('a', i)));
      author.apply(change(other, () => map(other).set('b', i)));
    }
    expect(author.merge()).toBeUndefined();
  });
});

describe('a bad update', () => {
  const bad: Record<string, (client: number) => Uint8Array> = {
    'that is garbage': () => Buffer.from('this is no update'),
    'that is empty': () => Buffer.from([0, 0]),
    'of nothing at all': () => new Uint8Array(0),
    'of another client': (client) => written(client + 1, (doc) => doc.getMap('m:map').set('a', 1)),
    'of two clients': (client) => {
      const doc = documentOf(client);
      Y.applyUpdate(
        doc,
        written(client + 1, (other) => other.getMap('m:map').set('b', 1)),
      );
      doc.getMap('m:map').set('a', 1);
      return Y.encodeStateAsUpdate(doc);
    },
    'that leaves out what comes before': (client) => later(client),
    'with a type within': (client) => written(client, (doc) => doc.getMap('m:map').set('a', new Y.Map())),
    'with bytes in it': (client) => written(client, (doc) => doc.getMap('m:map').set('a', new Uint8Array(3))),
    'with a document within': (client) => written(client, (doc) => doc.getMap('m:map').set('a', new Y.Doc())),
    'with formatted text': (client) => written(client, (doc) => doc.getText('t:t').insert(0, 'a', { bold: true })),
    'with an embed': (client) => written(client, (doc) => doc.getText('t:t').insertEmbed(0, { image: 'x' })),
    'with a number that is none': (client) => written(client, (doc) => doc.getMap('m:map').set('a', Number.NaN)),
    'with a prototype in it': (client) =>
      written(client, (doc) => doc.getMap('m:map').set('a', JSON.parse('{"__proto__":{"a":1}}'))),
    'under a key that is none': (client) => written(client, (doc) => doc.getMap('m:map').set('__proto__', { a: 1 })),
    'nested without end': (client) => written(client, (doc) => doc.getArray('l:l').push([nested(2_000)])),
    'under a name that is none': (client) => written(client, (doc) => doc.getMap('x').set('a', 1)),
    'with a list’s item in a map': (client) => written(client, (doc) => doc.getArray('m:map').push([1])),
    'that deletes unwritten changes': (client) => deletion(client, 1e12),
    'that deletes what another wrote, unseen': () => deletion(clientOf(THREAD, 'bob@node/1'), 0),
    'whose numbers are too large': (client) => garbage(client, 2 ** 52),
    'whose clock begins in the distance': (client) => garbage(client, 1, 2 ** 50),
  };

  it.each(Object.entries(bad))(
    '%s is refused, and the document is unharmed and takes the genuine one [UT7]',
    (_, make) => {
      const reader = replica('cyd');
      reader.apply(change(replica('bob'), (doc) => doc.getText('t:t').insert(0, 'hello')));
      const before = contentOf(reader.doc);
      const stream = 'ada@node/1';
      const segment = new Segment({ stream, first: 1, number: 1, after: {}, update: make(clientOf(THREAD, stream)) });
      expect(() => reader.apply(segment)).toThrowError(
        expect.objectContaining({ code: 'CRDT_DESERIALIZATION_FAILED' }),
      );
      expect(contentOf(reader.doc)).toEqual(before);
      expect(reader.vector).toEqual({ 'bob@node/1': 1 });
      reader.apply(change(replica('ada'), (doc) => doc.getMap('m:map').set('genuine', true)));
      expect(contentOf(reader.doc)).toEqual({ ...before, map: { genuine: true } });
    },
  );

  it('that is damaged, even with a valid signature, never leaves an unusable document', { timeout: 600_000 }, () => {
    const runtime = new SimulatedRuntime({ seed: 7 });
    const author = replica('ada');
    const genuine: Segment[] = [];
    for (let i = 0; i < 12; i++) {
      genuine.push(
        change(author, (doc) => {
          doc.getMap('m:map').set(`key ${i % 3}`, { i });
          doc.getText('t:t').insert(0, `text ${i} `);
          doc.getArray('l:l').push([i, 'x']);
          if (i % 2) doc.getText('t:t').delete(2, 3);
        }),
      );
    }
    let refused = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const reader = replica('bob');
      const at = Math.floor(runtime.random() * genuine.length);
      for (const segment of genuine.slice(0, at)) reader.apply(segment);
      const own = change(reader, (doc) => doc.getArray('l:l').push([`own ${round}`]));
      const before = contentOf(reader.doc);
      const update = Uint8Array.from(genuine[at]!.update);
      for (let flips = 0; flips < 1 + (round % 3); flips++) {
        update[Math.floor(runtime.random() * update.length)]! ^= 1 << Math.floor(runtime.random() * 8);
      }
      const { stream, first, number, after } = genuine[at]!;
      try {
        reader.apply(new Segment({ stream, first, number, after, update }));
      } catch (error) {
        expect(error).toMatchObject({ code: 'CRDT_DESERIALIZATION_FAILED' });
        refused++;
        expect(contentOf(reader.doc)).toEqual(before);
        for (const segment of genuine.slice(at)) reader.apply(segment);
        const expected = replica('cyd');
        for (const segment of [...genuine, own]) expected.apply(segment);
        expect(contentOf(reader.doc)).toEqual(contentOf(expected.doc));
      }
      // Whether it was taken or not, another author's changes are.
      reader.apply(change(replica('dee'), (doc) => doc.getMap('m:other').set('a', round)));
      expect(reader.doc.getMap('m:other').get('a')).toBe(round);
    }
    expect(refused).toBeGreaterThan(ROUNDS / 2);
  });

  it('under another’s name is known by its signature', () => {
    const runtime = new SimulatedRuntime({ seed: 3 });
    const [ada, eve] = [Identity.create(runtime), Identity.create(runtime)];
    const author = new Replica(THREAD, `ada@${ada.key}/1`);
    const genuine = change(author, () => map(author).set('a', 1));
    genuine.sign(THREAD, ada);
    const wire = JSON.parse(JSON.stringify(genuine.wire()));
    expect(Segment.read(wire).isSigned(THREAD)).toBe(true);
    expect(Segment.read(wire).isSigned('state:open:other')).toBe(false);
    for (const changed of [
      { number: 2 },
      { after: { 'x@y/1': 1 } },
      { update: 'AAAA' },
      { stream: `ada@${eve.key}/1` },
    ]) {
      expect(Segment.read({ ...wire, ...changed }).isSigned(THREAD)).toBe(false);
    }
    const forged = new Segment({
      ...genuine,
      stream: genuine.stream,
      first: 1,
      number: 1,
      after: {},
      update: genuine.update,
    });
    forged.sign(THREAD, eve);
    expect(forged.isSigned(THREAD)).toBe(false);
  });
});

function operate(doc: Y.Doc, kind: number, at: number, text: string): void {
  const list = doc.getArray('l:list');
  const words = doc.getText('t:text');
  if (kind === 0) doc.getMap('m:map').set(`key ${at % 4}`, text);
  else if (kind === 1) doc.getMap('m:map').delete(`key ${at % 4}`);
  else if (kind === 2) list.insert(at % (list.length + 1), [text, at]);
  else if (kind === 3 && list.length > 0) list.delete(at % list.length);
  else if (kind === 4) words.insert(at % (words.length + 1), `${text}.`);
  else if (words.length > 0) words.delete(at % words.length, 1);
}

function documentOf(client: number): Y.Doc {
  const doc = new Y.Doc();
  doc.clientID = client;
  return doc;
}

function written(client: number, make: (doc: Y.Doc) => void): Uint8Array {
  const doc = documentOf(client);
  make(doc);
  return Y.encodeStateAsUpdate(doc);
}

function later(client: number): Uint8Array {
  const doc = documentOf(client);
  doc.getText('t:t').insert(0, 'first');
  const vector = Y.encodeStateVector(doc);
  doc.getText('t:t').insert(2, 'second');
  return Y.encodeStateAsUpdate(doc, vector);
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
}

function deletion(client: number, clock: number): Uint8Array {
  const encoder = new Y.UpdateEncoderV1();
  for (const value of [0, 1, client, 1, clock, 5]) encoder.writeLen(value);
  return encoder.toUint8Array();
}

function garbage(client: number, length: number, clock = 0): Uint8Array {
  const encoder = new Y.UpdateEncoderV1();
  for (const value of [1, 1, client, clock]) encoder.writeLen(value);
  new Y.GC(Y.createID(client, clock), length).write(encoder, 0);
  encoder.writeLen(0);
  return encoder.toUint8Array();
}
