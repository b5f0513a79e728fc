import type { Credentials } from '../../src/a2a/client/credentials.js';
import type { AgentTask } from '../../src/agent/agent-tasks.js';
import type { Gateway, GatewayInit } from '../../src/http/gateway.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import type { A2ADelegation, A2AEndpoint } from '../../src/providers/a2a/a2a-types.js';
import { stablePort } from '../ports.js';

/** A real A2A server on this machine: a separate node whose agent executes the words of a task. */
export class RemoteAgent {
  readonly name: string;
  /** Tasks that came, oldest first. */
  readonly tasks: AgentTask[] = [];
  readonly #waiting: (() => void)[] = [];
  #node!: EclipticNode;
  #gateway!: Gateway;

  readonly #init: GatewayInit;

  private constructor(name: string, init: GatewayInit) {
    this.name = name;
    this.#init = init;
  }

  static async start(name: string, init: GatewayInit = {}): Promise<RemoteAgent> {
    const remote = new RemoteAgent(name, init);
    await remote.start();
    return remote;
  }

  async start(port?: number): Promise<void> {
    this.#node = await createNode();
    const agent = this.#node.agent({ id: 'worker', description: `Works for ${this.name}.` });
    agent.tool('translate', { description: 'Translates.' }, () => 'done').onTask((task) => this.#work(task));
    this.#gateway = await this.#node.serve({ ...this.#init, port: port ?? (await stablePort()) });
  }

  /** Gone, as if its machine were. It can be started again at the same place. */
  async stop(): Promise<void> {
    await this.#node.stop();
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get url(): string {
    return this.#gateway.url;
  }

  get credentials(): Credentials {
    return { bearer: this.#gateway.tokens.owners };
  }

  endpoint(priority: number, capabilities: readonly string[] = []): A2AEndpoint {
    return { id: this.name, url: this.url, priority, capabilities };
  }

  /** Resolves when the next task has come, unless one with these words is there. */
  async begun(text: string): Promise<AgentTask> {
    for (;;) {
      const found = this.tasks.find((task) => task.text === text);
      if (found) return found;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  async #work(task: AgentTask): Promise<unknown> {
    this.tasks.push(task);
    for (const resolve of this.#waiting.splice(0)) resolve();
    switch (task.text) {
      case 'wait':
        return new Promise((_, reject) => {
          task.signal.addEventListener('abort', () => reject(task.signal.reason));
        });
      case 'fail':
        throw new Error('the disk is full');
      case 'reject':
        return task.reject('not for me');
      case 'tell':
        task.progress('half way');
        task.artifact('one ', { id: 'a', lastChunk: false });
        task.artifact('two', { id: 'a', append: true });
        return undefined;
      case 'ask':
        return `you said ${(await task.ask('which one?')).parts[0]!.text}`;
      case 'data':
        return { from: this.name, context: task.message.parts[1]?.data };
      default:
        return `${this.name} did ${task.text}`;
    }
  }
}

export function delegation(taskDescription: string, ...requiredCapabilities: string[]): A2ADelegation {
  return { taskDescription, requiredCapabilities, context: {} };
}
