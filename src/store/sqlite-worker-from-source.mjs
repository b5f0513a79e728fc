// Starts the store's thread when the package runs from its TypeScript source, as in tests: Node itself cannot read
// `.ts` files, and a loader of the parent thread does not reach into this one. It is not part of the built package.
import { register } from 'tsx/esm/api';

register();
await import('./sqlite-worker.ts');
