import {
  type AcpSdk,
  type AgentConnection,
  type AgentContext,
  loadAcpSdk,
  type RequestPermissionRequest,
  type Stream,
} from '../../providers/acp/sdk.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { type EditorApproval, type EditorMesh, type FileUse, VERDICTS } from './editor-mesh.js';
import { EditorSession, type EditorView } from './editor-session.js';
import { partsOfPrompt } from './prompt-parts.js';

export interface EditorAgentInit {
  readonly runtime: Runtime;
  readonly mesh: EditorMesh;
  /** The agent's name on the mesh, for the editor to show. */
  readonly agent: string;
}

const OPTIONS = [
  { optionId: 'allow-once', name: 'Allow once', kind: 'allow_once' },
  { optionId: 'allow-always', name: 'Always allow this', kind: 'allow_always' },
  { optionId: 'deny', name: 'Reject', kind: 'reject_once' },
] as const;

const MAX_SESSIONS = 64;
const MAX_QUESTION_CHARS = 20_000;

/** An agent of the mesh, as an agent of the Agent Client Protocol for the editor at the other end of the stream. */
export async function serveEditor(init: EditorAgentInit, stream: Stream): Promise<AgentConnection> {
  const sdk = await loadAcpSdk();
  const { agent } = sdk.methods;
  const editor = new EditorAgent(sdk, init);
  const answering =
    <P, R>(answer: (params: P, client: AgentContext, signal: AbortSignal) => R | Promise<R>) =>
    async ({ params, client, signal }: { params: P; client: AgentContext; signal: AbortSignal }): Promise<R> => {
      try {
        return await answer(params, client, signal);
      } catch (error) {
        throw refusal(sdk, error);
      }
    };
  const connection = sdk
    .agent({ name: 'ecliptic' })
    .onRequest(
      agent.initialize,
      answering(({ clientCapabilities }) => {
        editor.files = { read: clientCapabilities?.fs?.readTextFile, write: clientCapabilities?.fs?.writeTextFile };
        return {
          protocolVersion: sdk.PROTOCOL_VERSION,
          agentInfo: { name: init.agent, title: `${init.agent} (Ecliptic)`, version: VERSION },
          agentCapabilities: {
            loadSession: true,
            promptCapabilities: { image: true, audio: true, embeddedContext: true },
            sessionCapabilities: { resume: {}, close: {} },
          },
          authMethods: [],
        };
      }),
    )
    .onRequest(
      agent.authenticate,
      answering(() => ({})),
    )
    .onRequest(
      agent.session.new,
      answering((_, client) => ({ sessionId: editor.open(init.runtime.id(), client).id })),
    )
    .onRequest(
      agent.session.load,
      answering(async ({ sessionId }, client) => {
        await editor.open(sessionId, client).replay();
        return {};
      }),
    )
    .onRequest(
      agent.session.resume,
      answering(({ sessionId }, client) => {
        editor.open(sessionId, client);
        return {};
      }),
    )
    .onRequest(
      agent.session.close,
      answering(({ sessionId }) => {
        editor.close(sessionId);
        return {};
      }),
    )
    .onRequest(
      agent.session.prompt,
      answering(async ({ sessionId, prompt }, _, signal) => {
        const session = editor.find(sessionId);
        const parts = await partsOfPrompt(prompt, editor.reader(sessionId));
        const cancel = () => session.cancel();
        signal.addEventListener('abort', cancel);
        try {
          return { stopReason: await session.prompt(parts) };
        } finally {
          signal.removeEventListener('abort', cancel);
        }
      }),
    )
    .onNotification(agent.session.cancel, ({ params }) => editor.find(params.sessionId).cancel())
    .connect(stream);
  editor.serveFiles(connection);
  return connection;
}

/** The sessions of one editor. */
class EditorAgent {
  files: { readonly read?: boolean | undefined; readonly write?: boolean | undefined } = {};
  readonly #sdk: AcpSdk;
  readonly #init: EditorAgentInit;
  readonly #sessions = new Map<string, EditorSession>();
  #client: AgentContext | undefined;
  /** The user lets the agent write until the editor closes. */
  #mayWrite = false;

  constructor(sdk: AcpSdk, init: EditorAgentInit) {
    this.#sdk = sdk;
    this.#init = init;
  }

  open(id: string, client: AgentContext): EditorSession {
    this.#client = client;
    if (!this.#sessions.has(id) && this.#sessions.size >= MAX_SESSIONS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_SESSIONS} sessions are open; close one`);
    }
    const session = this.#sessions.get(id) ?? new EditorSession(id, this.#init.mesh, this.#view(id, client));
    this.#sessions.set(id, session);
    return session;
  }

  find(id: string): EditorSession {
    const session = this.#sessions.get(id);
    if (!session)
      throw new EclipticError('RESOURCE_NOT_FOUND', `there is no session "${cutText(id, 64)}"`, { path: id });
    return session;
  }

  close(id: string): void {
    this.find(id).cancel();
    this.#sessions.delete(id);
  }

  /** Reads files through the editor, which knows what is not saved yet. */
  reader(sessionId: string): ((path: string) => Promise<string>) | undefined {
    const client = this.#client;
    if (!this.files.read || !client) return undefined;
    const { readTextFile } = this.#sdk.methods.client.fs;
    return async (path) => (await client.request(readTextFile, { sessionId, path })).content;
  }

  /** Offers the files of the latest session to the agent, as long as the editor is connected. */
  serveFiles({ signal }: AgentConnection): void {
    const { mesh, runtime } = this.#init;
    mesh
      .offerFiles((asked) => this.#useFile(asked), signal)
      .catch((error) => runtime.logger.warn({ err: error }, 'the files of the editor are not offered'));
  }

  async #useFile(asked: FileUse): Promise<string> {
    const client = this.#client;
    const sessionId = [...this.#sessions.keys()].at(-1);
    if (!client || sessionId === undefined)
      throw new EclipticError('RESOURCE_NOT_FOUND', 'the editor has no session open');
    const { fs } = this.#sdk.methods.client;
    const { path } = asked;
    if (asked.use === 'read') {
      if (!this.files.read) throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the editor lets no files be read');
      const { line, limit } = asked;
      const range = { ...(line !== undefined && { line }), ...(limit !== undefined && { limit }) };
      return (await client.request(fs.readTextFile, { sessionId, path, ...range })).content;
    }
    if (!this.files.write) throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the editor lets no files be written');
    await this.#requireLeave(client, sessionId, asked);
    await client.request(fs.writeTextFile, { sessionId, path, content: asked.content });
    return 'written';
  }

  /** The user sees each change before it is made. */
  async #requireLeave(
    client: AgentContext,
    sessionId: string,
    { path, content }: Extract<FileUse, { use: 'write' }>,
  ): Promise<void> {
    if (this.#mayWrite) return;
    const before = await this.reader(sessionId)?.(path).catch(() => undefined);
    const diff = { type: 'diff' as const, path, newText: content, ...(before !== undefined && { oldText: before }) };
    const toolCallId = `write-${this.#init.runtime.id()}`;
    const request: RequestPermissionRequest = {
      sessionId,
      toolCall: { toolCallId, title: `${this.#init.agent} writes ${path}`, kind: 'edit', content: [diff] },
      options: [...OPTIONS],
    };
    const { outcome } = await client.request(this.#sdk.methods.client.session.requestPermission, request);
    const verdict = outcome.outcome === 'selected' ? outcome.optionId : 'deny';
    this.#mayWrite = verdict === 'allow-always';
    if (verdict === 'allow-once' || this.#mayWrite) return;
    throw new EclipticError('PROVIDER_POLICY_DENIED', `the user of the editor did not let ${path} be written`);
  }

  #view(sessionId: string, client: AgentContext): EditorView {
    const { session } = this.#sdk.methods.client;
    return {
      update: (update) => void client.notify(session.update, { sessionId, update }).catch(() => {}),
      ask: async (toolCallId, approval, signal) => {
        const toolCall = { toolCallId, title: approval.title, content: contentOf(approval) };
        const request: RequestPermissionRequest = { sessionId, toolCall, options: [...OPTIONS] };
        const answered = client.request(session.requestPermission, request, { cancellationSignal: signal });
        const { outcome } = await answered.catch((error) => {
          if (signal.aborted) return { outcome: { outcome: 'cancelled' as const } };
          throw error;
        });
        return outcome.outcome === 'selected' ? VERDICTS.find((one) => one === outcome.optionId) : undefined;
      },
    };
  }
}

function contentOf({ details, diff }: EditorApproval) {
  const facts = details.map(({ label, text }) => `${label}: ${text}`).join('\n');
  const change = diff.length === 0 ? '' : `\n\`\`\`diff\n${diff.join('\n')}\n\`\`\``;
  const text = cutText(`${facts}${change}`, MAX_QUESTION_CHARS);
  return text === '' ? [] : [{ type: 'content' as const, content: { type: 'text' as const, text } }];
}

function refusal(sdk: AcpSdk, error: unknown): Error {
  if (error instanceof sdk.RequestError) return error;
  const { code } = error instanceof EclipticError ? error : { code: 'HANDLER_FAILED' };
  const words = describeError(error);
  if (code === 'RESOURCE_NOT_FOUND') return sdk.RequestError.resourceNotFound(words);
  if (code === 'CONTENT_TYPE_NOT_SUPPORTED') return sdk.RequestError.invalidParams({ code }, words);
  if (code === 'QUEUE_FULL') return sdk.RequestError.invalidRequest({ code }, words);
  return sdk.RequestError.internalError({ code, details: words }, words);
}
