import { calibrate, cpuRound } from './compare.js';
import { MeshAgents, type MeshWork } from './mesh-agents.js';

/** The only argument of a process with many agents. */
export interface MeshRole {
  readonly agents: number;
  /** How many of them offer the same capability. */
  readonly candidates?: number;
  /** Requests that wait for an answer all the time. */
  readonly waiting?: number;
}

export type MeshQuestion = { readonly work: MeshWork } | 'heap';

/** Bytes after garbage collection. */
export interface MeshHeap {
  readonly agents: number;
  readonly waiting: number;
}

const { agents: count, candidates, waiting = 0 }: MeshRole = JSON.parse(process.argv[2] ?? '');
process.on('disconnect', () => process.exit(0));
const before = heapBytes();
const agents = await MeshAgents.start(count, candidates);
const withAgents = heapBytes();
agents.wait(waiting);
const withWaiting = heapBytes();
const counts = new Map<MeshWork, number>();
process.on('message', (question: MeshQuestion) => void answer(question));
process.send!({});

async function answer(question: MeshQuestion): Promise<void> {
  if (question === 'heap')
    process.send!({ agents: withAgents - before, waiting: withWaiting - withAgents } satisfies MeshHeap);
  else process.send!(await round(question.work));
}

/** One round of that work, of the same length every time. */
async function round(work: MeshWork) {
  const runner = agents.runner(work);
  const count = counts.get(work) ?? (await calibrate(runner));
  counts.set(work, count);
  return cpuRound(runner, count);
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
