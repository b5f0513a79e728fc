/** A runtime on a virtual clock, for deterministic tests of agents and of the fabric itself. */

export { type Connect, MemoryMeetings } from './network/discovery/memory-discovery.js';
export { linkInProcess } from './network/links/in-process.js';
export { type Faults, MemoryNetwork } from './network/links/memory-network.js';
export { SimulatedRuntime, type SimulatedRuntimeInit } from './runtime/simulated-runtime.js';
