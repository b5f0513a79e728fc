import { z } from 'zod';
import type { AgentTask } from '../../src/agent/agent-tasks.js';
import type { Gateway, GatewayInit } from '../../src/http/gateway.js';
import { createNode, type EclipticNode, type NodeInit } from '../../src/node/compose.js';

/** One task that the agent `slow` holds until it is let go. */
export interface Held {
  readonly task: AgentTask;
  finish(value?: unknown): void;
  crash(error: unknown): void;
}

/** A served node with agents that handle tasks in typical ways. */
export class TaskNode {
  readonly node: EclipticNode;
  readonly gateway: Gateway;
  /** The tasks in progress of `slow`, by text. */
  readonly held: Map<string, Held>;

  private constructor(node: EclipticNode, gateway: Gateway, held: Map<string, Held>) {
    this.node = node;
    this.gateway = gateway;
    this.held = held;
  }

  /** A node with those agents, or without any. */
  static async start(init: GatewayInit = {}, nodeInit: NodeInit = {}, { agents = true } = {}): Promise<TaskNode> {
    const node = await createNode(nodeInit);
    const held = new Map<string, Held>();
    if (agents) TaskNode.#addAgents(node, held);
    const gateway = await node.serve({ port: 0, ...init });
    return new TaskNode(node, gateway, held);
  }

  static #addAgents(node: EclipticNode, held: Map<string, Held>): void {
    node.agent({ id: 'echo' }).onTask((task) => {
      task.progress('thinking');
      return `you said ${task.text}`;
    });
    node.agent({ id: 'plain' }).onRequest(({ payload }) => ({ got: payload }));
    node.agent({ id: 'quick' }).onTask((task) => task.reply(`hi ${task.text}`));
    node.agent({ id: 'asker' }).onTask(async (task) => {
      const { parts } = await task.ask('which one?');
      return `ok: ${parts[0]!.text}`;
    });
    node.agent({ id: 'guard' }).onTask(async (task) => {
      await task.askAuth('let me in');
      return 'in';
    });
    node.agent({ id: 'choosy' }).onTask((task) => task.reject('not for me'));
    node.agent({ id: 'broken' }).onTask(() => {
      throw new Error('no disk');
    });
    node.agent({ id: 'writer' }).onTask((task) => {
      const id = task.artifact('one ', { name: 'poem', lastChunk: false });
      task.artifact('two ', { id, append: true, lastChunk: false });
      task.artifact('three', { id, append: true });
    });
    node.agent({ id: 'slow' }).onTask(
      (task) =>
        new Promise((resolve, reject) => {
          held.set(task.text, { task, finish: resolve, crash: reject });
          task.signal.addEventListener('abort', () => reject(task.signal.reason));
        }),
    );
    node
      .agent({ id: 'tooled' })
      .tool('github_star_repo', { description: 'Stars.', inputSchema: z.object({}) }, () => 'starred')
      .onTask(({ skill }) => `did ${skill}`);
    // Takes further messages of its caller while it works, until one is `enough`.
    node.agent({ id: 'listener' }).onTask(
      (task) =>
        new Promise((resolve) => {
          const heard: string[] = [];
          task.onMessage(({ parts }) => {
            heard.push(parts[0]!.text!);
            if (heard.at(-1) === 'enough') resolve(heard.join(', '));
          });
        }),
    );
    node.agent({ id: 'silent' }).onRequest(
      ({ payload }) =>
        new Promise((resolve) => {
          held.set(String(payload), { task: undefined as never, finish: resolve, crash: resolve });
        }),
    );
  }

  get url(): string {
    return this.gateway.url;
  }

  get owner(): string {
    return this.gateway.tokens.owners;
  }

  token(name: string): string {
    return this.gateway.tokens.create(name).token;
  }

  /** `slow` has begun with the task of that text. */
  async begun(text: string): Promise<Held> {
    for (let tries = 0; tries < 500; tries++) {
      const held = this.held.get(text);
      if (held) return held;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error(`nobody began with ${text}`);
  }

  async post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'A2A-Version': '1.0',
        Authorization: `Bearer ${this.owner}`,
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      headers: { 'A2A-Version': '1.0', Authorization: `Bearer ${this.owner}`, ...headers },
    });
  }

  async rpc(method: string, params: unknown, headers: Record<string, string> = {}): Promise<RpcAnswer> {
    const answer = await this.post('/a2a/rpc', { jsonrpc: '2.0', id: 7, method, params }, headers);
    return (await answer.json()) as RpcAnswer;
  }

  /** The result; an error is a failure of the test. */
  async result<T = TaskResult>(method: string, params: unknown, headers: Record<string, string> = {}): Promise<T> {
    const answer = await this.rpc(method, params, headers);
    if (answer.error) throw new Error(JSON.stringify(answer.error));
    return answer.result as T;
  }

  /** A running task of `slow`. */
  async hold(text: string, headers: Record<string, string> = {}): Promise<string> {
    const params = { ...said(text), tenant: 'slow', configuration: { returnImmediately: true } };
    const { task } = await this.result('SendMessage', params, headers);
    await this.begun(text);
    await this.inState(task.id, 'TASK_STATE_WORKING', headers);
    return task.id;
  }

  /** Resolves once the task is in that state. */
  async inState(id: string, state: string, headers: Record<string, string> = {}): Promise<WireTask> {
    for (let tries = 0; tries < 1_000; tries++) {
      const task = await this.result<WireTask>('GetTask', { id }, headers);
      if (task.status.state === state) return task;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error(`the task is not ${state}`);
  }

  async stop(): Promise<void> {
    await this.node.stop();
  }
}

export interface RpcAnswer {
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: { code: number; message: string; data: readonly { reason?: string }[] };
}

export interface WireTask {
  readonly id: string;
  readonly contextId: string;
  readonly status: { state: string; timestamp: string; message?: { parts: { text: string }[] } };
  readonly history?: { messageId: string; role: string; parts: { text?: string }[] }[];
  readonly artifacts?: { artifactId: string; name?: string; parts: { text?: string; data?: unknown }[] }[];
}

export interface TaskResult {
  readonly task: WireTask;
}

let messages = 0;

/** Parameters of a send: that text, in a message of its own. */
export function said(text: string, more: object = {}): { message: Record<string, unknown> } {
  return { message: { messageId: `m-${++messages}`, role: 'ROLE_USER', parts: [{ text }], ...more } };
}

export interface WireEvent {
  readonly id: string | undefined;
  readonly data: Record<string, never> & {
    task?: WireTask;
    message?: { parts: { text: string }[] };
    statusUpdate?: { status: WireTask['status'] };
    artifactUpdate?: { append: boolean; lastChunk: boolean; artifact: { parts: { text: string }[] } };
    result?: WireEvent['data'];
  };
}

/** The events of an answer, as they come, until it ends. */
export async function* eventsOf(answer: Response): AsyncGenerator<WireEvent> {
  let text = '';
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const frames = text.split('\n\n');
    text = frames.pop()!;
    for (const frame of frames) {
      const lines = frame.split('\n');
      const data = lines.find((line) => line.startsWith('data: '))?.slice(6);
      if (data !== undefined) {
        yield { id: lines.find((line) => line.startsWith('id: '))?.slice(4), data: JSON.parse(data) };
      }
    }
  }
}

/** The kind of an event: the state, or `artifact`, or `message`. */
export function kindOf({ data }: WireEvent): string {
  const { task, statusUpdate, artifactUpdate } = data.result ?? data;
  if (task) return `task ${stateOf(task.status)}`;
  if (statusUpdate) return stateOf(statusUpdate.status);
  return artifactUpdate ? 'artifact' : 'message';
}

function stateOf({ state }: { state: string }): string {
  return state.replace('TASK_STATE_', '').toLowerCase();
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
