import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import type { Exchange, Route } from '../server/http-server.js';
import { escapeHtml, type RenderedPage } from './render.js';

/** The page that lists the others in their order. */
const INDEX = 'README';
const PAGE = /^(?:[a-z0-9-]+\/)?[A-Za-z0-9-]+$/;
const FILE = /^(?:[a-z0-9-]+\/)?[a-z0-9-]+\.(png|svg|json)$/;

const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  svg: 'image/svg+xml',
  json: 'application/json; charset=utf-8',
};

const HEADERS = {
  // No script at all.
  'Content-Security-Policy':
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** Serves the documents of this package as pages below `/docs`. */
export class DocPages {
  readonly route: Route = { path: '/docs', public: true, serve: (exchange) => this.#serve(exchange) };
  readonly #folder: string;
  /** At most one entry for each file of the folder. */
  readonly #rendered = new Map<string, string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async #serve(exchange: Exchange): Promise<void> {
    const { request, response, path } = exchange;
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(exchange, 405, 'text/plain', 'GET only\n');
    const name = path.slice('/docs'.length).replace(/^\/+|\/+$/g, '');
    const type = FILE.exec(name)?.[1];
    if (type !== undefined) {
      const file = this.#read(name);
      if (file) return send(exchange, 200, TYPES[type]!, file);
    } else if (name === '' || PAGE.test(name)) {
      // Links of the index are relative to the folder.
      const page = await this.#page(name === '' ? INDEX : name);
      if (page !== undefined) return send(exchange, 200, 'text/html; charset=utf-8', page);
    }
    response.setHeader('Cache-Control', 'no-store');
    send(exchange, 404, 'text/plain; charset=utf-8', 'There is no such page. All pages: /docs\n');
  }

  /** A page with the list of all pages beside it. */
  async #page(name: string): Promise<string | undefined> {
    const known = this.#rendered.get(name);
    if (known !== undefined) return known;
    const text = this.#read(`${name}.md`)?.toString('utf8');
    if (text === undefined) return undefined;
    // Most nodes are never asked for a document.
    const { renderMarkdown } = await import('./render.js');
    const page = renderMarkdown(text, (href) => targetOf(href, name));
    const index = this.#read(`${INDEX}.md`)?.toString('utf8') ?? '';
    const html = documentOf(page, listOf(index, name, this.#names()));
    this.#rendered.set(name, html);
    return html;
  }

  #names(): string[] {
    const pages = readdirSync(this.#folder).filter((file) => file.endsWith('.md'));
    return pages.map((file) => file.slice(0, -'.md'.length)).sort();
  }

  #read(name: string): Buffer | undefined {
    try {
      return readFileSync(join(this.#folder, name));
    } catch {
      return undefined;
    }
  }
}

/** Other pages and pictures of the folder; files elsewhere in the package are not served. */
export function targetOf(href: string, page: string): string | undefined {
  if (/^https?:\/\//.test(href) || href.startsWith('#')) return href;
  const [path = '', fragment] = href.split('#');
  const resolved = posix.join('/docs', posix.dirname(page), path);
  if (!resolved.startsWith('/docs/')) return undefined;
  const name = resolved.slice('/docs/'.length);
  const hash = fragment === undefined ? '' : `#${fragment}`;
  if (FILE.test(name)) return resolved;
  const doc = /^(.*)\.md$/.exec(name)?.[1];
  if (doc === undefined || !PAGE.test(doc)) return undefined;
  return doc === INDEX ? `/docs${hash}` : `/docs/${doc}${hash}`;
}

/** The headings of the index and the pages below them, then the pages that it does not list. */
function listOf(index: string, current: string, names: readonly string[]): string {
  const lines: string[] = [];
  for (const [, heading, label, href] of index.matchAll(/^## (.+)$|^(?:\d+\.|-) \[([^\]]+)\]\(([^)]+\.md)\)/gm)) {
    if (heading !== undefined) {
      lines.push(`<p>${escapeHtml(heading)}</p>`);
      continue;
    }
    const to = targetOf(href!, INDEX);
    if (to === undefined) continue;
    const here = to === `/docs/${current}` ? ' aria-current="page"' : '';
    lines.push(`<a href="${to}"${here}>${escapeHtml(label!)}</a>`);
  }
  const others = names.filter((name) => name !== INDEX && !index.includes(`(${name}.md)`));
  return [...lines, ...others.map((name) => `<a href="/docs/${name}">${name.replaceAll('-', ' ')}</a>`)].join('\n');
}

function documentOf({ title, html }: RenderedPage, list: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} · Ecliptic</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header><a href="/docs">Ecliptic · documents</a><a href="/">dashboard</a></header>
<nav aria-label="Pages">
${list}
</nav>
<main id="text">
${html}</main>
</body>
</html>
`;
}

function send({ request, response }: Exchange, status: number, type: string, body: string | Buffer): void {
  response.writeHead(status, { ...HEADERS, 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
  response.end(request.method === 'HEAD' ? undefined : body);
}
