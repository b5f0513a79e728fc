import { NatsConnection } from '../../src/nats/connection.js';
import { NatsRecordLogs } from '../../src/nats/nats-record-log.js';
import { Identity } from '../../src/network/membership/identity.js';
import type { Timer } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import type { RecordLog } from '../../src/store/shared/record-log.js';
import { BrokerLog } from '../../src/work/swarm/broker-log.js';
import { ClaimedLog } from '../../src/work/swarm/claimed-log.js';
import { RaftLog } from '../../src/work/swarm/raft-log.js';
import { logEffects, type SeatLog } from '../../src/work/swarm/seat-log.js';
import type { RaftMessage, SwarmEffect } from '../../src/work/swarm/swarm-messages.js';
import type { SwarmOpening, SwarmRecord } from '../../src/work/swarm/swarm-records.js';
import type { NatsServer } from '../nats-server.js';

const runtime = systemRuntime();
export const KEY = Buffer.alloc(32, 7);
const LEASE_MS = 200;
const BEAT_MS = 50;
const LOG = 'swarm-1';

/** A record that is told from others by its name. */
export const record = (name: string): SwarmRecord => ({ type: 'escalation', subTask: name, reason: 'test' });

export const names = (log: RecordLog<SwarmRecord>, upTo = log.settled): string[] =>
  log.read(0, upTo).flatMap(({ record: one }) => (one.type === 'escalation' ? [one.subTask] : []));

/** A node's logs at a broker. */
export async function natsLogs(servers: readonly NatsServer[], key: Uint8Array | null = KEY, scope = 'mesh') {
  const identity = Identity.create(runtime);
  const connection = new NatsConnection({ runtime, identity }, { servers: servers.map(({ url }) => url) });
  await connection.start();
  await connection.ready(10_000);
  const logs = new NatsRecordLogs({ runtime, identity, connection }, () => ({ scope, key: key ?? undefined }));
  return { identity, connection, logs };
}

/** One seat of a log, with the shell that a swarm would be around it. */
export class Seat {
  readonly log: SeatLog;
  readonly #perform: (effect: SwarmEffect) => void;
  readonly #effects: SwarmEffect[] = [];
  #beat: Timer | undefined;
  isDead = false;
  /** Nothing gets in or out, and it does not notice. */
  isCut = false;

  constructor(
    open: (effects: ReturnType<typeof logEffects>) => SeatLog,
    perform: (effect: SwarmEffect) => void,
    beat: () => void,
  ) {
    this.log = open(logEffects((effect) => this.#effects.push(effect)));
    this.#perform = perform;
    const tick = () => {
      this.step(() => this.log.tick(runtime.now()));
      if (this.log.isLeading && !this.isCut) beat();
      if (!this.isDead) this.#beat = runtime.setTimer(tick, BEAT_MS);
    };
    tick();
  }

  step(change: () => void): void {
    if (this.isDead) return;
    change();
    this.log.flush();
    for (const effect of this.#effects.splice(0)) this.#perform(effect);
  }

  /** Appends at the end that it knows. */
  append(...records: SwarmRecord[]): boolean {
    let isAppended = false;
    this.step(() => {
      isAppended = this.log.append(this.log.last, records);
    });
    return isAppended;
  }

  kill(): void {
    this.isDead = true;
    this.#beat?.cancel();
  }
}

export interface Seats {
  readonly all: Seat[];
  end(): Promise<void>;
}

/** Between seats: a message arrives a little later, unless one of the two is cut off. */
function carry(from: Seat, to: Seat, deliver: () => void): void {
  runtime.setTimer(() => {
    if (!from.isCut && !to.isCut) to.step(deliver);
  }, 1);
}

function opening(seats: readonly string[]): SwarmOpening {
  const rules = { leaseMs: LEASE_MS, attempts: 1, patienceMs: 1_000 };
  const about = { id: LOG, task: 'test', capabilities: [], creator: seats[0]!, createdAt: 0, members: [] };
  return { ...about, rules, seats: [...seats] };
}

function begin(seats: Seat[], addresses: readonly string[]): void {
  const [creator] = seats;
  creator!.step(() => creator!.log.create(runtime.now()));
  creator!.append({ type: 'open', swarm: opening(addresses) });
}

function beat(seats: readonly Seat[], from: Seat): void {
  const { epoch, settled, me } = from.log;
  for (const to of seats) {
    if (to !== from) carry(from, to, () => to.log.heard(me, { epoch, settled }, runtime.now()));
  }
}

/** Seats that agree by Raft. */
export async function raftSeats(count: number): Promise<Seats> {
  const addresses = Array.from({ length: count }, (_, at) => `s${at}@n${at}`);
  const all: Seat[] = [];
  const timing = { leaseMs: LEASE_MS, beatMs: BEAT_MS };
  for (const [at, me] of addresses.entries()) {
    const memory = { term: 0, votedFor: null, log: [] };
    let length = 0;
    const perform = (effect: SwarmEffect) => {
      const seat = all[at]!;
      if (effect.type === 'send') {
        const { to, message } = effect;
        const other = all[addresses.indexOf(to)]!;
        const event = { type: 'message', from: me, message: message as RaftMessage } as const;
        carry(seat, other, () => other.log.take(event, runtime.now()));
      } else if (effect.type === 'keep') {
        const { term, from, entries = [] } = effect.keep;
        if (from !== undefined) length = from + entries.length - 1;
        const n = length;
        runtime.setTimer(() => seat.step(() => seat.log.take({ type: 'kept', term, n }, runtime.now())), 1);
      }
    };
    const open = (effects: ReturnType<typeof logEffects>) =>
      new RaftLog(me, addresses, memory, timing, effects, runtime.now());
    all.push(new Seat(open, perform, () => {}));
  }
  begin(all, addresses);
  const end = async () => {
    for (const seat of all) seat.kill();
  };
  return { all, end };
}

/** Seats of nodes with a broker. */
export async function brokerSeats(servers: readonly NatsServer[], count: number): Promise<Seats> {
  const nodes = await Promise.all(Array.from({ length: count }, () => natsLogs(servers)));
  const addresses = nodes.map(({ identity }, at) => `s${at}@${identity.key}`);
  const all: Seat[] = [];
  const brokerLogs: BrokerLog[] = [];
  for (const [at, me] of addresses.entries()) {
    const brokerLog = new BrokerLog({ runtime, logs: nodes[at]!.logs }, LOG, (event) => {
      const seat = all[at]!;
      const answer = seat.isCut && event.type !== 'grown' ? ({ type: 'unanswered' } as const) : event;
      seat.step(() => seat.log.take(answer, runtime.now()));
    });
    brokerLogs.push(brokerLog);
    const perform = (effect: SwarmEffect) => {
      if (effect.type !== 'append' && effect.type !== 'read') return;
      const seat = all[at]!;
      if (!seat.isCut) brokerLog.perform(effect);
      else runtime.setTimer(() => seat.step(() => seat.log.take({ type: 'unanswered' }, runtime.now())), 1);
    };
    const init = { me, swarmId: LOG, creator: addresses[0]!, run: runtime.id(), log: [] };
    const open = (effects: ReturnType<typeof logEffects>) => new ClaimedLog(init, effects, runtime.now());
    // A seat performs its first effects while it is made.
    let isMade = false;
    const first: SwarmEffect[] = [];
    const seat: Seat = new Seat(
      open,
      (effect) => (isMade ? perform(effect) : void first.push(effect)),
      () => beat(all, all[at]!),
    );
    all.push(seat);
    isMade = true;
    for (const effect of first) perform(effect);
    brokerLog.watch(true);
  }
  begin(all, addresses);
  const end = async () => {
    for (const seat of all) seat.kill();
    for (const brokerLog of brokerLogs) brokerLog.close();
    await Promise.all(nodes.map(({ connection }) => connection.stop()));
  };
  return { all, end };
}
