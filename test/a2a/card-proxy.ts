import { request as forward } from 'node:http';
import type { AgentCard } from '../../src/a2a/protocol/types.js';
import type { ForeignServer, ForeignServers } from '../foreign-servers.js';

export interface CardProxy extends ForeignServer {
  /** Breaks every connection off. */
  cut(): void;
  /** While true, all requests are refused. */
  closed: boolean;
}

/**
 * Stands before a node as another server would: under an address of its own, with a card that promises what it is told
 * to, and with connections that can be broken off.
 */
export async function cardProxy(
  servers: ForeignServers,
  target: string,
  source: { readonly path: string; readonly token: string },
  change: (card: AgentCard) => AgentCard = (card) => card,
): Promise<CardProxy> {
  const server = await servers.http(async (request, response) => {
    if (proxy.closed) return void request.socket.destroy();
    if (request.url === '/.well-known/agent-card.json') {
      const headers = { authorization: `Bearer ${source.token}` };
      const original = (await (await fetch(target + source.path, { headers })).json()) as Record<string, unknown>;
      const { url: _, additionalInterfaces: __, protocolVersion: ___, ...card } = original;
      const moved = JSON.parse(JSON.stringify(card).replaceAll(target, proxy.origin));
      return void response.end(JSON.stringify(change(moved)));
    }
    const headers = { ...request.headers, host: new URL(target).host };
    const onward = forward(target + request.url, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => response.destroy());
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  const cut = () => {
    for (const socket of server.sockets) socket.destroy();
  };
  const proxy: CardProxy = Object.assign(server, { cut, closed: false });
  return proxy;
}
