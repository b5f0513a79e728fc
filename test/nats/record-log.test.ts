import { afterEach, describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../nats-server.js';
import { brokerSeats, KEY, names, natsLogs, raftSeats, record, type Seat, type Seats } from './record-seats.js';

const SOAK = process.env.ECLIPTIC_SOAK === '1';
const RACES = SOAK ? 250 : 30;
const LOG = 'log';
let endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

async function start(): Promise<NatsServer> {
  const server = await NatsServer.start({ syncAlways: true });
  endings.push(() => server.stop());
  return server;
}

async function open(servers: readonly NatsServer[], key?: Uint8Array | null, scope?: string) {
  const node = await natsLogs(servers, key, scope);
  endings.push(() => node.connection.stop());
  return node;
}

const WORLDS = [
  ['Raft among seats', async (count: number) => raftSeats(count)],
  ['a broker', async (count: number) => brokerSeats([await start()], count)],
] as const;

/** The seat that leads and is in touch. */
function leaderOf(seats: readonly Seat[]): Promise<Seat> {
  return vi.waitFor(
    () => {
      const able = seats.filter(({ isDead, isCut, log }) => !isDead && !isCut && log.isLeading);
      expect(able).toHaveLength(1);
      return able[0]!;
    },
    { timeout: 10_000, interval: 10 },
  );
}

function untilSettled(seats: readonly Seat[], expected: readonly string[]): Promise<void> {
  return vi.waitFor(
    () => {
      for (const { isDead, isCut, log } of seats) if (!isDead && !isCut) expect(names(log)).toEqual(expected);
    },
    { timeout: 10_000, interval: 10 },
  );
}

describe.each(WORLDS)('a record log by %s', (_name, begin) => {
  async function world(count: number): Promise<Seats> {
    const seats = await begin(count);
    endings.push(() => seats.end());
    return seats;
  }

  it('takes records from its leader at the end that it knows, and is the same for all seats [SL.3]', async () => {
    const { all } = await world(3);
    const [first, second] = all as [Seat, Seat];
    expect(first.append(record('one'), record('two'))).toBe(true);
    let wasTaken: boolean | undefined;
    first.step(() => {
      wasTaken = first.log.append(first.log.last - 1, [record('late')]);
    });
    expect(wasTaken).toBe(false);
    expect(second.append(record('not the leader'))).toBe(false);
    await untilSettled(all, ['one', 'two']);
    for (let n = 0; n < 100; n++) expect(first.append(record(`${n}`))).toBe(true);
    await untilSettled(all, ['one', 'two', ...Array.from({ length: 100 }, (_, n) => `${n}`)]);
    for (const { log } of all) expect(log.read(0, log.settled)).toEqual(first.log.read(0));
  });

  it('has another leader in a later epoch after its leader died, and every settled record [SL.3]', async () => {
    const { all } = await world(5);
    const expected: string[] = [];
    let epoch = 0;
    const rounds = SOAK ? ['one', 'two', 'three'] : ['one', 'two'];
    for (const name of rounds) {
      const leader = await leaderOf(all);
      expect(leader.log.epoch).toBeGreaterThan(epoch);
      epoch = leader.log.epoch;
      expect(leader.append(record(name))).toBe(true);
      expected.push(name);
      await untilSettled(all, expected);
      if (name !== rounds.at(-1)) leader.kill();
    }
    for (const { isDead, log } of all) if (!isDead) expect(log.epoch).toBe(epoch);
  });

  it('settles nothing of a leader that was deposed without noticing [SL.3]', async () => {
    const { all } = await world(3);
    const old = await leaderOf(all);
    old.append(record('one'));
    await untilSettled(all, ['one']);
    old.isCut = true;
    expect(old.append(record('lost'))).toBe(true);
    const next = await leaderOf(all);
    expect(old.log.isLeading).toBe(true);
    next.append(record('two'));
    await untilSettled(all, ['one', 'two']);
    expect(old.append(record('lost too'))).toBe(true);
    expect(names(old.log)).toEqual(['one']);
    old.isCut = false;
    await untilSettled(all, ['one', 'two']);
    expect(old.log.isLeading).toBe(false);
    expect(names(old.log, old.log.last)).toEqual(['one', 'two']);
    expect(old.append(record('no more'))).toBe(false);
  });
});

describe('a record log by a broker', () => {
  it('goes on with the last of its seats [SL.2]', async () => {
    const seats = await brokerSeats([await start()], 3);
    endings.push(() => seats.end());
    seats.all[0]!.append(record('one'));
    await untilSettled(seats.all, ['one']);
    for (const seat of seats.all.slice(0, 2)) seat.kill();
    const last = await leaderOf(seats.all);
    last.append(record('two'));
    await untilSettled(seats.all, ['one', 'two']);
  });
});

describe('logs on JetStream', () => {
  it('take one of several values for the same place, in each of many races [SL.4]', async () => {
    const server = await start();
    const nodes = [await open([server]), await open([server]), await open([server])];
    let last = 0;
    for (let round = 0; round < RACES; round++) {
      const racing = nodes.map(({ logs }, at) => logs.append(LOG, last, `${round}-${at}`));
      const won = (await Promise.all(racing)).filter((sequence) => sequence !== undefined);
      expect(won).toHaveLength(1);
      last = won[0]!;
    }
    const [tail, ...others] = await Promise.all(nodes.map(({ logs }) => logs.read(LOG, 0)));
    expect(tail).toMatchObject({ last, isCut: false });
    expect(tail!.values).toHaveLength(RACES);
    for (const other of others) expect(other).toEqual(tail);
    expect((await nodes[0]!.logs.read('another', 0)).values).toEqual([]);
  });

  it('cannot be read by the broker, forged, or copied to another log or mesh [SL.5]', async () => {
    const server = await start();
    const { logs, connection, identity } = await open([server]);
    const rogue = await open([server], Buffer.alloc(32, 9));
    const first = (await logs.append(LOG, 0, 'confidential'))!;
    const stream = connection.names.recordStream;
    const manager = await rogue.connection.manager();
    const genuine = (await manager.streams.getMessage(stream, { seq: first }))!;
    const { body } = JSON.parse(genuine.string()) as { body: string };
    expect(genuine.string()).not.toContain(LOG);
    expect(Buffer.from(body, 'base64').includes('confidential')).toBe(false);
    expect((await rogue.logs.read(LOG, 0)).values).toEqual([]);
    const js = await rogue.connection.jetstream();
    await js.publish(genuine.subject, JSON.stringify({ ...JSON.parse(genuine.string()), by: rogue.identity.key }));
    await js.publish(genuine.subject, JSON.stringify({ ...JSON.parse(genuine.string()), replaces: first }));
    await js.publish(genuine.subject, 'nothing');
    await js.publish(connection.names.record('0'.repeat(40)), genuine.data);
    const { values, last } = await logs.read(LOG, 0);
    expect(values).toEqual([{ sequence: first, writer: identity.key, value: 'confidential' }]);
    expect(last).toBe(first + 3);
    const other = await open([server], KEY, 'another mesh');
    expect((await other.logs.read(LOG, 0)).values).toEqual([]);
    await expect((await open([server], null)).logs.append(LOG, last, 1)).rejects.toMatchObject({ code: 'NO_MESH' });
    await expect(manager.streams.deleteMessage(stream, first)).rejects.toThrow();
    await expect(manager.streams.purge(stream)).rejects.toThrow();
  });

  it('are not used in a stream that would lose values [SL.5]', async () => {
    const { logs, connection } = await open([await start()]);
    const { names: subjects } = connection;
    const manager = await connection.manager();
    await manager.streams.add({ name: subjects.recordStream, subjects: [subjects.record('*')], max_msgs: 3 });
    await expect(logs.append(LOG, 0, 1)).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
    await expect(logs.read(LOG, 0)).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
  });

  it.runIf(SOAK)(
    'settle every record once while servers of a cluster are killed under load [SL.6]',
    async () => {
      const servers = await NatsServer.cluster(3, { syncAlways: true });
      for (const server of servers) endings.push(() => server.stop());
      const nodes = [await open(servers), await open(servers), await open(servers)];
      await vi.waitFor(() => nodes[0]!.logs.append(LOG, 0, 'first'), { timeout: 30_000 });
      const appended = new Set(['first']);
      let isOver = false;
      const write = async (logs: (typeof nodes)[number]['logs'], me: number) => {
        const known: string[] = [];
        let last = 0;
        const catchUp = async () => {
          const tail = await logs.read(LOG, last);
          known.push(...tail.values.map(({ value }) => value as string));
          last = tail.last;
          return tail.isCut;
        };
        for (let n = 0; !isOver; n++) {
          const name = `${me}-${n}`;
          while (!appended.has(name)) {
            try {
              while (await catchUp());
              if (known.includes(name) || (await logs.append(LOG, last, name))) appended.add(name);
            } catch {
              await new Promise((resolve) => setTimeout(resolve, 50));
            }
          }
        }
      };
      const working = nodes.map(({ logs }, at) => write(logs, at));
      endings.push(() => {
        isOver = true;
      });
      for (const server of [...servers, ...servers]) {
        const before = appended.size;
        await server.kill();
        await vi.waitFor(() => expect(appended.size).toBeGreaterThan(before + 20), { timeout: 60_000, interval: 50 });
        await server.start();
        await vi.waitFor(() => expect(appended.size).toBeGreaterThan(before + 100), { timeout: 60_000, interval: 50 });
      }
      isOver = true;
      await Promise.all(working);
      const stored: unknown[] = [];
      for (let last = 0, isCut = true; isCut; ) {
        const tail = await nodes[0]!.logs.read(LOG, last);
        stored.push(...tail.values.map(({ value }) => value));
        ({ last, isCut } = tail);
      }
      expect(stored).toHaveLength(appended.size);
      expect(new Set(stored)).toEqual(appended);
    },
    600_000,
  );
});
