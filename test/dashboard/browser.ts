import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
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

let launched: Promise<Browser> | undefined;

/** One browser serves all tests of a process, because its start takes longer than most of them; it ends with the process. */
function chromiumOfThisProcess(): Promise<Browser> {
  launched ??= chromium.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS });
  return launched;
}

/** A window of a real browser with cookies and storage of its own, which ends with the cluster. */
export async function browse(
  cluster: Cluster,
  { width = 1_280, scheme = 'dark' }: { width?: number; scheme?: 'dark' | 'light' } = {},
): Promise<Browsing> {
  const browser = await chromiumOfThisProcess();
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: scheme });
  cluster.onEnd(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    // The browser itself reports each request that a stopped node does not answer, or refuses.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  return { context, page, faults };
}
