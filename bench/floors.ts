/** What a row of a suite has to reach. */
export interface Floor {
  readonly suite: string;
  readonly name: string;
  readonly value: number;
  /** The row may be at most this, instead of at least. */
  readonly atMost?: true;
  /** What stands in the way, where it is known: printed while the row is below its floor. */
  readonly limit?: string;
}

const DIRECT_LIMIT =
  'Decisions 0092 and 0108: one record for each message, none, and results that successive sends share were tried. A third of the time is the loop, its promise and the microtask.';

const MEMORY_LIMIT =
  'Decision 0108: three quarters of the time with 100,000 agents are loads that wait for memory. Four fifths of those are the caller’s own objects (its list of agents, the agents, their ids, the handlers), one fifth our entries and index.';

const ROUND_TRIP_LIMIT =
  'Decisions 0091 and 0109: the system calls are those of the bare mechanism; the rest is 15 to 20 µs a side, with no function above 3 %. Encryption without the stream of secret-stream, links without the stream of ws, fewer readings of the clock and fewer deferred calls were measured.';

const RETAINED_TASK_LIMIT =
  'Decisions 0094 and 0101. Of the time beyond the bare server, a third is the conversation with the agent, a tenth to a fifth the kept task, and the rest is spread thinly over reading, checks, ids, the state machine and the record.';

const BROKER_LIMIT =
  'A program with the same promises (encryption from end to end, acknowledgements) and nothing else reaches half of bare publishes; ours takes a quarter more than it. Decision 0101: without any JSON the ratio would be about 0.45, and shorter addresses gain nothing.';

/** Documents with 100,000 operations, on one node and on two, with and without a store. */
const DOCUMENTS = ['plain', 'stored', 'nodes', 'nodes-stored'].flatMap((place) =>
  ['', '-alternating'].flatMap((writers) =>
    ['yjs-cpu', 'yjs-heap'].map(
      (what): Floor => ({ suite: 'documents', name: `${place}${writers}-100000/${what}`, value: 2, atMost: true }),
    ),
  ),
);

const HOSTILE_LIMIT =
  'Two designs were tried: a peer in bulk is paused by the time that its frames take, and by their part of all busy time. What is left is work that they cause after they are read (stores, tools, deliveries) and, of handshakes, each connection: neither is paced.';

export const FLOORS: readonly Floor[] = [
  { suite: 'mesh', name: 'request/moleculer-call', value: 1 },
  { suite: 'mesh', name: 'request-async/moleculer-call', value: 0.6 },
  { suite: 'mesh', name: 'request-random/moleculer-call', value: 0.6 },
  { suite: 'mesh', name: 'request-random-async/moleculer-call', value: 0.6 },
  { suite: 'mesh', name: 'send/moleculer-call', value: 2, limit: DIRECT_LIMIT },
  { suite: 'mesh', name: 'send/moleculer-emit', value: 5, limit: DIRECT_LIMIT },
  { suite: 'scale', name: 'send-random, 100,000 / 1,000 agents', value: 3, atMost: true, limit: MEMORY_LIMIT },
  { suite: 'scale', name: 'request-random, 100,000 / 1,000 agents', value: 3, atMost: true, limit: MEMORY_LIMIT },
  { suite: 'scale', name: 'send-capability, 100,000 / 1,000 agents', value: 3, atMost: true },
  { suite: 'scale', name: 'send-capability, 100,000 / 1,000 candidates', value: 3, atMost: true },
  { suite: 'links', name: 'websocket/bare-ws', value: 1.2 },
  { suite: 'links', name: 'websocket/same-promises', value: 0.9 },
  { suite: 'links', name: 'hyperswarm/bare-stream', value: 0.6 },
  { suite: 'links', name: 'websocket-rtt/bare-ws', value: 0.5, limit: ROUND_TRIP_LIMIT },
  { suite: 'links', name: 'hyperswarm-rtt/bare-stream', value: 0.55, limit: ROUND_TRIP_LIMIT },
  { suite: 'links', name: 'nats/bare-publish', value: 1, limit: BROKER_LIMIT },
  { suite: 'join', name: 'join-30/staged', value: 15_000, atMost: true },
  { suite: 'durable', name: 'nats-mail/bare-jetstream', value: 0.8 },
  { suite: 'a2a', name: 'task/sdk', value: 3.2 },
  { suite: 'a2a', name: 'task/bare-http', value: 0.6, limit: RETAINED_TASK_LIMIT },
  { suite: 'a2a', name: 'message/sdk', value: 2.8 },
  { suite: 'a2a', name: 'durable-task/sdk-sqlite', value: 4 },
  { suite: 'providers', name: 'execute/bare-child', value: 0.8 },
  ...['messages', 'mail', 'tools', 'document', 'handshakes'].map(
    (attack): Floor => ({ suite: 'hostile', name: `${attack}/none`, value: 0.8, limit: HOSTILE_LIMIT }),
  ),
  { suite: 'cli', name: 'up/bare-node', value: 4.5, atMost: true },
  { suite: 'cli', name: 'up/bare-node, CPU time', value: 4.5, atMost: true },
  { suite: 'cli', name: 'command/bare-node', value: 1.5, atMost: true },
  { suite: 'cli', name: 'command/bare-node, CPU time', value: 1.5, atMost: true },
  { suite: 'cli', name: 'idle node, resident memory', value: 80, atMost: true },
  { suite: 'radar', name: 'at rest, CPU of a core', value: 0.5, atMost: true },
  { suite: 'radar', name: 'from a save to the warning on the other device', value: 200, atMost: true },
  ...DOCUMENTS,
];

/** Whether a row reaches its floor. `claim`: the comparison has none, and `unclear` means that not even 1 is certain. */
export type Verdict = 'reached' | 'reached, not in every round' | 'below' | 'below, not in every round' | 'unclear';

export function floorOf(suite: string, name: string): Floor | undefined {
  return FLOORS.find((floor) => floor.suite === suite && floor.name === name);
}

/** A row without a floor claims only which of the two is better. */
export function judge(
  value: number,
  spread: readonly [number, number] | undefined,
  floor: Pick<Floor, 'value' | 'atMost'> | undefined,
): Verdict | undefined {
  if (floor === undefined) return spread && spread[0] < 1 && spread[1] > 1 ? 'unclear' : undefined;
  const holds = (one: number) => (floor.atMost ? one <= floor.value : one >= floor.value);
  const rounds = (spread ?? [value]).map(holds);
  if (holds(value)) return rounds.every(Boolean) ? 'reached' : 'reached, not in every round';
  return rounds.some(Boolean) ? 'below, not in every round' : 'below';
}
