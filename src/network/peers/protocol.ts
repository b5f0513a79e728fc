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
  /** A conversation begins; nothing of an earlier one counts. Items sent here are the first that the node receives. */
  began?(node: string): void;
  /** A link is there, at the beginning of a conversation or again. */
  connected?(node: string): void;
  /** The node is silent or the link is gone. Items wait until `connected` or `ended`. */
  interrupted?(node: string): void;
  /** The conversation is over, and with it everything that was open in it. */
  ended?(node: string): void;
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

  /** Tells every protocol, in the order in which they were added. */
  tell(event: 'began' | 'connected' | 'interrupted' | 'ended', node: string): void {
    for (const protocol of this.#all) protocol[event]?.(node);
  }
}
