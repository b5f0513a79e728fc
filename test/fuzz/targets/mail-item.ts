import {
  packed,
  readAcknowledgement,
  readMail,
  readProgress,
  readReceiptUpdates,
} from '../../../src/mail/mail-wire.js';
import { readBody, writeBody } from '../../../src/mail/relay.js';
import { packEnvelope } from '../../../src/mesh/codec.js';
import { type FuzzTarget, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const envelope = [1, 'e3', 'sun', 'mars', 'notification', 1, { a: 1 }, null, { durable: true }];
const SEEDS: unknown[] = [
  [
    'store',
    0,
    [
      [1, 1_000, null, envelope],
      [2, 1_001, 9_000, envelope],
    ],
  ],
  [
    0,
    3,
    [
      [
        'id',
        [
          ['sent', 1],
          ['stored', 2],
          ['done', 3],
        ],
      ],
    ],
  ],
  [7],
  ['store', 9, false],
];

/** Mail that was read is the same when it is written and read again. */
export const target: FuzzTarget = {
  name: 'mail-item',
  about: 'durable messages and receipts between nodes, and batches at a broker',
  seeds: [...SEEDS.map((_, index) => Buffer.of(index)), writeBody(1, 'null', ['{}'], ['["s","x",0,[]]'])],
  run(input) {
    const value = jsonOf(input, SEEDS);
    const text = input[0] === 0x5b || input[0] === 0x7b ? input.toString('utf8') : (JSON.stringify(value) ?? '');
    unlessRefused(() => readBody(text));
    if (!Array.isArray(value)) return;
    unlessRefused(() => readReceiptUpdates(value));
    unlessRefused(() => readAcknowledgement(value));
    unlessRefused(() => readProgress(value));
    const mail = readMail(value);
    const texts = mail.messages.map(
      (one) => `[${one.number},${one.storedAt},${one.expiresAt},[${packEnvelope(one.envelope)}]]`,
    );
    const lists = [...packed(texts)].flatMap(({ list }) => JSON.parse(list) as unknown[]);
    mustEqual(readMail([mail.store, mail.before, lists]), mail, 'mail written and read');
  },
};
