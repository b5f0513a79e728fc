import { CatchUp } from '../../mail/catch-up.js';
import type { FetchedEnd, InboxCursor } from '../../mail/inbox-delivery.js';
import type { InboxMessage } from '../../mail/incoming-mail.js';
import type { Mail } from '../../mail/mail.js';
import { splitAddress } from '../../mesh/address.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { isFromPerson, type Letter, OWNER, readLetter } from './letter.js';

export interface MemberMailComponents {
  runtime: Runtime;
  mail: Mail;
  nodeKey: string;
  /** Why mail of this sender is held; undefined when it is delivered. */
  whyHeld: (sender: string) => string | undefined;
  /** Why a reply chain of this length is stopped; undefined while it is short enough. */
  whyTooFar: (hops: number) => string | undefined;
}

/** A message that is not closed yet. */
export interface OpenLetter {
  readonly held: InboxMessage;
  readonly letter: Letter;
  readonly from: string;
  readonly origin: 'agent' | 'human' | 'node';
  /** The call of this session whose answer shows it; 0 for a call over an earlier connection. */
  shownIn: number | undefined;
  /** Characters of a long message that answers of this session have shown. */
  shownTo: number;
  /** The call whose answer shows the latest part of a long message, and where the part begins. */
  partIn: { readonly call: number; readonly from: number } | undefined;
  announced: boolean;
  redelivered: boolean;
}

/** Messages in memory; further ones wait on disk. */
const MAX_OPEN = 1_000;

/**
 * The mailbox of one name; it outlives the processes that read it. A message that an answer showed counts as read when
 * a later call, or the end of the turn, proves that the client received that answer.
 */
export class MemberMail {
  readonly #components: MemberMailComponents;
  readonly #cursor: InboxCursor;
  readonly #name: string;
  readonly #open = new Map<string, OpenLetter>();
  readonly #arrivals = new Waiters();
  readonly #inbox: CatchUp<InboxMessage>;
  /** Called with each arriving message that may be shown. */
  onArrival: ((open: OpenLetter) => void) | undefined;
  /** Called with each message that the answer to a call shows. */
  onShown: ((open: OpenLetter) => void) | undefined;
  /** Called with each message that was read or closed. */
  onRead: ((open: OpenLetter) => void) | undefined;

  constructor(components: MemberMailComponents, name: string) {
    this.#components = components;
    this.#name = name;
    this.#cursor = components.mail.openInbox(name, (held) => this.#arrived(held));
    this.#inbox = new CatchUp({
      read: (above) => this.#cursor.page(above),
      take: (held) => this.#take(held),
      hasRoom: () => this.#open.size < MAX_OPEN,
      onFailure: this.#onReadFailed,
    });
  }

  async unread(limit: number): Promise<OpenLetter[]> {
    await this.#inbox.load();
    const now = this.#components.runtime.now();
    const found: OpenLetter[] = [];
    for (const open of this.#open.values()) {
      if (found.length >= limit) break;
      const over = isRead(open) || open.held.hasExpired(now);
      if (over || open.shownIn !== undefined || this.#keptBack(open)) continue;
      found.push(open);
    }
    return found;
  }

  /** Messages that may be shown and are not closed, oldest first. */
  async open(limit: number): Promise<OpenLetter[]> {
    await this.#inbox.load();
    const now = this.#components.runtime.now();
    const all = [...this.#open.values()].filter((open) => !open.held.hasExpired(now) && !this.#keptBack(open));
    return all.slice(0, limit);
  }

  /** Resolves when the messages on disk can be found. */
  load(): Promise<void> {
    return this.#inbox.load();
  }

  /** Messages that were read and wait to be answered or closed. */
  get unclosed(): OpenLetter[] {
    return [...this.#open.values()].filter(isRead);
  }

  async heldBack(): Promise<{ readonly open: OpenLetter; readonly reason: string }[]> {
    await this.#inbox.load();
    return [...this.#open.values()].flatMap((open) => {
      const reason = this.#components.whyHeld(open.from);
      return reason === undefined ? [] : [{ open, reason }];
    });
  }

  find(id: string): OpenLetter | undefined {
    return this.#open.get(id);
  }

  /** Records that the answer to a call shows these. */
  show(letters: readonly OpenLetter[], call: number): void {
    for (const open of letters) {
      const before = this.#cursor.show(open.held);
      open.redelivered = before;
      open.shownIn = call;
      open.announced = true;
      this.onShown?.(open);
    }
  }

  /** Records that the answer to a call shows a message up to this character; the rest is unread. */
  showPart(open: OpenLetter, to: number, call: number): void {
    open.partIn = { call, from: open.shownTo };
    open.shownTo = to;
    open.announced = true;
  }

  /** The client never read the answer to that call: the messages in it are unread again. */
  unshow(call: number): void {
    for (const open of this.#open.values()) {
      if (open.shownIn === call) open.shownIn = undefined;
      if (open.partIn?.call === call) {
        open.shownTo = open.partIn.from;
        open.partIn = undefined;
      }
    }
  }

  /** The session was shown these over an earlier connection. */
  async restore(ids: readonly string[]): Promise<void> {
    await this.#inbox.load();
    this.show(
      ids.flatMap((id) => this.#open.get(id) ?? []),
      0,
    );
  }

  /** A later call of the client proves that it received these messages. */
  async prove(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#inbox.load();
    for (const id of ids) {
      const open = this.#open.get(id);
      if (!open || isRead(open)) continue;
      if (open.letter.needs === 'none') await this.end(open, { state: 'done' });
      else {
        this.#cursor.read(open.held);
        this.onRead?.(open);
      }
    }
  }

  /** The client's turn ended after the answers that show these messages, which proves that it received them. */
  proveShown(): Promise<void> {
    const shown = [...this.#open.values()].filter(({ shownIn }) => shownIn !== undefined);
    return this.prove(shown.map(({ held }) => held.envelope.id));
  }

  async end(open: OpenLetter, end: FetchedEnd): Promise<void> {
    await this.#cursor.end(open.held, end);
    this.#open.delete(open.held.envelope.id);
    this.onRead?.(open);
  }

  /** Resolves at the next arrival, or when the signal aborts. */
  next(signal: AbortSignal): Promise<void> {
    return this.#arrivals.next(signal);
  }

  /** Delivers held messages whose senders were let in meanwhile. */
  async reconsider(): Promise<void> {
    await this.#inbox.load();
    this.#arrivals.wake();
    for (const open of await this.unread(MAX_OPEN)) this.onArrival?.(open);
  }

  /** Messages that were shown and not proven read are unread again. */
  endSession(): void {
    this.#cursor.putBack();
    for (const open of this.#open.values()) {
      open.shownIn = undefined;
      open.shownTo = 0;
      open.partIn = undefined;
      open.announced = false;
    }
  }

  close(): void {
    this.#cursor.close();
    this.#arrivals.wake();
  }

  #arrived(held: InboxMessage): void {
    const announce = () => {
      this.#arrivals.wake();
      const open = this.#open.get(held.envelope.id);
      if (open && !this.#keptBack(open)) this.onArrival?.(open);
    };
    if (this.#inbox.offer(held)) announce();
    // Older messages are read first, or this one was read from disk before it was offered.
    else this.#inbox.load().then(announce, this.#onReadFailed);
  }

  readonly #onReadFailed = (error: unknown) => {
    this.#components.runtime.logger.error({ agent: this.#name, err: error }, 'inbox cannot be read');
  };

  #take(held: InboxMessage): void {
    const { id, sender } = held.envelope;
    if (held.ending || this.#open.has(id)) return;
    const letter = readLetter(held.envelope);
    // Mail from the member itself is written on this node: another node's sender has an address with its key.
    const isNotice = letter.notice === true && sender === this.#name;
    const origin = isNotice ? 'node' : this.#isHuman(sender, letter) ? 'human' : 'agent';
    const open: OpenLetter = {
      held,
      letter,
      from: sender,
      origin,
      shownIn: undefined,
      shownTo: 0,
      partIn: undefined,
      announced: false,
      redelivered: false,
    };
    const tooFar = this.#components.whyTooFar(letter.hops);
    if (tooFar !== undefined) {
      void this.#cursor.end(held, { state: 'declined', reason: tooFar }).catch((error: unknown) => {
        this.#components.runtime.logger.error({ message: id, err: error }, 'message in a loop not declined');
      });
      return;
    }
    this.#open.set(id, open);
    this.#keptBack(open);
  }

  /** True if the message is held; its sender is told so. */
  #keptBack({ held, from }: OpenLetter): boolean {
    const reason = this.#components.whyHeld(from);
    if (reason !== undefined) this.#cursor.hold(held, reason);
    return reason !== undefined;
  }

  #isHuman(sender: string, { human, text }: Letter): boolean {
    if (!human) return false;
    const { nodeKey } = this.#components;
    const { id, node = nodeKey } = splitAddress(sender);
    if (id !== OWNER) return false;
    return isFromPerson(node, { from: `${id}@${node}`, to: `${this.#name}@${nodeKey}`, text }, human);
  }
}

/** Callers that wait for the next event. */
export class Waiters {
  readonly #waiters = new Set<() => void>();

  /** Resolves at the next `wake`, or when the signal aborts. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        this.#waiters.delete(end);
        signal.removeEventListener('abort', end);
        resolve();
      };
      if (signal.aborted) return resolve();
      this.#waiters.add(end);
      signal.addEventListener('abort', end);
    });
  }

  wake(): void {
    for (const wake of [...this.#waiters]) wake();
  }
}

export function isRead({ held }: OpenLetter): boolean {
  return held.receipt.some(({ state }) => state === 'read');
}

export function required(mail: MemberMail, id: string, lister = 'mesh_inbox'): OpenLetter {
  const open = mail.find(id);
  if (open) return open;
  throw new EclipticError('RECEIPT_NOT_FOUND', `no open message has the id "${id}"; ${lister} lists them`, { id });
}
