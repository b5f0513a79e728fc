import type { z } from 'zod';
import { EclipticError, type Outcome, toEclipticError } from '../../runtime/errors.js';
import type { Link, LinkListener } from '../links/link.js';
import { type Announcement, isAnnouncedBy } from '../membership/announcements.js';
import type { Chain, Grant } from '../membership/certificate.js';
import { ReadingMeter } from './fair-reading.js';
import {
  FAREWELLS,
  IDLE,
  LATE_MS,
  MAX_OLDER_LINKS,
  type PeerComponents,
  type PeerStatus,
  repeatFarewell,
  type SessionIds,
  UNRELIABLE_ACKNOWLEDGE_MS,
} from './peer-state.js';
import { ProcessHistory } from './process-history.js';
import { IncomingStream, type ItemOutcome, OutgoingStream } from './reliable-stream.js';
import {
  decodeFrame,
  encodeData,
  encodeFrame,
  FRAME,
  type Frame,
  type Hello,
  ITEM,
  type Item,
  malformed,
  parsed,
  RestedSchema,
  readData,
} from './wire.js';

/**
 * Another node, and the conversation with its process. The conversation outlives links: unacknowledged items are sent
 * again over the next one, and each is taken once. It ends when either process ends, or when the node was away for too
 * long.
 */
export class Peer {
  readonly node: string;
  readonly #components: PeerComponents<Peer>;
  readonly #links = new Set<Link>();
  name = '';
  software = '';
  chain: Chain | undefined;
  grant: Grant | undefined;
  addresses: readonly string[] = [];
  announcement: Announcement | undefined;
  readonly #processes = new ProcessHistory();
  readonly #meter = new ReadingMeter();
  /** When a process came back after another had taken its place: two run with one key. */
  doubledAt: number | undefined;
  protocol = 1;
  vouchedFor = false;
  reason = '';
  since: number;
  roundTripMs: number | undefined;
  clockSkewMs: number | undefined;
  #status: PeerStatus = 'connecting';
  #session: string;
  #theirs: string | undefined;
  #out: OutgoingStream;
  #in = new IncomingStream();
  #link: Link | undefined;
  #writable = false;
  #acknowledgeDue = false;
  #flushDue = false;
  #lastHeard = 0;
  #lastSent = 0;
  #lastItem = 0;
  #lastProgress = 0;
  #retries = 0;
  /** The farewell with which this side ended the conversation: its ids are kept until the next, because it may get lost. */
  #farewell: Uint8Array | undefined;

  constructor(components: PeerComponents<Peer>, node: string) {
    this.#components = components;
    this.node = node;
    this.since = components.runtime.now();
    this.#session = components.runtime.id();
    this.#out = this.#newStream();
  }

  get status(): PeerStatus {
    return this.#status;
  }

  get lastHeard(): number {
    return this.#lastHeard;
  }

  get linkKind(): Link['kind'] | undefined {
    return this.#link?.kind;
  }

  get linked(): boolean {
    return this.#links.size > 0;
  }

  get sessionIds(): SessionIds {
    return { session: this.#session, knows: this.#theirs ?? null };
  }

  /** Is there a conversation, even if it is interrupted? */
  get conversing(): boolean {
    return this.#theirs !== undefined && !this.#farewell;
  }

  /** Takes an admitted link and returns its listener. Calls `onFresh` if a new conversation begins. */
  attach(link: Link, hello: Hello, onFresh: () => void): LinkListener {
    const { runtime, ownKey, reading } = this.#components;
    // Resume only if both session ids match; both sides come to the same conclusion.
    const fresh = this.#theirs !== hello.session || hello.knows !== this.#session;
    if (!fresh && this.#farewell) return repeatFarewell(link, this.#farewell, () => this.#farewell);
    if (fresh && this.conversing) this.#forget('the other node has restarted');
    this.#farewell = undefined;
    // The called side has not sent its session id yet, and takes a new one.
    if (fresh && !link.initiator) this.#session = runtime.id();
    this.#theirs = hello.session;
    this.software = hello.software;
    this.addresses = hello.addresses;
    this.protocol = hello.protocol.max;
    const { cameBack = false, isCertain = false } =
      hello.instance === undefined ? {} : this.#processes.note(hello.instance);
    if (isCertain) this.doubledAt ??= runtime.now();
    const attachedAt = runtime.stopwatch();
    const announcement = hello.announced && { addresses: hello.addresses, ...hello.announced };
    this.announcement = announcement && isAnnouncedBy(this.node, announcement) ? announcement : undefined;
    this.clockSkewMs = hello.time - runtime.now();
    // One link a pair. The node with the smaller key decides which; the other side keeps both until then.
    const older = [...this.#links];
    this.#links.add(link);
    this.#use(link);
    const surplus = fresh || ownKey < this.node ? older : older.slice(0, -MAX_OLDER_LINKS);
    for (const other of surplus) other.close();
    this.#lastHeard = runtime.stopwatch();
    this.#lastItem = this.#lastHeard;
    // Protocols send their first items before agents learn that the node is connected.
    if (fresh) onFresh();
    if (this.#links.has(link)) this.#become('connected', '');
    this.#flushSoon();
    // Items below this were declared settled over this link: sending one again is no honest retry.
    let base = 0;
    const { session } = hello;
    const own = this.#session;
    return {
      onFrame: (bytes) => {
        // Late frames of a conversation that is over do not count in the next one.
        if (this.#theirs !== session || this.#session !== own) return;
        this.#lastHeard = reading.heard(this.#meter, bytes.byteLength);
        if (cameBack && this.#lastHeard - attachedAt > LATE_MS) this.doubledAt ??= runtime.now();
        if (this.#status === 'suspected') this.#become('connected', '');
        try {
          base = this.#take(link, decodeFrame(bytes), base);
        } catch (error) {
          this.#violation(toEclipticError(error, 'INVALID_FRAME'));
        }
      },
      onDrain: () => {
        if (link !== this.#link) return;
        this.#writable = true;
        this.#flush();
      },
      onClose: (reason, tampered) => {
        this.#links.delete(link);
        reading.remove(this.#meter, link);
        if (tampered) this.#components.onViolation(this, new EclipticError('INVALID_FRAME', reason));
        if (link !== this.#link) return;
        this.#link = undefined;
        const [other] = this.#links;
        if (other) this.#use(other);
        else if (this.#status === 'connected' || this.#status === 'suspected') this.#become('away', reason);
      },
    };
  }

  /** Since when has nothing but heartbeats passed, with nothing left to send? Undefined without a link. */
  get idleSince(): number | undefined {
    return this.#link && this.#out.settled && this.#status === 'connected' ? this.#lastItem : undefined;
  }

  /** Does an item wait for a link? */
  get waiting(): boolean {
    return !this.linked && !this.#out.settled;
  }

  /** The node is present, and a conversation with it begins when something is sent. */
  list(): void {
    if (!this.linked && !this.conversing) this.#become('idle', '');
  }

  /** Asks the other side to end the conversation, in which there is nothing more to say for now. */
  askToRest(): void {
    this.#lastItem = this.#components.runtime.stopwatch();
    this.#sendFrame([FRAME.rest]);
  }

  /** The other side has nothing to say. Only the node with the larger key ends the conversation: not both at once. */
  #rest(): void {
    const { isBusy, ownKey } = this.#components;
    if (this.#status !== 'connected' || !this.#out.settled || isBusy(this)) return;
    if (ownKey < this.node) this.#sendFrame([FRAME.rest]);
    else this.#endAtRest();
  }

  #endAtRest(): void {
    const farewell = encodeFrame([FRAME.bye, IDLE, this.#in.received, this.#in.refusals]);
    const { session, knows } = this.sessionIds;
    this.#write(farewell);
    this.drop('idle', '');
    this.#session = session;
    this.#theirs = knows!;
    this.#farewell = farewell;
  }

  /** The other side agreed to end the conversation. Items that it did not take any more begin the next one. */
  #rested([received, refusals]: z.infer<typeof RestedSchema>): void {
    this.#out.acknowledge(received, refusals);
    const rest = this.#out.release();
    this.drop('idle', '');
    for (const { text, outcome } of rest) {
      // An item without an outcome is part of the conversation that is over; the next one begins with all that counts.
      if (outcome) this.#components.onReturned(this, text, outcome);
    }
  }

  /** Queues an item and returns its number; throws `QUEUE_FULL`. */
  send(text: string, outcome?: ItemOutcome): number {
    const number = this.#out.push(text, outcome);
    this.#lastItem = this.#components.runtime.stopwatch();
    this.#flushSoon();
    return number;
  }

  /** Queues an item that is no reason to keep the conversation going. */
  sendAside(text: string): void {
    this.#out.push(text);
    this.#flushSoon();
  }

  /** Puts another item in the place of the one with that number, unless the peer has taken it. */
  replace(number: number, text: string, outcome: ItemOutcome): Outcome {
    return this.#out.replace(number, text, outcome);
  }

  /** Checks for silence, missing acknowledgements and the end of the grace time. */
  tick(now: number): void {
    const { suspectMs, heartbeatMs, graceMs } = this.#components.limits;
    const silence = now - this.#lastHeard;
    if (this.#status === 'connected' && silence > suspectMs) this.#become('suspected', 'it is silent');
    if ((this.#status === 'away' || this.#status === 'suspected') && silence > graceMs) {
      this.drop('lost', 'it was away for too long');
      return;
    }
    if (!this.#link) return;
    if (now - this.#lastSent > heartbeatMs) this.#sendFrame([FRAME.ping, now]);
    if (this.#status === 'connected') this.#checkProgress(now);
  }

  /** This process was suspended for a while, so the peer's silence says nothing. */
  excuse(now: number): void {
    this.#lastHeard = now;
    this.#lastProgress = now;
  }

  /** Ends the conversation: items in flight fail, and the next link begins a new one. */
  drop(status: 'away' | 'idle' | 'lost' | 'incompatible', reason: string): void {
    if (this.conversing) this.#forget(reason);
    this.#farewell = undefined;
    this.#theirs = undefined;
    this.#session = this.#components.runtime.id();
    const links = [...this.#links];
    this.#links.clear();
    this.#link = undefined;
    for (const link of links) link.close();
    this.#become(status, reason);
  }

  /** Gives up the links; the conversation goes on over the next one. */
  closeLinks(): void {
    for (const link of [...this.#links]) link.close();
  }

  leave(reason: 'stopping' | 'leaving' | 'removed' | 'expired', why = 'this node ended the link'): void {
    if (this.#link) this.#sendFrame([FRAME.bye, reason]);
    this.drop('away', why);
  }

  #take(link: Link, frame: Frame, base: number): number {
    switch (frame[0]) {
      case FRAME.data:
        return this.#takeData(link, frame, base);
      case FRAME.ping:
        if (typeof frame[1] !== 'number') throw malformed('a ping has no time');
        if (this.#writable) this.#sendFrame([FRAME.pong, frame[1]]);
        return base;
      case FRAME.pong:
        if (typeof frame[1] !== 'number') throw malformed('a pong has no time');
        this.roundTripMs = Math.max(0, this.#components.runtime.stopwatch() - frame[1]);
        return base;
      case FRAME.rest:
        this.#rest();
        return base;
      case FRAME.bye:
        if (frame[1] === IDLE) {
          this.#rested(parsed(RestedSchema, frame.slice(2)));
          return base;
        }
        if (frame[1] === 'stopping' || frame[1] === 'leaving') this.#components.onStopping(this);
        this.drop('away', FAREWELLS.get(frame[1]) ?? 'it said farewell');
        if (frame[1] === 'leaving') this.#components.onFarewell(this);
        return base;
      default:
        // An unreliable link may repeat the greeting.
        if (link.reliable) throw malformed(`there is no frame "${frame[0].slice(0, 20)}"`);
        return base;
    }
  }

  #takeData(link: Link, frame: Frame, settled: number): number {
    const { first, base, received, refusals, items } = readData(frame);
    if (this.#out.acknowledge(received, refusals)) {
      this.#lastProgress = this.#components.runtime.stopwatch();
      this.#retries = 0;
      if (this.#out.ready) this.#flushSoon();
    }
    if (items.length === 0) return settled;
    if (items.some(([kind]) => kind !== ITEM.directory)) this.#lastItem = this.#components.runtime.stopwatch();
    if (link.reliable && first < settled) throw malformed('it repeats a settled item');
    this.#acknowledgeLater();
    const known = this.#in.known(first);
    if (known === undefined) {
      if (link.reliable) throw malformed('items before it are missing');
      return settled;
    }
    this.#in.forget(base);
    for (let index = known; index < items.length; index++) this.#takeItem(items[index]!);
    return Math.max(settled, base);
  }

  #takeItem(item: Item): void {
    const seq = this.#in.advance();
    try {
      this.#components.take(this, item);
    } catch (thrown) {
      const error = toEclipticError(thrown, 'HANDLER_FAILED');
      if (error.code === 'INVALID_FRAME' || error.code === 'INVALID_ENVELOPE') throw error;
      this.#in.refuse(seq, error);
    }
  }

  #violation(error: EclipticError): void {
    this.#components.onViolation(this, error);
    this.drop('away', 'it broke the rules of the protocol');
  }

  #checkProgress(now: number): void {
    const { acknowledgeMs, retries } = this.#components.limits;
    if (this.#out.settled) {
      this.#lastProgress = now;
      return;
    }
    const unreliable = this.#link?.reliable === false;
    const first = unreliable ? Math.min(UNRELIABLE_ACKNOWLEDGE_MS, acknowledgeMs) : acknowledgeMs;
    if (now - this.#lastProgress < first * 2 ** this.#retries) return;
    if (this.#retries++ < retries) {
      this.#lastProgress = now;
      this.#out.rewind();
      this.#flush();
      return;
    }
    // An unreliable link may have lost the acknowledgements, so try another one.
    if (unreliable) {
      this.#retries = 0;
      this.#link?.close();
      return;
    }
    this.#violation(new EclipticError('DELIVERY_FAILED', `nothing was acknowledged after ${retries} retries`));
  }

  #use(link: Link): void {
    this.#link = link;
    this.#components.reading.add(this.#meter, link);
    this.#writable = true;
    this.#lastProgress = this.#components.runtime.stopwatch();
    this.#out.rewind();
    this.#flushSoon();
  }

  #forget(reason: string): void {
    const abandoned = this.#out;
    this.#out = this.#newStream();
    this.#in = new IncomingStream();
    this.#acknowledgeDue = false;
    this.#retries = 0;
    abandoned.fail(reason);
    this.#components.onEnd(this);
  }

  #newStream(): OutgoingStream {
    const { queueItems: items, queueChars: bytes } = this.#components.limits;
    return new OutgoingStream({ items, bytes });
  }

  #become(status: PeerStatus, reason: string): void {
    this.reason = reason;
    if (this.#status === status) return;
    this.#status = status;
    this.since = this.#components.runtime.now();
    this.#components.onStatus(this, status);
  }

  /** Puts all items of one turn into one frame. */
  #flushSoon(): void {
    if (this.#flushDue) return;
    this.#flushDue = true;
    queueMicrotask(() => {
      this.#flushDue = false;
      this.#flush();
    });
  }

  /** Waits one turn for an item that can carry the acknowledgement. */
  #acknowledgeLater(): void {
    if (this.#acknowledgeDue) return;
    this.#acknowledgeDue = true;
    this.#components.runtime.defer(() => {
      if (this.#acknowledgeDue) this.#flush();
    });
  }

  #flush(): void {
    while (this.#link && this.#writable && (this.#acknowledgeDue || this.#out.ready)) {
      const { first, runs } = this.#out.take();
      const { received, refusals } = this.#in;
      this.#acknowledgeDue = false;
      this.#write(encodeData(first, this.#out.base, received, refusals, runs));
    }
  }

  #sendFrame(frame: Frame): void {
    this.#write(encodeFrame(frame));
  }

  #write(bytes: Uint8Array): void {
    this.#lastSent = this.#components.runtime.stopwatch();
    if (this.#link && !this.#link.send(bytes)) this.#writable = false;
  }
}
