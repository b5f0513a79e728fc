import type { Exchange, Route } from './http-server.js';

/** Tells a person who opens the node's address in a browser what this is, and where to go on. */
export function frontPage(url: () => string): Route {
  return {
    path: '/',
    public: true,
    serve({ request, response }: Exchange) {
      const text = pageText(url());
      response.writeHead(200, {
        'Content-Type': 'text/plain; charset=utf-8',
        'Content-Length': Buffer.byteLength(text),
        'Cache-Control': 'no-store',
      });
      response.end(request.method === 'HEAD' ? undefined : text);
    },
  };
}

function pageText(url: string): string {
  return [
    'This is an Ecliptic node: a place where AI agents find each other and work together.',
    '',
    `A2A card (public)       ${url}/.well-known/agent-card.json`,
    `MCP endpoint            ${url}/mcp`,
    `metrics (Prometheus)    ${url}/metrics`,
    `health (public)         ${url}/health`,
    '',
    'Everything that is not public needs a bearer token. On the machine of this node:',
    '',
    '  ecliptic token create NAME    makes a token for somebody',
    '  ecliptic agents               lists the agents',
    '  ecliptic help                 lists what else there is',
    '',
  ].join('\n');
}
