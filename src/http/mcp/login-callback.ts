import type { ServerResponse } from 'node:http';
import { describeError } from '../../runtime/errors.js';
import type { Route } from '../server/http-server.js';

const PATH = '/oauth/callback';

/** Where that is for a browser on this machine: authorization servers take loopback addresses without further ado. */
export function loginCallbackUrl(edge: string): string {
  const url = new URL(PATH, edge);
  if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = '127.0.0.1';
  return url.href;
}

/**
 * Where a browser comes back to after a login at an authorization server. Anybody may come here; what counts is the
 * number that only the browser of whoever began the login was given.
 */
export function loginCallback(finish: (query: URLSearchParams) => Promise<string>): Route {
  return {
    path: PATH,
    public: true,
    async serve({ request, response, query }) {
      if (request.method !== 'GET') return say(response, 405, 'Only a browser that comes back from a login is served.');
      try {
        const server = await finish(query);
        say(response, 200, `You are logged in to ${server}. You can close this page.`);
      } catch (error) {
        say(response, 400, describeError(error));
      }
    },
  };
}

function say(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    // The address holds a code, which is nobody else's.
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': 'no-store',
  });
  response.end(`${text}\n`);
}
