const MIB = 1_048_576;

export interface ObjectLimits {
  /** One object. */
  readonly objectBytes: number;
  /** The objects of one agent: their bytes, and how many. */
  readonly agentBytes: number;
  readonly agentObjects: number;
  /** The objects of all agents of a node. */
  readonly nodeBytes: number;
}

/** `docs/limits.md` gives the reason for each. */
export const OBJECT_LIMITS: ObjectLimits = {
  objectBytes: 1_024 * MIB,
  agentBytes: 2_048 * MIB,
  agentObjects: 1_000,
  nodeBytes: 8_192 * MIB,
};

export const DEFAULT_TTL_MS = 7 * 86_400_000;
/** As long as a durable message can live. */
export const MAX_TTL_MS = 30 * 86_400_000;
/** Agents that may read one object. */
export const MAX_READERS = 64;
/** References in the `attachments` of one message that are read. */
export const MAX_ATTACHMENTS = 16;
/** Noted references to objects of others. */
export const MAX_RECEIVED = 10_000;

/** Bytes of one item between nodes: as text it is far below the size of a frame, so others are not held up. */
export const CHUNK_BYTES = 131_072;
/** Chunks under way to one reader. */
export const WINDOW_CHUNKS = 8;
/** Objects that one node reads from another at once. */
export const MAX_TRANSFERS = 4;
/** A reader gives up after this long without a byte. */
export const PATIENCE_MS = 30_000;
