import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installPackage } from './installed-package.js';
import { blocksOf, PageSession } from './page-session.js';
import { ROOT } from './source-files.js';

describe('the README', () => {
  let folder: string;
  let session: PageSession;
  let page: string;

  beforeAll(async () => {
    page = await readFile(join(ROOT, 'README.md'), 'utf8');
    folder = await mkdtemp(join(tmpdir(), 'ecliptic-readme-'));
    session = new PageSession({ user: await installPackage(folder) });
  }, 180_000);

  afterAll(async () => {
    await session.end();
    await rm(folder, { recursive: true, force: true });
  });

  it('gives the output that is shown, in an empty folder, from a fresh install [FM.readme]', async () => {
    await session.run(page);
  }, 300_000);

  it('has on its first screen what Ecliptic is, for whom, what it is not, and the two commands [FM.readme]', () => {
    const first = page.slice(0, page.indexOf('## '));
    for (const part of ['**For**', '**What it is not**', 'npx ecliptic ', 'npx ecliptic demo', '](docs/images/']) {
      expect(first).toContain(part);
    }
    const [session, demo] = blocksOf(first);
    expect(first.replace(demo!.text, '').split('\n').length).toBeLessThan(40);
    expect(session!.language).toBe('sh');
    expect(page.split('\n').length).toBeLessThan(200);
  });
});
