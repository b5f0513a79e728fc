import { type Exchange, type Route, sendJson } from '../../http/server/http-server.js';
import { EclipticError } from '../../runtime/errors.js';
import { matchesEtag } from '../protocol/card.js';
import { VERSION_HEADER } from '../protocol/version.js';
import type { Cards, PublishedCard } from './cards.js';
import { speaksV03 } from './request-context.js';

const MAX_AGE_S = 300;

/** The node's card and the key it is signed with, which anyone may read, and `/api/agents/ID/agent-card`. */
export function cardRoutes(cards: Cards, baseUrl: () => string): Route[] {
  return [
    {
      path: '/.well-known/agent-card.json',
      exact: true,
      public: true,
      serve: (exchange) => answer(exchange, cards.ofNode(baseUrl())),
    },
    {
      path: '/.well-known/jwks.json',
      exact: true,
      public: true,
      serve: ({ response }) => sendJson(response, 200, cards.keys),
    },
    {
      path: '/api/agents',
      scope: 'tasks',
      serve: (exchange) => {
        const [, id] = /^\/api\/agents\/([\w-]+)\/agent-card$/.exec(exchange.path) ?? [];
        if (id === undefined) throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${exchange.path}`);
        answer(exchange, cards.ofAgent(id, baseUrl()));
      },
    },
  ];
}

/** In the version that the reader names; one that names none reads 0.3, as in every request. */
function answer(exchange: Exchange, { signed, etag: ownEtag, merged, mergedEtag }: PublishedCard): void {
  const { request, response } = exchange;
  const old = speaksV03(exchange);
  const [card, etag] = old ? [merged, mergedEtag] : [signed, ownEtag];
  const headers = {
    ETag: etag,
    Vary: VERSION_HEADER,
    'Cache-Control': `public, max-age=${MAX_AGE_S}`,
    'Access-Control-Allow-Origin': '*',
  };
  if (matchesEtag(request.headers['if-none-match'], etag)) {
    response.writeHead(304, headers);
    response.end();
    return;
  }
  const body = Buffer.from(JSON.stringify(card));
  response.writeHead(200, { ...headers, 'Content-Type': 'application/json', 'Content-Length': body.length });
  response.end(request.method === 'HEAD' ? undefined : body);
}
