import { execFile } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { stablePort } from '../../../test/ports.js';
import { LEAST_NODES, PrivateDht } from './private-dht.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const run = promisify(execFile);

let cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
  cleanUps = [];
});

describe('a private DHT', () => {
  it('runs as many nodes as it is told to, each at a port of its own', async () => {
    const dht = await start(LEAST_NODES);
    expect(dht.bootstrap).toHaveLength(LEAST_NODES);
    expect(new Set(dht.bootstrap).size).toBe(LEAST_NODES);
    for (const place of dht.bootstrap) expect(place).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  it('has its first node at the port it is told to', async () => {
    const port = await stablePort();
    const dht = await start(2, port);
    expect(dht.bootstrap[0]).toBe(`127.0.0.1:${port}`);
  });

  it('gives its ports back when it is stopped, so that another can start there', async () => {
    const port = await stablePort();
    const first = await start(2, port);
    await first.stop();
    const second = await start(2, port);
    expect(portOf(second)).toBe(port);
  });

  it('may be stopped twice', async () => {
    const dht = await start(1);
    await dht.stop();
    await dht.stop();
  });

  it('refuses a port that another program has with ADDRESS_UNUSABLE', async () => {
    const port = await takenPort();
    await expect(start(2, port)).rejects.toMatchObject({
      code: 'ADDRESS_UNUSABLE',
      details: { host: '127.0.0.1', port },
    });
  });

  it('refuses the port of another private DHT with ADDRESS_UNUSABLE, and leaves that one alone', async () => {
    const first = await start(2);
    const port = portOf(first);
    await expect(start(2, port)).rejects.toMatchObject({ code: 'ADDRESS_UNUSABLE' });
    expect(await isTaken(port)).toBe(true);
    await first.stop();
    expect(await isTaken(port)).toBe(false);
  });

  it('refuses an address that is not of this machine with ADDRESS_UNUSABLE', async () => {
    await expect(PrivateDht.start(1, '192.0.2.1', 0)).rejects.toMatchObject({ code: 'ADDRESS_UNUSABLE' });
  });

  it('keeps no process alive after it was stopped, or could not start', async () => {
    const script = `
      import { PrivateDht } from './src/network/discovery/private-dht.js';
      const dht = await PrivateDht.start(4, '127.0.0.1', 0);
      const port = Number(dht.bootstrap[0].split(':')[1]);
      const refusals = await Promise.all([
        PrivateDht.start(3, '127.0.0.1', port).catch(({ code }) => code),
        PrivateDht.start(1, '192.0.2.1', 0).catch(({ code }) => code),
      ]);
      await dht.stop();
      console.log(refusals.join());
    `;
    const options = { cwd: ROOT, timeout: 10_000 };
    const { stdout } = await run(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], options);
    expect(stdout).toBe('ADDRESS_UNUSABLE,ADDRESS_UNUSABLE\n');
  });
});

async function start(count: number, port = 0): Promise<PrivateDht> {
  const dht = await PrivateDht.start(count, '127.0.0.1', port);
  cleanUps.push(() => dht.stop());
  return dht;
}

function portOf({ bootstrap }: PrivateDht): number {
  return Number(bootstrap[0]!.split(':')[1]);
}

async function takenPort(): Promise<number> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  cleanUps.push(() => socket.close());
  return socket.address().port;
}

async function isTaken(port: number): Promise<boolean> {
  const socket = createSocket('udp4').bind(port, '127.0.0.1');
  const free = await once(socket, 'listening').then(
    () => true,
    () => false,
  );
  socket.close();
  return !free;
}
