// Starts the store's thread when the package runs from its TypeScript source, as in tests: Node itself cannot read
// `.ts` files, and a loader of the parent thread does not reach into this one. Where a run of tests has built the thread
// beforehand, that is started. It is not part of the built package.
import { startFromSource } from '../system/process/start-from-source.mjs';

await startFromSource(new URL('./sqlite-worker.ts', import.meta.url));
