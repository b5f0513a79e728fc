import { CallLimits } from '../../a2a/client/call-limits.js';
import { readArtifact, readParts } from '../../a2a/protocol/read-requests.js';
import type { Fields } from '../../a2a/protocol/reading.js';
import { textOf } from '../../a2a/protocol/simple.js';
import type { Message, Part } from '../../a2a/protocol/types.js';
import type { Agent } from '../../agent/agent.js';
import { TASK, type TaskOpening, type TaskReport, taskIn } from '../../agent/agent-tasks.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { RemoteAnswer } from './a2a-answer.js';
import { type DelegationTerms, type EndpointWay, metadataOf, partsOf } from './a2a-endpoint.js';
import type { A2ADelegation } from './a2a-types.js';

export interface MeshWayComponents {
  runtime: Runtime;
  /** The agent of this node that asks. */
  agent: Agent;
  /** Is that address known, and its node reachable? What it can, if so. */
  look: (address: string) => readonly string[] | undefined;
}

/** Without a word from the agent, where nobody says how long its work may take. */
const SILENCE_MS = 3_600_000;

/** An agent of another node of this mesh, asked as any agent asks another. */
export class MeshWay implements EndpointWay {
  readonly #components: MeshWayComponents;
  readonly #address: string;

  constructor(components: MeshWayComponents, address: string) {
    this.#components = components;
    this.#address = address;
  }

  async probe(): Promise<readonly string[]> {
    const capabilities = this.#components.look(this.#address);
    if (capabilities) return capabilities;
    throw new EclipticError('PEER_UNREACHABLE', `${this.#address} is not reachable`, {
      address: this.#address,
      sent: false,
    });
  }

  async delegate(delegation: A2ADelegation, correlationId: string, terms: DelegationTerms): Promise<unknown> {
    await this.probe();
    const { agent, runtime } = this.#components;
    const id = runtime.id();
    const limits = new CallLimits(runtime, terms, { silenceMs: SILENCE_MS });
    const onUpdate: DelegationTerms['onUpdate'] = (update) => {
      limits.heard();
      terms.onUpdate?.(update);
    };
    // The stream's end reaches an agent when it next says something; this, at once.
    limits.signal.addEventListener('abort', () => {
      void agent.send(this.#address, { [TASK]: { id, cancel: true } }, { thread: id }).catch(() => {});
    });
    try {
      return await limits.during(
        this.#work(id, delegation, correlationId, { ...terms, onUpdate, signal: limits.signal }),
      );
    } finally {
      limits.release();
    }
  }

  async #work(
    id: string,
    delegation: A2ADelegation,
    correlationId: string,
    { signal, onUpdate, onQuestion, self, chain }: DelegationTerms,
  ): Promise<unknown> {
    const { agent, runtime } = this.#components;
    const opening: TaskOpening = {
      id,
      contextId: runtime.id(),
      message: message(runtime.id(), partsOf(delegation), 'ROLE_USER'),
      metadata: metadataOf(correlationId, self, chain),
    };
    const answer = new RemoteAnswer();
    const hear = (event: Parameters<RemoteAnswer['add']>[0]) => {
      for (const update of answer.add(event)) onUpdate?.(update);
    };
    const about = { taskId: id, contextId: opening.contextId };
    const artifactId = runtime.id();
    let pieces = 0;
    const timeoutMs = Number.POSITIVE_INFINITY;
    const reports = agent.stream(this.#address, { [TASK]: opening }, { timeoutMs, signal });
    for await (const item of reports) {
      const report = taskIn<TaskReport>(item);
      if (!report) {
        // What is not reported as anything else is the result; one in pieces grows.
        hear({ artifactUpdate: { ...about, artifact: { artifactId, parts: toParts(item) }, append: pieces++ > 0 } });
      } else if (report.report === 'artifact') {
        const artifact = readArtifact(report.artifact, 'artifact');
        hear({ artifactUpdate: { ...about, artifact, append: report.append === true } });
      } else if (report.report === 'message') {
        hear({ message: message(runtime.id(), readParts(report as unknown as Fields, 'report'), 'ROLE_AGENT') });
      } else if (report.report !== 'accepted' && report.report !== 'took' && report.parts) {
        const words = message(runtime.id(), readParts(report as unknown as Fields, 'report'), 'ROLE_AGENT');
        hear({ statusUpdate: { ...about, status: { state: STATES[report.report], message: words } } });
        if (report.report === 'rejected') return answer.result();
        if (report.report === 'working') continue;
        if (report.report === 'auth-required' || !onQuestion) return answer.result();
        const said = await onQuestion({ kind: 'question', text: textOf(words.parts), data: words });
        const input = message(runtime.id(), [{ text: said }], 'ROLE_USER');
        await agent.send(this.#address, { [TASK]: { id, input } }, { thread: id });
        hear({ statusUpdate: { ...about, status: { state: 'TASK_STATE_WORKING' } } });
      }
    }
    hear({ statusUpdate: { ...about, status: { state: 'TASK_STATE_COMPLETED' } } });
    return answer.result();
  }

  close(): void {}
}

const STATES = {
  working: 'TASK_STATE_WORKING',
  'input-required': 'TASK_STATE_INPUT_REQUIRED',
  'auth-required': 'TASK_STATE_AUTH_REQUIRED',
  rejected: 'TASK_STATE_REJECTED',
} as const;

function message(messageId: string, parts: readonly Part[], role: Message['role']): Message {
  return { messageId, role, parts };
}

function toParts(value: unknown): readonly Part[] {
  return typeof value === 'string' ? [{ text: value }] : [{ data: value }];
}
