import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the range from which operating systems give ports to outgoing connections (32768 and up on Linux). */
const FIRST = 10_000;
const BLOCK = 100;
const BLOCKS = 200;

/** Test processes that run at once have process ids close to each other, and so different blocks. */
const own = FIRST + (process.pid % BLOCKS) * BLOCK;
let taken = 0;

/**
 * A free port for a server that a test stops and starts again. A port that the operating system chose will not do:
 * while the server is down, any outgoing connection may be given it.
 */
export async function stablePort(): Promise<number> {
  for (let tries = 0; tries < BLOCK; tries++) {
    const port = own + (taken++ % BLOCK);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port between ${own} and ${own + BLOCK}`);
}

export async function stablePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await stablePort());
  return ports;
}

export async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await once(server.close(), 'close');
  return true;
}
