import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));

const BANNER = `/*! MIT License: preact and @preact/signals, (c) Jason Miller and the Preact Team; uPlot, (c) Leon Sorokin;
uqr, (c) Anthony Fu, from the QR code generator of Project Nayuki. */`;

/**
 * Builds the dashboard's page: a script, a style sheet, a document, and the script of charts; nothing from elsewhere.
 * Returns the files that went into them.
 */
export async function buildPage(outdir = join(root, 'dist', 'web')) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ['web/page.tsx', 'web/page.css', 'web/charts.ts', 'web/docs.css'],
    outdir,
    bundle: true,
    minify: true,
    format: 'esm',
    // Charts are loaded by the views that have some.
    splitting: true,
    platform: 'browser',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    banner: { js: BANNER },
    metafile: true,
    logLevel: 'warning',
  });
  copyFileSync(join(root, 'web', 'index.html'), join(outdir, 'index.html'));
  return Object.keys(metafile.inputs);
}
