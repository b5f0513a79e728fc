import type { Runtime } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import { cursors as cursorTable } from '../store/common-tables.js';
import type { Store, Table } from '../store/store.js';
import { AddressBook } from './address-book.js';
import type { Amount } from './mail-quota.js';
import { Permits } from './permits.js';
import { ackCursor } from './receipt-outbound.js';
import { Relays } from './relays.js';
import { StoreEpoch } from './store-epoch.js';
import { inbox, outbox } from './tables.js';

/** The stored state from which mail continues. */
export interface MailState {
  book: AddressBook;
  permits: Permits;
  cursors: Map<string, number>;
  acknowledged: Map<string, number>;
  epoch: StoreEpoch;
  relays: Relays;
  outgoing: { last: number; waiting: Amount };
  incoming: { next: number; waiting: Amount };
}

export const CLOCK_CURSOR = 'clock';

export async function loadState(
  { store, runtime, clock }: { store: Store; runtime: Runtime; clock: SteadyClock },
  place?: string,
): Promise<MailState> {
  const rows = await store.read(cursorTable);
  const cursors = new Map(rows.map(({ name, value }) => [name, value]));
  const [lastIn] = await store.read(inbox, { orderBy: 'number', descending: true, limit: 1 });
  const [lastOut] = await store.read(outbox, { orderBy: 'number', descending: true, limit: 1 });
  const time = cursors.get(CLOCK_CURSOR);
  if (time !== undefined) clock.resume(time);
  const last = Math.max(lastOut?.number ?? 0, cursors.get('outbox') ?? 0);
  const acknowledged = [...cursors].filter(([name]) => name.startsWith(ackCursor('')));
  return {
    book: await AddressBook.open(store),
    permits: await Permits.open(store),
    cursors,
    acknowledged: new Map(acknowledged.map(([name, value]) => [name.slice(ackCursor('').length), value])),
    epoch: await StoreEpoch.open(runtime, store, { last, place }),
    relays: await Relays.open(store),
    outgoing: { last: lastOut?.number ?? 0, waiting: await amountIn(store, outbox) },
    incoming: { next: (lastIn?.number ?? 0) + 1, waiting: await amountIn(store, inbox) },
  };
}

async function amountIn(store: Store, table: Table): Promise<Amount> {
  const { rows: messages, bytes } = await store.figures(table);
  return { messages, bytes };
}
