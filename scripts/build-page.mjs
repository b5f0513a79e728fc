import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Builds the dashboard's page: one script, one style sheet and one document, without sources from elsewhere. */
export async function buildPage(outdir = join(root, 'dist', 'web')) {
  await build({
    absWorkingDir: root,
    entryPoints: ['web/page.tsx', 'web/page.css'],
    outdir,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    banner: { js: '/*! Contains preact and @preact/signals: MIT License, (c) Jason Miller and the Preact Team. */' },
    logLevel: 'warning',
  });
  copyFileSync(join(root, 'web', 'index.html'), join(outdir, 'index.html'));
}
