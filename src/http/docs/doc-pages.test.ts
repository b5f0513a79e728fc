import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createNode, type EclipticNode } from '../../node/compose.js';
import { DOCS_FOLDER } from '../../runtime/package.js';
import { DocPages, targetOf } from './doc-pages.js';
import { renderMarkdown } from './render.js';

describe('the documents of a node', () => {
  let node: EclipticNode;
  let url: string;
  const get = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${url}${path}`, init);
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  beforeAll(async () => {
    node = await createNode();
    ({ url } = await node.serve({ port: 0, routes: [new DocPages(DOCS_FOLDER).route] }));
  });

  afterAll(() => node.stop());

  it('are pages with the list of all pages, without scripts [FM.served]', async () => {
    const index = await get('/docs');
    expect(index.status).toBe(200);
    expect(index.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'self'; img-src/);
    expect(index.text).not.toMatch(/<script| style=| on\w+=/);
    const pages = [...index.text.matchAll(/<a href="(\/docs\/[\w-]+)"/g)].map(([, path]) => path!);
    expect(new Set(pages).size).toBeGreaterThan(20);
    const policy = await get('/docs/policy');
    expect(policy.text).toContain('<a href="/docs/policy" aria-current="page">Policy</a>');
    expect(policy.text).toMatch(/<h1 id="policy">Policy<\/h1>/);
    expect((await get('/docs/images/overview.png')).headers.get('content-type')).toBe('image/png');
    expect((await get('/docs/', { method: 'HEAD' })).text).toBe('');
  });

  it.each(['/docs/none', '/docs/..%2fpackage', '/docs/../package.json', '/docs/decisions/../../README', '/docs/a.md'])(
    'are nothing at %s [FM.served]',
    async (path) => {
      expect([401, 404]).toContain((await get(path)).status);
    },
  );
});

describe('a page that the index does not list', () => {
  it('is in the list of pages too', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-docs-'));
    writeFileSync(join(folder, 'README.md'), '# Documents\n\n## First\n\n1. [One](one.md)\n');
    for (const name of ['one', 'two-more']) writeFileSync(join(folder, `${name}.md`), `# ${name}\n`);
    const node = await createNode();
    const { url } = await node.serve({ port: 0, routes: [new DocPages(folder).route] });
    const text = await (await fetch(`${url}/docs/one`)).text();
    expect(text).toContain('<a href="/docs/one" aria-current="page">One</a>\n<a href="/docs/two-more">two more</a>');
    await node.stop();
    rmSync(folder, { recursive: true });
  });
});

describe('Markdown', () => {
  it('has no HTML of its own, and no link out of the documents', () => {
    const { html, title } = renderMarkdown(
      '# A `b`\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1)) [y](../secret.md) ![z](http://a/b.png) [t](tools.md#in-code)\n',
      (href) => targetOf(href, 'policy'),
    );
    expect(title).toBe('A b');
    expect(html).not.toMatch(/<script|javascript:|secret|<img/);
    expect(html).toContain('<a href="/docs/tools#in-code">t</a>');
  });
});
