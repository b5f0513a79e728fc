import { EclipticError } from '../../runtime/errors.js';
import { ITEM, type Item, malformed } from './wire.js';

/**
 * A protocol between nodes: the item kinds it owns, and what it does when a conversation with a node begins, pauses and
 * ends. Items arrive in order and exactly once as long as the conversation lasts, over however many links. Docs:
 * `docs/wire-protocol.md`.
 */
export interface PeerProtocol {
  readonly kinds: readonly string[];
  /**
   * Takes an item of one of the kinds. An error refuses the item, and the sender is told; `INVALID_FRAME` and
   * `INVALID_ENVELOPE` end the conversation, because no honest node sends such an item.
   */
  take(node: string, item: Item): void;
  /** Why an item that waited for a conversation to begin cannot be sent to that node any more. */
  whyNot?(node: string, item: Item): EclipticError | undefined;
  /** A conversation begins; nothing of an earlier one counts. Items sent here are the first that the node receives. */
  began?(node: string): void;
  /** A link is there, at the beginning of a conversation or again. */
  connected?(node: string): void;
  /** The node is silent or the link is gone. Items wait until `connected` or `ended`. */
  interrupted?(node: string): void;
  /** The conversation is over, and with it everything that was open in it. */
  ended?(node: string): void;
  /** Items that tell any full member what this node has, for its entry in the directory. */
  announce?(): readonly string[];
  /**
   * Takes what a node announces in the directory, in place of everything that it announced before. Called only while there
   * is no conversation with it, and with no items when the node has gone.
   */
  learn?(node: string, items: readonly Item[]): void;
  /** The directory lists the node: a conversation begins as soon as something is sent to it. */
  listed?(node: string): void;
  /** Is there work under way with that node, so that its link is kept open and its silence is noticed soon? */
  busy?(node: string): boolean;
}

const BUILT_IN: ReadonlySet<string> = new Set(Object.values(ITEM));

/** The protocols of a node, by the kinds of their items. */
export class Protocols {
  readonly #byKind = new Map<string, PeerProtocol>();
  readonly #all = new Set<PeerProtocol>();

  add(protocol: PeerProtocol): void {
    for (const kind of protocol.kinds) {
      if (this.#byKind.has(kind))
        throw new EclipticError('INVALID_ARGUMENTS', `items "${kind}" have a protocol already`);
      this.#byKind.set(kind, protocol);
    }
    this.#all.add(protocol);
  }

  take(node: string, item: Item): void {
    const kind = item[0];
    const protocol = this.#byKind.get(kind);
    if (protocol) protocol.take(node, item);
    else if (!BUILT_IN.has(kind)) throw malformed(`there is no item "${kind.slice(0, 20)}"`);
    else throw new EclipticError('METHOD_NOT_FOUND', `this node does not take items "${kind}"`);
  }

  whyNot(node: string, item: Item): EclipticError | undefined {
    return this.#byKind.get(item[0])?.whyNot?.(node, item);
  }

  /** Tells every protocol, in the order in which they were added. */
  tell(event: 'began' | 'connected' | 'interrupted' | 'ended' | 'listed', node: string): void {
    for (const protocol of this.#all) protocol[event]?.(node);
  }

  announce(): string[] {
    return [...this.#all].flatMap((protocol) => protocol.announce?.() ?? []);
  }

  /** Hands what a node announces to the protocols of the items; each of them learns the whole of it. */
  learn(node: string, items: readonly Item[]): void {
    for (const protocol of this.#all) {
      protocol.learn?.(
        node,
        items.filter(([kind]) => protocol.kinds.includes(kind)),
      );
    }
  }

  isBusy(node: string): boolean {
    for (const protocol of this.#all) if (protocol.busy?.(node)) return true;
    return false;
  }
}
