// Sweeps when the package runs from its TypeScript source, as in tests: Node itself cannot read `.ts` files. It is not
// part of the built package.
import { register } from 'tsx/esm/api';

register();
await import('./sweep-main.ts');
