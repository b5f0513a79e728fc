import * as Y from 'yjs';
import { LiveDocument } from '../../src/documents/live-document.js';
import { clientOf, Segment, type SegmentWire } from '../../src/documents/segment.js';
import { SegmentRecords } from '../../src/documents/segment-records.js';
import type { SyncLink } from '../../src/documents/sync.js';
import type { SyncMessage } from '../../src/documents/sync-message.js';
import { stateSegments } from '../../src/documents/tables.js';
import type { RoutingResult } from '../../src/mesh/schemas.js';
import { Identity } from '../../src/network/membership/identity.js';
import { canonicalJson } from '../../src/network/membership/statement.js';
import type { EclipticError } from '../../src/runtime/errors.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';

export const THREAD = 'state:open:plan';

/** One agent of one node: its lives come and go, its key and its disk stay. */
interface Place {
  readonly name: string;
  readonly identity: Identity;
  readonly address: string;
  store: MemoryStore;
  document: LiveDocument | undefined;
  /** Counts its starts and crashes. */
  life: number;
  /** Tokens that this process inserted; they may or may not survive a crash. */
  tokens: Set<string>;
  reports: { code: string; source: string; reason: string }[];
}

/** Five replicas of one document, one member that lies, and a network that does everything wrong. */
export class HostileReplicas {
  readonly runtime: SimulatedRuntime;
  readonly places: Place[] = [];
  readonly mallory: { identity: Identity; address: string };
  /** Which pairs cannot reach each other. */
  readonly cuts = new Set<string>();
  faulty = true;
  /** Tokens that must be in the list at the end, and deleted ones. */
  readonly surviving = new Set<string>();
  readonly deleted = new Set<string>();
  readonly counts = { lost: 0, duplicated: 0, corrupted: 0, forged: 0, crashes: 0, rollbacks: 0, reports: 0 };
  readonly unreported: string[] = [];
  #token = 0;
  #session = 0;

  constructor(seed: number, count = 5) {
    this.runtime = new SimulatedRuntime({ seed });
    const keyOf = () => Identity.create(this.runtime);
    for (let index = 0; index < count; index++) {
      const identity = keyOf();
      const address = `agent-${index}@${identity.key}`;
      const place: Place = {
        name: `agent-${index}`,
        identity,
        address,
        store: new MemoryStore(),
        document: undefined,
        life: 0,
        tokens: new Set(),
        reports: [],
      };
      this.places.push(place);
    }
    const identity = keyOf();
    this.mallory = { identity, address: `mallory@${identity.key}` };
  }

  get live(): (Place & { document: LiveDocument })[] {
    return this.places.filter((place): place is Place & { document: LiveDocument } => place.document !== undefined);
  }

  random(below: number): number {
    return Math.floor(this.runtime.random() * below);
  }

  pick<T>(from: readonly T[]): T {
    return from[this.random(from.length)]!;
  }

  async start(place: Place): Promise<void> {
    const { runtime } = this;
    const records = new SegmentRecords(place.store);
    place.life++;
    place.document = new LiveDocument(
      {
        runtime,
        agentId: place.name,
        records,
        link: this.#linkOf(place),
        assertMayWrite: () => {},
        onBad: (error, source) => this.#report(place, error, source),
        onClose: () => {},
        callbackFailed: () => {},
      },
      'plan',
      THREAD,
      `s${this.#session++}`,
    );
    for (const other of this.live) {
      if (other === place) continue;
      place.document.join(other.address);
      other.document.part(place.address);
      other.document.join(place.address);
    }
    place.document.join(this.mallory.address);
    await this.runtime.advance(1);
  }

  /** The process is killed and loses all data that is not on disk; the disk may be set back, too. */
  async crash(place: Place): Promise<void> {
    this.counts.crashes++;
    const document = place.document!;
    place.document = undefined;
    place.life++;
    for (const other of this.live) other.document.part(place.address);
    if (this.runtime.random() < 0.4) {
      this.counts.rollbacks++;
      const rows = await place.store.read(stateSegments);
      place.store = new MemoryStore();
      const kept = rows.slice(0, this.random(rows.length + 1));
      await place.store.write(kept.map((row) => stateSegments.put(row)));
    } else {
      // Pending writes of the old process do not reach the disk any more.
      const rows = await place.store.read(stateSegments);
      place.store = new MemoryStore();
      await place.store.write(rows.map((row) => stateSegments.put(row)));
    }
    place.tokens.clear();
    void document.close();
  }

  /** Makes a random change. */
  operate(place: Place & { document: LiveDocument }): void {
    const { document } = place;
    const token = `token-${this.#token++}`;
    const list = document.list('list');
    const text = document.text('text');
    const map = document.map('map');
    switch (this.random(7)) {
      case 0:
      case 1:
        list.insert(this.random(list.length + 1), token);
        place.tokens.add(token);
        break;
      case 2:
        map.set(`key-${this.random(6)}`, { token, nested: [this.random(9), null] });
        break;
      case 3:
        map.delete(`key-${this.random(6)}`);
        break;
      case 4:
        text.insert(this.random(text.length + 1), `${token};`);
        break;
      case 5:
        if (text.length > 0) {
          const index = this.random(text.length);
          text.delete(index, 1 + this.random(Math.min(12, text.length - index)));
        }
        break;
      default:
        if (list.length > 0) {
          const index = this.random(list.length);
          this.deleted.add(list.get(index) as string);
          list.delete(index);
        }
    }
  }

  /** Sends messages under its own name, signed or not, that no honest member sends. */
  forge(): void {
    const victim = this.pick(this.live);
    const other = this.pick(this.live);
    // As another process would send it: objects made in this process are trusted.
    const wire = JSON.parse(JSON.stringify(this.#forgery(other))) as SegmentWire;
    this.counts.forged++;
    const vectorClock = { [wire.stream]: wire.number };
    this.#deliver(this.mallory.address, victim, message(this.mallory.address, vectorClock, [wire]), wire);
  }

  /** Lets everything arrive, until all are alike; throws if they do not become so. */
  async settle(): Promise<void> {
    this.faulty = false;
    this.cuts.clear();
    for (let passed = 0; passed < 600_000; passed += 500) {
      await this.runtime.advance(500);
      if (passed >= 2_000 && this.#alike()) return;
    }
    throw new Error(
      `they did not become alike (seed ${this.runtime.seed}): ${JSON.stringify(this.live.map(({ document }) => document.vector))}`,
    );
  }

  /** The violations at the end. */
  violations(): string[] {
    const [first, ...others] = this.live;
    const found = [...this.unreported];
    const content = canonicalJson(first!.document.toJSON());
    for (const { name, document } of others) {
      if (canonicalJson(document.toJSON()) !== content) found.push(`${name} has other content`);
      if (!sameStates(document.doc, first!.document.doc)) found.push(`${name} has another state vector`);
      if (!sameDeletions(document.doc, first!.document.doc)) found.push(`${name} has other delete sets`);
    }
    const list = new Set(first!.document.list('list').toJSON());
    for (const { tokens } of this.live) for (const token of tokens) this.surviving.add(token);
    for (const token of this.surviving) {
      if (!list.has(token) && !this.deleted.has(token)) found.push(`${token} is lost`);
    }
    return found;
  }

  #alike(): boolean {
    const [first, ...others] = this.live.map(({ document }) => document);
    const vector = JSON.stringify(Object.entries(first!.vector).sort());
    const waiting = this.live.some(({ document }) => !document.reached([]));
    return !waiting && others.every((other) => JSON.stringify(Object.entries(other.vector).sort()) === vector);
  }

  #linkOf(place: Place): SyncLink {
    const { life } = place;
    return {
      self: place.address,
      isLocal: () => false,
      mayRead: () => true,
      mayWrite: () => true,
      sign: (segment) => {
        if (segment.author === place.address) segment.sign(THREAD, place.identity);
      },
      post: (to, said) => this.#post(place, life, to, said),
    };
  }

  #post(from: Place, life: number, to: string, said: SyncMessage): Promise<RoutingResult> {
    return new Promise((resolve) => {
      const result = (delivered: boolean) => {
        resolve({ delivered, path: 'remote', targetAgentId: to, latencyMs: 0 });
      };
      const target = this.places.find(({ address }) => address === to);
      if (!target) return result(true);
      // Its process was killed; what still runs of it reaches nobody.
      if (life !== from.life) return result(false);
      if (this.cuts.has([from.name, target.name].sort().join())) return result(false);
      const { faulty } = this;
      // Sometimes the loss is not reported to any replica.
      if (faulty && this.runtime.random() < 0.1) {
        this.counts.lost++;
        return result(this.runtime.random() < 0.5);
      }
      const copies = faulty && this.runtime.random() < 0.1 ? 2 : 1;
      this.counts.duplicated += copies - 1;
      for (let copy = 0; copy < copies; copy++) {
        // As another process would get it, and after a later message.
        const text = JSON.parse(JSON.stringify(said)) as SyncMessage;
        const corrupted = faulty && copy === 0 && this.runtime.random() < 0.08 ? this.#corrupt(text) : undefined;
        this.runtime.setTimer(
          () => {
            if (target.document && life === from.life)
              this.#deliver(from.address, target as Place & { document: LiveDocument }, text, corrupted);
            result(true);
          },
          1 + this.random(faulty ? 80 : 5),
        );
      }
    });
  }

  /** Delivers a message. Invalid updates in it must be reported with their source, unless they were known before. */
  #deliver(from: string, place: Place & { document: LiveDocument }, said: SyncMessage, bad?: SegmentWire): void {
    const before = place.reports.length;
    place.document.take(from, said);
    if (!bad || (place.document.vector[bad.stream] ?? 0) >= bad.number) return;
    if (place.reports.slice(before).some(({ source }) => source === from)) return;
    this.unreported.push(`${place.name} did not report what ${from} sent: ${JSON.stringify(bad)}`);
  }

  #report(place: Place, error: EclipticError, source: string): void {
    this.counts.reports++;
    place.reports.push({ code: error.code, source, reason: error.message });
  }

  /** Changes something in a message that carries segments. */
  #corrupt(said: SyncMessage): SegmentWire | undefined {
    if (!('segments' in said.payload) || said.payload.segments.length === 0) return undefined;
    const wire = this.pick(said.payload.segments as SegmentWire[]) as {
      -readonly [Key in keyof SegmentWire]: SegmentWire[Key];
    };
    this.counts.corrupted++;
    const bytes = Buffer.from(wire.update, 'base64');
    switch (this.random(5)) {
      case 0:
        wire.number += 1;
        break;
      case 1:
        wire.signature = wire.signature.slice(1);
        break;
      case 2:
        wire.update = bytes.subarray(0, bytes.length - 1).toString('base64');
        break;
      case 3:
        wire.after = { ...wire.after, [`ghost@${this.mallory.identity.key}/1`]: 1 };
        break;
      default:
        bytes[this.random(bytes.length)]! ^= 1 << this.random(8);
        wire.update = bytes.toString('base64');
    }
    return wire;
  }

  /** A segment that is no good: of another author, or signed by its own and broken within. */
  #forgery({ address, document }: Place & { document: LiveDocument }): SegmentWire {
    const kind = this.random(9);
    const own = `${this.mallory.address}/f${this.#session++}`;
    const client = clientOf(THREAD, own);
    const victim = Object.keys(document.vector).find((stream) => stream.startsWith(address));
    const sign = (stream: string, update: Uint8Array, first = 1, number = first): SegmentWire => {
      const segment = new Segment({ stream, first, number, after: {}, update });
      segment.sign(THREAD, this.mallory.identity);
      return segment.wire();
    };
    switch (kind) {
      case 0:
        // Another's stream, signed by a key that is not its node's.
        return sign(
          victim ?? `${address}/x`,
          written(7, (doc) => doc.getMap('m:map').set('a', 1)),
          (document.vector[victim ?? ''] ?? 0) + 1,
        );
      case 1:
        // Its own stream, with changes under another's client.
        return sign(
          own,
          written(victim ? clientOf(THREAD, victim) : 5, (doc) => doc.getMap('m:map').set('a', 1)),
        );
      case 2:
        return sign(own, this.runtime.bytes(40));
      case 3:
        // Something before it is missing, so that Yjs would keep it waiting for ever.
        return sign(own, laterPart(client));
      case 4:
        return sign(
          own,
          written(client, (doc) => doc.getMap('m:map').set('a', new Y.Map())),
        );
      case 5:
        return sign(
          own,
          written(client, (doc) => doc.getXmlFragment('x').insert(0, [new Y.XmlText('a')])),
        );
      case 6:
        return sign(own, deletion(client, 1_000_000_000_000));
      case 7:
        return sign(own, hugeGap(client));
      default:
        return sign(
          own,
          written(client, (doc) => doc.getText('t:text').insertEmbed(0, { image: 'x' })),
        );
    }
  }
}

function message(from: string, vectorClock: Record<string, number>, segments: SegmentWire[]): SyncMessage {
  return { sourceAgentId: from, vectorClock, payload: { kind: 'update', segments }, timestamp: 0 };
}

function written(client: number, change: (doc: Y.Doc) => void): Uint8Array {
  const doc = new Y.Doc();
  doc.clientID = client;
  change(doc);
  return Y.encodeStateAsUpdate(doc);
}

function laterPart(client: number): Uint8Array {
  const doc = new Y.Doc();
  doc.clientID = client;
  doc.getText('t:text').insert(0, 'first');
  const vector = Y.encodeStateVector(doc);
  doc.getText('t:text').insert(2, 'second');
  return Y.encodeStateAsUpdate(doc, vector);
}

/** Deletes content that was never written. */
function deletion(client: number, clock: number): Uint8Array {
  const encoder = new Y.UpdateEncoderV1();
  encoder.writeLen(0);
  encoder.writeLen(1);
  encoder.writeClient(client);
  encoder.writeLen(1);
  encoder.writeDsClock(clock);
  encoder.writeDsLen(5);
  return encoder.toUint8Array();
}

/** Garbage whose length leaves no number for later updates. */
function hugeGap(client: number): Uint8Array {
  const encoder = new Y.UpdateEncoderV1();
  encoder.writeLen(1);
  encoder.writeLen(1);
  encoder.writeClient(client);
  encoder.writeLen(0);
  new Y.GC(Y.createID(client, 0), 2 ** 52).write(encoder, 0);
  encoder.writeLen(0);
  return encoder.toUint8Array();
}

function sameStates(a: Y.Doc, b: Y.Doc): boolean {
  const of = (doc: Y.Doc) =>
    JSON.stringify([...Y.decodeStateVector(Y.encodeStateVector(doc))].sort(([x], [y]) => x - y));
  return of(a) === of(b);
}

function sameDeletions(a: Y.Doc, b: Y.Doc): boolean {
  return Y.equalDeleteSets(Y.createDeleteSetFromStructStore(a.store), Y.createDeleteSetFromStructStore(b.store));
}
