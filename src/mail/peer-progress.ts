import type { Network } from '../network/peers/network.js';
import { ITEM } from '../network/peers/wire.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Progress } from './mail-wire.js';
import type { OutgoingMail } from './outgoing-mail.js';
import type { Restorations } from './store-epoch.js';

export interface PeerProgressComponents {
  runtime: Runtime;
  outgoing: OutgoingMail;
  restorations: Restorations;
  network: () => Network | undefined;
  say: (node: string, item: readonly unknown[]) => void;
  /** This node's store is in another epoch. */
  onRenewed: () => void;
}

/** From this version on, nodes report how much of each other's mail they have. */
const PROGRESS_PROTOCOL = 2;
/** Stores of this node's mail that are reported to another node. */
const MAX_PROGRESS = 8;

/** Compares with other nodes how much of each other's mail they have: so they notice a store that was restored from a copy. */
export class PeerProgress {
  readonly #components: PeerProgressComponents;

  constructor(components: PeerProgressComponents) {
    this.#components = components;
  }

  /** Reports how much of the mail of each store of that node is on disk here. */
  report(node: string, progress: readonly (readonly [store: string, upTo: number])[]): void {
    for (const [store, upTo] of progress.slice(-MAX_PROGRESS)) this.#tell(node, store, upTo, false);
  }

  /** That node's store has used a number a second time. */
  reused(node: string, store: string, upTo: number): void {
    this.#tell(node, store, upTo, true);
    this.#components.restorations.reportPeer(node);
  }

  /** Takes the report of another node. */
  take(node: string, progress: Progress): void {
    const { runtime, outgoing, restorations, onRenewed } = this.#components;
    outgoing
      .compare(node, progress)
      .then((reason) => {
        if (reason === undefined) return;
        restorations.report(node, reason);
        onRenewed();
      })
      .catch((error: unknown) => runtime.logger.error({ node, err: error }, 'mail: progress could not be compared'));
  }

  #tell(node: string, store: string, upTo: number, reused: boolean): void {
    const { network, say } = this.#components;
    if (network()?.peers.speaks(node, PROGRESS_PROTOCOL)) say(node, [ITEM.mailProgress, store, upTo, reused]);
  }
}
