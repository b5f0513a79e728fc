// Sweeps when the package runs from its TypeScript source, as in tests: Node itself cannot read `.ts` files. It is not
// part of the built package.
import { startFromSource } from './start-from-source.mjs';

await startFromSource(new URL('./sweep-main.ts', import.meta.url));
