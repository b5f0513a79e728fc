import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Route } from '../server/http-server.js';

/** The files of the page, by path. */
const FILES: readonly (readonly [path: string, file: string, type: string])[] = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/page.js', 'page.js', 'text/javascript; charset=utf-8'],
  ['/charts.js', 'charts.js', 'text/javascript; charset=utf-8'],
  ['/page.css', 'page.css', 'text/css; charset=utf-8'],
  ['/docs.css', 'docs.css', 'text/css; charset=utf-8'],
];

/** No inline code, nothing from elsewhere, in no frame; Trusted Types keep text from becoming markup. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const HEADERS = {
  'Content-Security-Policy': POLICY,
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  // A page of an earlier version must not talk to this node.
  'Cache-Control': 'no-cache',
};

/** Serves the built page. `/` is for browsers only: other callers, and nodes without a built page, get `otherwise`. */
export function pageRoutes(folder: string, otherwise: Route): readonly Route[] {
  return FILES.map(([path, file, type]) => ({
    path,
    exact: true,
    public: true,
    serve(exchange) {
      const { request, response } = exchange;
      const wanted = path !== '/' || /\btext\/html\b/.test(request.headers.accept ?? '');
      const body = wanted ? read(join(folder, file)) : undefined;
      if (!body) return otherwise.serve(exchange);
      response.writeHead(200, { ...HEADERS, 'Content-Type': type, 'Content-Length': body.length });
      response.end(request.method === 'HEAD' ? undefined : body);
    },
  }));
}

function read(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}
