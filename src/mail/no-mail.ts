import type { PeerProtocol } from '../network/peers/protocol.js';
import { ITEM } from '../network/peers/wire.js';
import { EclipticError } from '../runtime/errors.js';

export const MAIL_KINDS = [ITEM.mail, ITEM.receipts, ITEM.receiptsStored, ITEM.mailProgress];

/** The mail protocol of a node without a store, which refuses everything. */
export const NO_MAIL: PeerProtocol = {
  kinds: MAIL_KINDS,
  take() {
    throw new EclipticError('STORE_REQUIRED', 'this node keeps no durable mail');
  },
};
