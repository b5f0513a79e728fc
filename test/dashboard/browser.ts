import { join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { CHROMIUM } from '../../scripts/need-chromium.mjs';
import type { Cluster } from '../nodes/cluster.js';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Browsing {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Errors of the page's scripts, and violations of its policy. */
  readonly faults: string[];
}

/** A real browser with a profile of its own, which ends with the cluster. */
export async function browse(
  cluster: Cluster,
  { width = 1_280, scheme = 'dark' }: { width?: number; scheme?: 'dark' | 'light' } = {},
): Promise<Browsing> {
  const context = await chromium.launchPersistentContext(join(cluster.folder, `profile-${width}-${scheme}`), {
    executablePath: CHROMIUM,
    headless: true,
    args: FLAGS,
    viewport: { width, height: 800 },
    colorScheme: scheme,
  });
  cluster.onEnd(() => context.close());
  const page = context.pages()[0] ?? (await context.newPage());
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    // The browser itself reports each request that a stopped node does not answer, or refuses.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  return { context, page, faults };
}
