/** A runtime on a virtual clock, for deterministic tests of agents and of the fabric itself. */
export { SimulatedRuntime, type SimulatedRuntimeInit } from './runtime/simulated-runtime.js';
