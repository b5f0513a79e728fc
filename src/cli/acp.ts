import { Readable, Writable } from 'node:stream';
import { serveEditor } from '../coding-agents/editor/editor-agent.js';
import type { EditorMesh, EditorTask, FileUse, Verdict } from '../coding-agents/editor/editor-mesh.js';
import type { ControlClient } from '../node/control/client.js';
import { loadAcpSdk } from '../providers/acp/sdk.js';
import { describeError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { connectOrStart } from './background-node.js';
import type { Invocation } from './command.js';

interface AcpValues {
  readonly to: string;
  readonly 'no-start'?: boolean;
}

type UseFile = Parameters<EditorMesh['offerFiles']>[0];

const MAX_HISTORY = 200;

/** Standard output belongs to the protocol. */
export async function serveAcp(invocation: Invocation<unknown, AcpValues>): Promise<void> {
  const runtime = systemRuntime();
  const since = runtime.now();
  const { to, 'no-start': waits = false } = invocation.values;
  const dataFolder = await invocation.dataFolder();
  const connect = () => (waits ? invocation.connect() : connectOrStart(runtime, dataFolder, invocation.env, since));
  const mesh = new ControlledMesh(runtime, to, connect);
  // Fails here, where the editor shows it, and not with the first prompt.
  await mesh.client();
  const { ndJsonStream } = await loadAcpSdk();
  const output = Writable.toWeb(process.stdout) as WritableStream<Uint8Array>;
  const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>;
  const connection = await serveEditor({ runtime, mesh, agent: to }, ndJsonStream(output, input));
  await connection.closed;
  process.exit(0);
}

/** The mesh over the control socket of this machine's node. */
class ControlledMesh implements EditorMesh {
  readonly #runtime: Runtime;
  readonly #agent: string;
  readonly #connect: () => Promise<ControlClient>;
  #client: Promise<ControlClient> | undefined;
  #use: UseFile | undefined;
  #offered: ControlClient | undefined;

  constructor(runtime: Runtime, agent: string, connect: () => Promise<ControlClient>) {
    this.#runtime = runtime;
    this.#agent = agent;
    this.#connect = connect;
  }

  /** A node that was restarted is found again with the next use. */
  client(): Promise<ControlClient> {
    if (this.#client) return this.#client;
    const connecting = this.#connect();
    const forget = () => {
      if (this.#client === connecting) this.#client = undefined;
    };
    this.#client = connecting;
    connecting.then((client) => {
      this.#offer(client);
      void client.closed.then(forget);
    }, forget);
    return connecting;
  }

  async send({ parts, context }: EditorTask, onEvent: Parameters<EditorMesh['send']>[1]): Promise<void> {
    const text = parts.length === 1 ? (parts[0]!.text ?? '') : '';
    // A single text goes as text, so that the task reads like any other.
    const content = text === '' ? { parts: parts.map((part) => ({ ...part })) } : { text };
    await (await this.client()).call('task.send', { to: this.#agent, context, ...content }, onEvent);
  }

  async answer(id: string, text: string): Promise<void> {
    await (await this.client()).call('task.answer', { id, text });
  }

  async cancel(id: string): Promise<void> {
    await (await this.client()).call('task.cancel', { id });
  }

  async approval(id: string) {
    const { items } = await (await this.client()).call('waiting');
    return items.find((item) => item.id === `approval:${id}` || item.id.startsWith(`approval:${id}@`));
  }

  async decide(id: string, action: Verdict): Promise<void> {
    await (await this.client()).call('waiting.answer', { id, action });
  }

  async history(context: string) {
    const client = await this.client();
    const rows = await client.call('tasks', { kind: 'a2a', context, limit: MAX_HISTORY });
    const oldestFirst = [...rows].sort((a, b) => a.createdAt - b.createdAt);
    return Promise.all(oldestFirst.map(async ({ id }) => (await client.call('task', { id })).task));
  }

  async offerFiles(use: UseFile, signal: AbortSignal): Promise<void> {
    this.#use = use;
    signal.addEventListener('abort', () => void this.#client?.then((client) => client.close()).catch(() => {}));
    this.#offer(await this.client());
  }

  /** To each node that it connects to, for as long as it is connected. */
  #offer(client: ControlClient): void {
    const use = this.#use;
    if (!use || this.#offered === client) return;
    this.#offered = client;
    const session = this.#runtime.id();
    const onEvent = ({ call, ...asked }: FileUse & { readonly call: number }) => {
      const answer = (said: { result: string } | { error: string }) =>
        client.call('editor.answer', { session, call, ...said });
      use(asked as FileUse)
        .then(
          (result) => answer({ result }),
          (error) => answer({ error: describeError(error) }),
        )
        .catch(() => {});
    };
    client.call('editor.open', { session, to: this.#agent }, onEvent).catch((error) => {
      this.#runtime.logger.warn({ err: error }, 'the files of the editor are not offered');
    });
  }
}
