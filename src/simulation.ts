/** A runtime on a virtual clock, for deterministic tests of agents and of the fabric itself. */

export { type Connect, MemoryRendezvous } from './network/discovery/memory-discovery.js';
export { type Faults, linkInProcess, MemoryNetwork } from './network/links/memory-network.js';
export { SimulatedRuntime, type SimulatedRuntimeInit } from './runtime/simulated-runtime.js';
