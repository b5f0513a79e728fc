import { readCard } from '../../../src/a2a/protocol/card-fields.js';
import { signatureHeaders } from '../../../src/a2a/protocol/card-signature.js';
import type { Method } from '../../../src/a2a/protocol/json-rpc.js';
import { takePushConfig, takeStreamResponse, takeTask } from '../../../src/a2a/protocol/read-responses.js';
import { readObject } from '../../../src/a2a/protocol/reading.js';
import { v03JsonRpc } from '../../../src/a2a/v03/json-rpc.js';
import { v03Rest } from '../../../src/a2a/v03/rest.js';
import { RESPONSES } from '../a2a-requests.js';
import { type FuzzTarget, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const READERS = {
  takeTask,
  takeStreamResponse,
  takePushConfig,
  readCard: (value: unknown) => readCard(readObject(value, 'the card')),
} as const;
const OLD: readonly [Method, keyof typeof READERS][] = [
  ['GetTask', 'takeTask'],
  ['SendStreamingMessage', 'takeStreamResponse'],
  ['GetExtendedAgentCard', 'readCard'],
  ['GetTaskPushNotificationConfig', 'takePushConfig'],
];

/** Answers, events and cards of agents elsewhere: what is taken reads the same again. */
export const target: FuzzTarget = {
  name: 'a2a-responses',
  about: 'answers, events and cards of remote A2A agents',
  seeds: [...RESPONSES.map((_, index) => Buffer.of(index)), ...RESPONSES.map((one) => JSON.stringify(one))],
  run(input) {
    const value = jsonOf(input, RESPONSES);
    for (const [name, reader] of Object.entries(READERS)) {
      const take = reader as (value: unknown) => unknown;
      const read = unlessRefused(() => take(value));
      if (read === undefined) continue;
      mustEqual(take(JSON.parse(JSON.stringify(read))), read, `${name}, read twice`);
      if (name === 'readCard') signatureHeaders(read as never);
    }
    for (const dialect of [v03JsonRpc, v03Rest]) {
      for (const [method, name] of OLD) {
        unlessRefused(() => (READERS[name] as (value: unknown) => unknown)(dialect.fromResult(method, value)));
      }
    }
  },
};
