import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, type TestContext, vi } from 'vitest';
import { repositoryKey } from '../../src/coding-agents/leases/register-values.js';
import { Identity } from '../../src/network/membership/identity.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { NatsServer } from '../nats-server.js';
import { doubleHolders, LeasePlace, LeaseWatch, REPOSITORY } from './lease-place.js';

const runtime = systemRuntime();

async function start({ onTestFinished }: TestContext): Promise<NatsServer> {
  const server = await NatsServer.start({ syncAlways: true });
  onTestFinished(() => server.stop());
  return server;
}

async function place(
  { onTestFinished }: TestContext,
  server: NatsServer,
  init: Parameters<typeof LeasePlace.open>[1] = {},
) {
  const made = await LeasePlace.open([server.url], init);
  onTestFinished(() => made.stop());
  return made;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

// Most of the time passes while a device or the broker is away, so the tests wait side by side.
describe.concurrent('leases on NATS', () => {
  it('have one holder when two compete two hundred times, and tokens that only grow [NL.5]', async (test) => {
    const server = await start(test);
    const places = [await place(test, server), await place(test, server)];
    await vi.waitFor(async () => {
      for (const one of places) expect(await one.take(`own-${one.holder}`)).toBeGreaterThan(0);
    }, 20_000);
    let highest = 0;
    for (let round = 0; round < 200; round++) {
      const tokens = await Promise.all(places.map((one) => one.take('contested')));
      const won = tokens.filter((token) => token !== undefined);
      expect(won).toHaveLength(1);
      expect(won[0]).toBeGreaterThan(highest);
      expect(doubleHolders(places)).toEqual([]);
      highest = won[0]!;
      await places[tokens.indexOf(highest)]!.release('contested');
    }
  });

  it('give tokens above any that this node saw before it used the broker [NL.6]', async (test) => {
    const server = await start(test);
    const store = new MemoryStore();
    const alone = await LeasePlace.open([server.url], { store });
    test.onTestFinished(() => alone.stop());
    const { tokenSeen } = await import('../../src/coding-agents/leases/seen-tokens.js');
    await alone.stop();
    await store.write([tokenSeen(REPOSITORY, 5_000)]);
    const moved = await place(test, server, { store });
    const token = await vi.waitFor(async () => {
      const got = await moved.take('src');
      expect(got).toBeGreaterThan(0);
      return got!;
    }, 20_000);
    expect(token).toBeGreaterThan(5_000);
    const other = await place(test, server);
    await other.connection.ready(5_000);
    expect(await other.take('docs')).toBeGreaterThan(token);
  });

  it('of a device that is gone are taken after ten seconds, and it learns that when it is back', async (test) => {
    const server = await start(test);
    const [identity, store] = [Identity.create(runtime), new MemoryStore()];
    const gone = await LeasePlace.open([server.url], { identity, store });
    const left = await place(test, server);
    await gone.connection.ready(5_000);
    const first = await vi.waitFor(async () => {
      const token = await gone.take('src');
      expect(token).toBeGreaterThan(0);
      return token!;
    }, 20_000);
    expect(await left.take('src')).toBeUndefined();
    // Nothing is released, and no sign of life follows.
    await gone.stop();
    const from = runtime.stopwatch();
    const token = await vi.waitFor(
      async () => {
        const taken = await left.take('src');
        expect(taken).toBeDefined();
        return taken!;
      },
      { timeout: 20_000, interval: 200 },
    );
    expect(runtime.stopwatch() - from).toBeGreaterThan(7_000);
    expect(token).toBeGreaterThan(first);
    const back = await place(test, server, { identity, store });
    await vi.waitFor(() => expect(back.notices.join()).toContain('You no longer hold src'), { timeout: 5_000 });
    expect(doubleHolders([left, back])).toEqual([]);
  }, 40_000);

  it('of a process that was killed are taken by another device, with a higher token [NL.11]', async (test) => {
    const server = await start(test);
    const left = await place(test, server);
    await left.connection.ready(5_000);
    const script = fileURLToPath(new URL('lease-holder.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', script, server.url, 'src'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    test.onTestFinished(() => {
      child.kill('SIGKILL');
    });
    const [said] = (await once(child.stdout!, 'data')) as [Buffer];
    const first = Number(said.toString());
    // As long as the process lives, also for longer than a device may be silent.
    for (let second = 0; second < 12; second++) {
      expect(await left.take('src/x')).toBeUndefined();
      await pause(1_000);
    }
    child.kill('SIGKILL');
    const token = await vi.waitFor(
      async () => {
        const taken = await left.take('src/x');
        expect(taken).toBeGreaterThan(0);
        return taken!;
      },
      { timeout: 20_000, interval: 200 },
    );
    expect(token).toBeGreaterThan(first);
  }, 60_000);

  it('are unconfirmed while the broker is away, and confirmed after its restart', async (test) => {
    const server = await start(test);
    const places = [await place(test, server), await place(test, server)];
    const token = await vi.waitFor(async () => {
      const taken = await places[0]!.take('src');
      expect(taken).toBeGreaterThan(0);
      return taken!;
    }, 20_000);
    await server.kill();
    expect(await places[1]!.take('src')).toBe(0);
    expect(places[1]!.confirmed).toEqual([]);
    expect(doubleHolders(places)).toEqual([]);
    await vi.waitFor(() => expect(places[0]!.confirmed).toEqual([]), { timeout: 9_000, interval: 100 });
    await server.start();
    await vi.waitFor(() => expect(places[0]!.confirmed.map(({ glob }) => glob)).toEqual(['src']), { timeout: 15_000 });
    await vi.waitFor(() => expect(places[1]!.leases.held).toEqual([]), { timeout: 10_000 });
    expect(places[0]!.confirmed[0]!.token).toBeGreaterThanOrEqual(token);
    expect(doubleHolders(places)).toEqual([]);
  }, 60_000);

  it('are not forged or freed by a node with the broker’s credentials [NL.4]', async (test) => {
    const server = await start(test);
    const rogue = Identity.create(runtime);
    const isOwn = (node: string) => node !== rogue.key;
    const [honest, other] = [await place(test, server, { isOwn }), await place(test, server, { isOwn })];
    await vi.waitFor(async () => expect(await honest.take('src')).toBeGreaterThan(0), 20_000);
    expect(await other.take('docs')).toBeGreaterThan(0);
    const intruder = await place(test, server, { identity: rogue });
    // A node of another owner that writes what a device would: nobody believes it, and its own lease counts nowhere.
    await intruder.connection.ready(5_000);
    await intruder.take('lib');
    await vi.waitFor(() => expect(honest.confirmed).toEqual([]), { timeout: 5_000 });
    expect(await other.take('src')).not.toBeGreaterThan(0);
    const kv = await (await intruder.connection.kvm()).open(intruder.connection.names.leaseBucket);
    intruder.leases.close();
    // Deleted, the leases are not free at once: their holders find out first.
    for await (const key of await kv.keys()) if (key.endsWith(repositoryKey(REPOSITORY))) await kv.delete(key);
    const watch = new LeaseWatch([honest, other]);
    await vi.waitFor(() => expect(honest.confirmed.map(({ glob }) => glob)).toEqual(['src']), { timeout: 25_000 });
    watch.stop();
    expect(watch.faults).toEqual([]);
  }, 60_000);
});
