import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RelayListener } from '../mail/relay.js';
import { Identity } from '../network/membership/identity.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { NatsConnection } from './connection.js';
import { BrokerNames } from './names.js';
import { NatsMail } from './nats-mail.js';

const CREATED = '2026-01-01T00:00:00Z';
/** The highest position that the node knows of. */
const REACHED = 10;

let runtime: SimulatedRuntime;
let mail: NatsMail;
/** The answer of the server that the node is connected to. */
let answer: { last: number; replicas: number };
/** The last positions of the stores that were opened. */
let opened: number[];

beforeEach(() => {
  runtime = new SimulatedRuntime();
  answer = { last: REACHED - 1, replicas: 3 };
  opened = [];
  const names = new BrokerNames('main');
  const info = async () => ({
    created: CREATED,
    state: { last_seq: answer.last },
    config: {
      subjects: [names.mail('*', '*')],
      allow_rollup_hdrs: true,
      retention: 'limits',
      num_replicas: answer.replicas,
    },
  });
  const connection = {
    names,
    isConnected: true,
    manager: async () => ({ streams: { info } }),
    jetstream: () => new Promise(() => {}),
    onConnected: (connected: () => void) => {
      connected();
      return () => {};
    },
    onDisconnected: () => () => {},
  };
  mail = new NatsMail({
    runtime,
    identity: Identity.create(runtime),
    connection: connection as unknown as NatsConnection,
    mesh: () => 'mesh',
  });
});

afterEach(() => void mail.stop());

describe('a mail stream that lacks batches which it had', () => {
  it('is read when the server has caught up with its cluster, and nothing counts as lost [NM.16]', async () => {
    start();
    await runtime.advance(20_000);
    expect(opened).toEqual([]);
    answer = { ...answer, last: REACHED };
    await runtime.advance(10_000);
    expect(opened).toEqual([REACHED]);
  });

  it('has lost them if that lasts [NM.6]', async () => {
    start();
    await runtime.advance(29_000);
    expect(opened).toEqual([]);
    await runtime.advance(15_000);
    expect(opened).toEqual([REACHED - 1]);
  });

  it('has lost them at once if no other server has a copy [NM.6]', async () => {
    answer = { ...answer, replicas: 1 };
    start();
    await runtime.advance(10);
    expect(opened).toEqual([REACHED - 1]);
  });
});

function start(): void {
  const listener: Partial<RelayListener> = {
    reached: (id) => (id === Date.parse(CREATED) ? REACHED : 0),
    opened: async ({ last }) => {
      opened.push(last);
      return 0;
    },
  };
  mail.start(listener as RelayListener);
}
