// Runs a tool when the package runs from its TypeScript source, as in tests. It is not part of the built package.
import { startFromSource } from '../../system/process/start-from-source.mjs';

await startFromSource(new URL('./tool-process.ts', import.meta.url));
