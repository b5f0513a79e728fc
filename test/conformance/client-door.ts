import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { ROOT } from '../source-files.js';
import { playScenario } from './client.js';

const ENTER = join(ROOT, 'test', 'conformance', 'enter.mjs');

export interface ClientDoor {
  /** For the suite: starts a client, which is given a server's URL as its last word. */
  readonly command: string;
  close(): Promise<unknown>;
}

/** Lets clients in this process play the suite's scenarios: it starts a program for each, and all of them at once. */
export async function openClientDoor(): Promise<ClientDoor> {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    try {
      const { url, context, scenario } = JSON.parse(body);
      await playScenario(new URL(url), context, scenario);
      response.end();
    } catch (error) {
      response.writeHead(500).end(String((error as Error).stack));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    command: `"${process.execPath}" "${ENTER}" http://127.0.0.1:${port}`,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}
