import type { ServerResponse } from 'node:http';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Readiness } from '../../telemetry/readiness.js';
import { SCOPES } from '../auth/tokens.js';
import { type Exchange, type Route, sendJson } from './http-server.js';

export const RESOURCE_METADATA = '/.well-known/oauth-protected-resource';

/** For a person who opens the node's address in a browser. */
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
    `documents (public)      ${url}/docs`,
    `A2A card (public)       ${url}/.well-known/agent-card.json`,
    `MCP endpoint            ${url}/mcp`,
    `OpenAI API              ${url}/v1`,
    `AG-UI                   ${url}/agui/AGENT`,
    `metrics (Prometheus)    ${url}/metrics`,
    `health (public)         ${url}/healthz, ${url}/readyz`,
    '',
    'Everything that is not public needs a bearer token. On the machine of this node:',
    '',
    '  ecliptic open                 prints a link that opens the dashboard',
    '  ecliptic token create NAME    creates a token',
    '  ecliptic agents               lists the agents',
    '  ecliptic help                 lists what else there is',
    '',
  ].join('\n');
}

/**
 * The metadata of the MCP endpoint as a protected resource (RFC 9728), at the place that its path gives and at the plain
 * one. Public. Without an issuer there is no authorization server: tokens come from the owner.
 */
export function resourceMetadata(url: () => string, issuer: string | undefined): Route[] {
  const serve: Route['serve'] = ({ response }) => {
    sendJson(response, 200, {
      resource: `${url()}/mcp`,
      resource_name: 'Ecliptic',
      ...(issuer !== undefined && { authorization_servers: [issuer] }),
      bearer_methods_supported: ['header'],
      scopes_supported: SCOPES,
    });
  };
  return ['', '/mcp'].map((of) => ({ path: `${RESOURCE_METADATA}${of}`, exact: true, public: true, serve }));
}

/** Public, for supervisors and load balancers: is the process alive, and can the node take work? */
export function healthRoutes(readiness: (() => Promise<Readiness>) | undefined): Route[] {
  const alive: Route = {
    path: '/healthz',
    exact: true,
    public: true,
    anyHost: true,
    serve: ({ response }) => sendJson(response, 200, { status: 'alive' }),
  };
  if (!readiness) return [alive];
  const ready: Route = {
    path: '/readyz',
    exact: true,
    public: true,
    anyHost: true,
    async serve({ response }) {
      const found = await readiness();
      sendJson(response, found.status === 'not-ready' ? 503 : 200, found);
    },
  };
  return [alive, ready];
}

/** Metrics cover every agent, so callers in a sandbox do not get them. */
export function metricsRoute(text: () => Promise<string>): Route {
  return {
    path: '/metrics',
    untraced: true,
    async serve({ response, principal }: Exchange) {
      if (principal.sandboxId !== undefined) {
        throw new EclipticError('SANDBOX_VIOLATION', 'metrics cover agents outside your sandbox');
      }
      const body = await text();
      response.writeHead(200, {
        'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
      });
      response.end(body);
    },
  };
}

const PATH = '/oauth/callback';

/** The redirect URL of logins: authorization servers accept loopback addresses without registration. */
export function loginCallbackUrl(serverUrl: string): string {
  const url = new URL(PATH, serverUrl);
  if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = '127.0.0.1';
  return url.href;
}

/**
 * The redirect target after a login at an authorization server. Public: the request is authenticated by the state value
 * that only the browser of that login has.
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
    // The address holds an authorization code.
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': 'no-store',
  });
  response.end(`${text}\n`);
}
