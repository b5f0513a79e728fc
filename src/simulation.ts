/** A runtime on a virtual clock, for deterministic tests of agents and of the fabric itself. */

export { type Connect, MemoryMeetings } from './discovery/memory-discovery.js';
export { linkInProcess } from './links/in-process.js';
export { type Faults, MemoryNetwork } from './links/memory-network.js';
export { SimulatedRuntime, type SimulatedRuntimeInit } from './runtime/simulated-runtime.js';
