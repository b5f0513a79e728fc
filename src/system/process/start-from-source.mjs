import { pathToFileURL } from 'node:url';

/** Runs a file of the source: as a run of tests has built it, or read as TypeScript. */
export async function startFromSource(source) {
  const { ECLIPTIC_BUILT_THREADS: built } = process.env;
  if (built) {
    const name = source.pathname.split('/').pop().replace(/\.ts$/, '.cjs');
    await import(new URL(name, `${pathToFileURL(built)}/`).href);
    return;
  }
  const { register } = await import('tsx/esm/api');
  register();
  await import(source.href);
}
