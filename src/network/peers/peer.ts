import { EclipticError, type Outcome, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Link, LinkListener } from '../links/link.js';
import { type Announcement, isAnnouncedBy } from '../membership/announcements.js';
import type { Chain, Grant } from '../membership/certificate.js';
import { IncomingStream, OutgoingStream } from './reliable-stream.js';
import { decodeFrame, encodeFrame, FRAME, type Frame, type Hello, type Item, malformed, readData } from './wire.js';

/**
 * `connecting`: known, never met. `suspected`: linked, but silent. `away`: no link; items in flight are kept. `lost`:
 * away for too long. `incompatible`: speaks another version.
 */
export type PeerStatus = 'connecting' | 'connected' | 'suspected' | 'away' | 'lost' | 'incompatible';

export interface PeerLimits {
  /** Silence of the peer after which it is suspected. */
  suspectMs: number;
  /** Silence of this node after which it sends a ping. */
  heartbeatMs: number;
  /** How long items are kept for a peer that is away or suspected. */
  graceMs: number;
  /** How long the first acknowledgement may take; each further wait is twice as long. */
  acknowledgeMs: number;
  /** How often items are sent again before a peer that acknowledges nothing is dropped. */
  retries: number;
  queueItems: number;
  queueChars: number;
}

/** The session ids of both sides of a conversation; `knows` is the other side's. */
export interface SessionIds {
  readonly session: string;
  readonly knows: string | null;
}

interface PeerComponents {
  runtime: Runtime;
  ownKey: string;
  limits: PeerLimits;
  /** Takes an item. An error refuses it; `INVALID_FRAME` and `INVALID_ENVELOPE` are violations. */
  take: (peer: Peer, item: Item) => void;
  onStatus: (peer: Peer, status: PeerStatus) => void;
  /** The conversation is over, and everything that was open in it. */
  onEnd: (peer: Peer) => void;
  onFarewell: (peer: Peer) => void;
  /** The peer sent what no honest peer sends, or never acknowledges. */
  onViolation: (peer: Peer, error: EclipticError) => void;
}

/** Links beside the one in use that may wait for the other side to close them. */
const MAX_OLDER_LINKS = 3;
const MAX_INSTANCES = 8;
/** Links of a crashed process that may still be greeted after its successor's, and how late their frames may come. */
const MAX_LATE_LINKS = 2;
const LATE_MS = 5_000;

const FAREWELLS: ReadonlyMap<unknown, string> = new Map([
  ['stopping', 'it was stopped'],
  ['leaving', 'it left the mesh'],
  ['removed', 'it says that this node was removed from the mesh'],
  ['expired', 'it says that this node’s certificate has expired'],
]);

/**
 * Another node, and the conversation with its process. The conversation outlives links: unacknowledged items are sent
 * again over the next one, and each is taken once. It ends when either process ends, or when the node was away for too
 * long.
 */
export class Peer {
  readonly node: string;
  readonly #components: PeerComponents;
  readonly #links = new Set<Link>();
  name = '';
  software = '';
  chain: Chain | undefined;
  grant: Grant | undefined;
  addresses: readonly string[] = [];
  announcement: Announcement | undefined;
  /** The processes with its key that were met, the latest last. */
  readonly #instances: { readonly id: string; readonly returns: number }[] = [];
  /** When a process came back after another had taken its place: two run with one key. */
  doubledAt: number | undefined;
  protocol = 1;
  /** Did a member say that this is one? */
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
  #lastProgress = 0;
  #retries = 0;

  constructor(components: PeerComponents, node: string) {
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
    return this.#theirs !== undefined;
  }

  /** Takes an admitted link and returns its listener. Calls `onFresh` if a new conversation begins. */
  attach(link: Link, hello: Hello, onFresh: () => void): LinkListener {
    const { runtime, ownKey } = this.#components;
    // Resume only if both session ids match; both sides come to the same conclusion.
    const fresh = this.#theirs !== hello.session || hello.knows !== this.#session;
    if (fresh && this.#theirs !== undefined) this.#forget('the other node has restarted');
    // The called side has not sent its session id yet, and takes a new one.
    if (fresh && !link.initiator) this.#session = runtime.id();
    this.#theirs = hello.session;
    this.software = hello.software;
    this.addresses = hello.addresses;
    this.protocol = hello.protocol.max;
    const cameBack = hello.instance !== undefined && this.#noteInstance(hello.instance);
    const attachedAt = runtime.stopwatch();
    const { addresses, announced } = hello;
    const announcement = announced && { addresses, ...announced };
    this.announcement = announcement && isAnnouncedBy(this.node, announcement) ? announcement : undefined;
    this.clockSkewMs = hello.time - runtime.now();
    // One link a pair. The node with the smaller key decides which; the other side keeps both until then.
    const older = [...this.#links];
    this.#links.add(link);
    this.#use(link);
    const surplus = fresh || ownKey < this.node ? older : older.slice(0, -MAX_OLDER_LINKS);
    for (const other of surplus) other.close();
    this.#lastHeard = runtime.stopwatch();
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
        this.#lastHeard = runtime.stopwatch();
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
        if (tampered) this.#components.onViolation(this, new EclipticError('INVALID_FRAME', reason));
        if (link !== this.#link) return;
        this.#link = undefined;
        const [other] = this.#links;
        if (other) this.#use(other);
        else if (this.#status === 'connected' || this.#status === 'suspected') this.#become('away', reason);
      },
    };
  }

  /**
   * A process that comes back after another took its place had not ended: two run with one key. Links that a crashed process
   * was opening may still be greeted afterwards, so this counts once it cannot be one of those. True if it came back.
   */
  #noteInstance(id: string): boolean {
    const known = this.#instances;
    const latest = known.at(-1);
    if (latest?.id === id) return latest.returns > 0;
    const at = known.findIndex((one) => one.id === id);
    const returns = at < 0 ? 0 : known.splice(at, 1)[0]!.returns + 1;
    known.push({ id, returns });
    if (known.length > MAX_INSTANCES) known.shift();
    if (returns > MAX_LATE_LINKS) this.doubledAt ??= this.#components.runtime.now();
    return returns > 0;
  }

  /** Queues an item; throws `QUEUE_FULL`. One of the two callbacks is called when its outcome is known. */
  send(text: string, resolve?: () => void, reject?: (error: EclipticError) => void): number {
    const number = this.#out.push(text, resolve, reject);
    this.#flushSoon();
    return number;
  }

  /** Puts another item in the place of the one with that number, unless the peer has taken it. */
  replace(number: number, text: string): Outcome {
    return this.#out.replace(number, text);
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
  drop(status: 'away' | 'lost' | 'incompatible', reason: string): void {
    if (this.conversing) this.#forget(reason);
    this.#theirs = undefined;
    this.#session = this.#components.runtime.id();
    const links = [...this.#links];
    this.#links.clear();
    this.#link = undefined;
    for (const link of links) link.close();
    this.#become(status, reason);
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
      case FRAME.bye:
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
    if (now - this.#lastProgress < acknowledgeMs * 2 ** this.#retries) return;
    if (this.#retries++ < retries) {
      this.#lastProgress = now;
      this.#out.rewind();
      this.#flush();
      return;
    }
    // An unreliable link may have lost the acknowledgements, so try another one.
    if (this.#link?.reliable === false) {
      this.#retries = 0;
      this.#link.close();
      return;
    }
    this.#violation(new EclipticError('DELIVERY_FAILED', `nothing was acknowledged after ${retries} retries`));
  }

  #use(link: Link): void {
    this.#link = link;
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
    const { queueItems: items, queueChars: chars } = this.#components.limits;
    return new OutgoingStream({ items, chars });
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
      const { first, texts } = this.#out.take();
      const { received, refusals } = this.#in;
      const refused = refusals.length === 0 ? '[]' : JSON.stringify(refusals);
      this.#acknowledgeDue = false;
      this.#write(
        Buffer.from(`["${FRAME.data}",${first},${this.#out.base},${received},${refused},[${texts.join(',')}]]`),
      );
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
