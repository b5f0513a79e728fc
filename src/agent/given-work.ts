import { joined } from '../a2a/protocol/task-machine.js';
import type { Artifact, Part } from '../a2a/protocol/types.js';
import type { EnvelopeFactory, ValidEnvelope } from '../mesh/envelope.js';
import { isAsyncIterable } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import { BRANCH, BRANCH_ARTIFACT, type BranchReport, branchIn } from '../work/branch-report.js';
import { waitingReport } from '../work/waiting-report.js';
import type { AgentTasks } from './agent-tasks.js';
import { Message, type MessageContext } from './message.js';
import { type TaskOpening, type TaskReport, taskIn } from './task-messages.js';
import { USAGE } from './usage.js';

/** Work that an agent took on and its own handler does: an accepted proposal, or a sub-task of a swarm. */
export interface GivenWork {
  readonly id: string;
  readonly taskDescription: string;
  readonly input: unknown;
  /** The address of the agent that wants it done. */
  readonly from: string;
  readonly thread: string;
  /** Those that the work asks for. */
  readonly capabilities?: readonly string[];
  /** The creator of the swarm that a sub-task is of. */
  readonly asker?: string | undefined;
  /** Was it begun in an earlier run of the node? */
  readonly resumed: boolean;
  readonly signal: AbortSignal;
  /** The message that asked for it, for a handler of requests. */
  envelope(factory: EnvelopeFactory): ValidEnvelope;
  progress(value: unknown): void;
  /** Throws, or calls `failed`, if the result cannot be handed over. */
  finish(result: unknown, done: undefined, failed: (error: unknown) => void): void;
  fail(error: unknown): Promise<void>;
}

/** Called when the work has ended, with the error that it failed with; perhaps several times. */
export type Ended = (error?: unknown) => void;

/** Gives work to an agent's task handler, else to its request handler. False where it has neither. */
export function undertake(
  work: GivenWork,
  tasks: AgentTasks | undefined,
  answer: ((message: Message) => unknown) | undefined,
  factory: EnvelopeFactory,
  context: MessageContext,
  ended: Ended,
): boolean {
  if (tasks) run(work, ended, () => workOn(work, tasks));
  else if (answer) {
    const withdrawable: MessageContext = { logOf: (envelope) => context.logOf(envelope), signalOf: () => work.signal };
    run(work, ended, () => answer(new Message(work.envelope(factory), withdrawable, undefined, requestOf(work))));
  }
  return tasks !== undefined || answer !== undefined;
}

/** What a handler of requests is asked: the description, with the input if there is one. */
export function requestOf({ taskDescription, input }: Pick<GivenWork, 'taskDescription' | 'input'>): unknown {
  return input === undefined ? taskDescription : { taskDescription, input };
}

/** Later, also if the handler is done at once: its reports follow the message that says that the work has begun. */
async function workOn(work: GivenWork, tasks: AgentTasks): Promise<unknown> {
  const { id, taskDescription, input, thread, from, capabilities, asker } = work;
  const parts = [{ text: taskDescription }, ...(input === undefined ? [] : [{ data: input }])];
  const message = { messageId: id, role: 'ROLE_USER', parts, contextId: thread, taskId: id } as const;
  const about = { ...(capabilities && { capabilities }), ...(asker !== undefined && { asker }) };
  const opening: TaskOpening = { id, contextId: thread, message, resumed: work.resumed, unasked: true, ...about };
  work.signal.addEventListener('abort', () => tasks.take(from, { id, cancel: true }));
  return tasks.run(work, opening);
}

function run(work: GivenWork, ended: Ended, begin: () => unknown): void {
  const failed = (error: unknown) => fail(work, ended, error);
  try {
    const value = begin();
    if (value instanceof Promise) value.then((settled) => finish(work, ended, settled)).catch(failed);
    else finish(work, ended, value);
  } catch (error) {
    failed(error);
  }
}

function finish(work: GivenWork, ended: Ended, value: unknown): void {
  if (isAsyncIterable(value)) return void follow(work, ended, value).catch((error) => fail(work, ended, error));
  const report = taskIn<TaskReport>(value);
  if (!report) return void complete(work, ended, value);
  const result = new WorkResult();
  hear(work, report, result);
  complete(work, ended, result.value);
}

/** Work that reports while it goes on: a report is progress or a piece of the result. */
async function follow(work: GivenWork, ended: Ended, source: AsyncIterable<unknown>): Promise<void> {
  const result = new WorkResult();
  for await (const item of source) {
    if (work.signal.aborted) return ended(work.signal.reason);
    const report = taskIn<TaskReport>(item);
    if (report) hear(work, report, result);
    else result.chunks.push(item);
  }
  if (work.signal.aborted) ended(work.signal.reason);
  else complete(work, ended, result.value);
}

function hear(work: GivenWork, report: TaskReport, result: WorkResult): void {
  switch (report.report) {
    case 'accepted':
    case 'took':
      return;
    case 'working':
      if (report.usage) work.progress({ [USAGE]: report.usage });
      if (report.waiting !== undefined) work.progress(waitingReport(report.waiting));
      if (report.parts) work.progress(contentOf(report.parts));
      return;
    case 'artifact': {
      const branch = branchOf(report.artifact);
      if (branch) work.progress({ [BRANCH]: branch });
      else result.addArtifact(report);
      return;
    }
    case 'message':
      result.messages.push(contentOf(report.parts));
      return;
    case 'rejected':
      if (report.error) throw new EclipticError(report.error.code, report.error.message, { ...report.error.details });
      throw new EclipticError('PROPOSAL_REJECTED', String(contentOf(report.parts)));
    default:
      throw new EclipticError('OPERATION_NOT_SUPPORTED', `a task that cannot ask reported "${report.report}"`);
  }
}

function complete(work: GivenWork, ended: Ended, value: unknown): void {
  const failed = (error: unknown) => fail(work, ended, error);
  try {
    work.finish(value ?? null, undefined, failed);
    ended();
  } catch (error) {
    failed(error);
  }
}

/** A failure of work that is over already is of no interest. */
function fail(work: GivenWork, ended: Ended, error: unknown): void {
  ended(error);
  work.fail(error).catch(() => {});
}

/** The result of work that reported: appended chunks of an artifact become one value. */
class WorkResult {
  /** Items that are no reports are pieces of the result itself. */
  readonly chunks: unknown[] = [];
  readonly messages: unknown[] = [];
  readonly #artifacts: Artifact[] = [];

  addArtifact({ artifact, append }: Extract<TaskReport, { report: 'artifact' }>): void {
    const index = this.#artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
    if (index < 0) this.#artifacts.push(artifact);
    else this.#artifacts[index] = append ? joined(this.#artifacts[index]!, artifact) : artifact;
  }

  /** One value where there is one, else the list of them. */
  get value(): unknown {
    const made = [...this.#artifacts.map(({ parts }) => contentOf(parts)), ...this.messages];
    const found = this.chunks.length > 0 ? this.chunks : made;
    return found.length > 1 ? found : found[0];
  }
}

/** The branch of the task, which is no part of its result. */
function branchOf({ name, parts }: Artifact): BranchReport | undefined {
  if (name !== BRANCH_ARTIFACT) return undefined;
  return branchIn(parts.find(({ data }) => data !== undefined)?.data);
}

/** Parts in their plainest form: text, or data, or the parts themselves. */
function contentOf(parts: readonly Part[]): unknown {
  const [only, ...others] = parts;
  if (!only || others.length > 0) return parts;
  return only.text ?? (only.data === undefined ? parts : only.data);
}
