import { CallLimits } from '../../a2a/client/call-limits.js';
import { textOf } from '../../a2a/protocol/simple.js';
import type { TaskInput } from '../../a2a/protocol/task-machine.js';
import type { Message, Part, StreamResponse } from '../../a2a/protocol/types.js';
import type { Agent } from '../../agent/agent.js';
import { TaskCall } from '../../agent/task-call.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { A2ADelegation } from './a2a-types.js';
import { type DelegationTerms, type EndpointTransport, metadataOf, partsOf, RemoteAnswer } from './http-transport.js';

interface MeshTransportComponents {
  runtime: Runtime;
  agent: Agent;
  /** The capabilities of an agent that is known and reachable; else undefined. */
  look: (address: string) => readonly string[] | undefined;
}

/** Longest silence of an agent whose work has no time limit. */
const SILENCE_MS = 3_600_000;

/** An agent of another node of this mesh. */
export class MeshTransport implements EndpointTransport {
  readonly #components: MeshTransportComponents;
  readonly #address: string;

  constructor(components: MeshTransportComponents, address: string) {
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
    const { runtime } = this.#components;
    const limits = new CallLimits(runtime, terms, { silenceMs: SILENCE_MS });
    const onUpdate: DelegationTerms['onUpdate'] = (update) => {
      limits.heard();
      terms.onUpdate?.(update);
    };
    try {
      return await limits.during(this.#work(delegation, correlationId, { ...terms, onUpdate, signal: limits.signal }));
    } finally {
      limits.release();
    }
  }

  #work(
    delegation: A2ADelegation,
    correlationId: string,
    { signal, onUpdate, onQuestion, self, chain }: DelegationTerms,
  ): Promise<unknown> {
    const { agent, runtime } = this.#components;
    const id = runtime.id();
    const contextId = runtime.id();
    const message = toMessage(runtime.id(), partsOf(delegation), 'ROLE_USER');
    const opening = { id, contextId, message, metadata: metadataOf(correlationId, self, chain) };
    const about = { taskId: id, contextId };
    const answer = new RemoteAnswer();
    const hear = (event: StreamResponse) => {
      for (const update of answer.add(event)) onUpdate?.(update);
    };
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => {
        call.stop();
        reject(error);
      };
      const finish = () => {
        call.stop();
        try {
          resolve(answer.result());
        } catch (error) {
          reject(error);
        }
      };
      const ask = async (words: Message) => {
        const said = await onQuestion!({ kind: 'question', text: textOf(words.parts), data: words });
        await call.say(toMessage(runtime.id(), [{ text: said }], 'ROLE_USER'));
        hear({ statusUpdate: { ...about, status: { state: 'TASK_STATE_WORKING' } } });
      };
      const call = new TaskCall(runtime, agent, this.#address, opening, {
        usage: (data) => onUpdate?.({ kind: 'usage', text: '', data }),
        message: (parts) => hear({ message: toMessage(runtime.id(), parts, 'ROLE_AGENT') }),
        input: (input) => {
          hear(eventOf(input, about));
          if (input.type === 'status' || input.type === 'auth-required') finish();
          else if (input.type !== 'input-required') return;
          else if (onQuestion) ask(input.message).catch(fail);
          else finish();
        },
        ended: (error) => {
          if (error !== undefined) return reject(error);
          hear({ statusUpdate: { ...about, status: { state: 'TASK_STATE_COMPLETED' } } });
          finish();
        },
      });
      signal.addEventListener('abort', () => fail(signal.reason));
      if (signal.aborted) fail(signal.reason);
      else call.work();
    });
  }

  close(): void {}
}

const STATES = {
  'agent-message': 'TASK_STATE_WORKING',
  'input-required': 'TASK_STATE_INPUT_REQUIRED',
  'auth-required': 'TASK_STATE_AUTH_REQUIRED',
  status: 'TASK_STATE_REJECTED',
} as const;

/** What the agent reports, as an A2A server would stream it. */
function eventOf(input: TaskInput, about: { taskId: string; contextId: string }): StreamResponse {
  if (input.type === 'artifact')
    return { artifactUpdate: { ...about, artifact: input.artifact, append: input.append } };
  const { type, message } = input as TaskInput & { type: keyof typeof STATES; message: Message };
  return { statusUpdate: { ...about, status: { state: STATES[type], message } } };
}

function toMessage(messageId: string, parts: readonly Part[], role: Message['role']): Message {
  return { messageId, role, parts };
}
