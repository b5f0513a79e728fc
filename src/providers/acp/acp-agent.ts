import { fenceMark, oneLine } from '../../mcp/fence.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ActionGate } from '../../system/approvals/action-gate.js';
import { Workspace } from '../../system/files/workspace.js';
import type { Child } from '../../system/process/child.js';
import type { WorkHandle } from '../host/pending-work.js';
import { changesFor, type SessionChoices } from './choices.js';
import { type AcpDescription, describeAgent, type PromptFile, promptBlocks } from './description.js';
import { type KeptConversation, type KeptConversations, summaryOf } from './kept-conversations.js';
import { answerAgent } from './requests.js';
import {
  type AcpSdk,
  AUTH_REQUIRED,
  addDetails,
  type ClientConnection,
  childStream,
  type InitializeResponse,
  type LoadSessionResponse,
  loadAcpSdk,
  type McpServer,
  type NewSessionResponse,
  type PromptRequest,
  type PromptResponse,
  rpcCode,
  withDetails,
} from './sdk.js';
import { Conversation, type MemoryUse, SessionPool } from './sessions.js';
import type { Terminals } from './terminals.js';
import { type AcpAnswer, Turn, type TurnTerms } from './turn.js';

export interface AcpAgentInit {
  readonly agent: string;
  readonly workspace: Workspace;
  readonly terminals: Terminals;
  readonly gate: ActionGate;
  readonly kept: KeptConversations;
  readonly mcpServers: (description: AcpDescription) => readonly McpServer[];
  readonly auth?: string | undefined;
  readonly choices?: SessionChoices | undefined;
  /** May the agent read and write files through this client? Default true. */
  readonly files?: boolean | undefined;
  /** Memory of the agent's processes. Default: unknown, with room for every session. */
  readonly memory?: (() => MemoryUse) | undefined;
}

interface AcpPrompt {
  readonly prompt: string;
  readonly files?: readonly PromptFile[] | undefined;
  readonly folder?: string | undefined;
}

const NO_LIMIT: MemoryUse = { usedBytes: undefined, limitBytes: Number.POSITIVE_INFINITY };
/** Any answer shows that the agent lives, "no such method" included. */
const PING = '_ecliptic/ping';
/** Not in the SDK any more, which has options instead. */
const SET_MODEL = 'session/set_model';
const REASON_CHARS = 200;
/** The key of the correlation id in the `_meta` of a prompt. */
const CORRELATION = 'ecliptic/correlationId';

/** An agent that speaks the Agent Client Protocol on its standard input and output. */
export class AcpAgent {
  readonly broken: Promise<EclipticError>;
  readonly #runtime: Runtime;
  readonly #init: AcpAgentInit;
  readonly #sdk: AcpSdk;
  readonly #connection: ClientConnection;
  readonly #sessions: SessionPool;
  readonly #conversations = new Map<string, Conversation>();
  #description!: AcpDescription;
  #needsLogin = false;
  /** Set when a prompt was refused for lack of a login, until a prompt succeeds. Some agents open sessions all the same. */
  #loginWanted: EclipticError | undefined;
  #heard: () => void = () => {};

  private constructor(runtime: Runtime, sdk: AcpSdk, child: Child, init: AcpAgentInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#sdk = sdk;
    const { stream, ended } = childStream(runtime, child, () => this.#heard());
    const find = (session: string) => this.#conversations.get(session);
    this.#connection = answerAgent(sdk, { ...init, find }).connect(stream);
    this.#sessions = new SessionPool({
      agent: init.agent,
      open: (key, spare, folder) => this.#open(key, spare, folder),
      close: (conversation) => this.#close(conversation),
      memory: init.memory ?? (() => NO_LIMIT),
    });
    // The questions of an agent that has exited need no answer.
    void child.exited.then(() => {
      for (const { turn } of this.#conversations.values()) turn?.cancel();
    });
    this.broken = new Promise((resolve) => {
      const fault = (reason: string) => {
        const message = `${init.agent} broke the Agent Client Protocol: ${reason}`;
        resolve(new EclipticError('PROVIDER_CRASHED', message, { reason: 'protocol' }));
      };
      const closed = async (reason: string) => {
        if (await child.runsOn()) fault(reason);
      };
      void ended.then((reason) => (reason.code === 'INVALID_FRAME' ? fault : closed)(reason.message));
      void child.inputClosed.then(() => closed('it takes no more input'));
    });
  }

  /** Initialises the protocol over the pipes of a child process. */
  static async open(runtime: Runtime, child: Child, init: AcpAgentInit): Promise<AcpAgent> {
    const sdk = await loadAcpSdk();
    const agent = new AcpAgent(runtime, sdk, child, init);
    const { files = true } = init;
    const greeting = {
      protocolVersion: sdk.PROTOCOL_VERSION,
      clientInfo: { name: 'ecliptic', version: VERSION },
      clientCapabilities: {
        fs: { readTextFile: files, writeTextFile: files },
        terminal: process.platform !== 'win32',
      },
    };
    const { initialize } = sdk.methods.agent;
    const response = await withDetails<InitializeResponse>(agent.#connection.agent.request(initialize, greeting));
    agent.#description = describeAgent(response, sdk.PROTOCOL_VERSION);
    return agent;
  }

  get description(): AcpDescription {
    return this.#description;
  }

  /** Does the agent require a login? That is a state, not a failure. */
  get needsLogin(): boolean {
    return this.#needsLogin || this.#loginWanted !== undefined;
  }

  /** Resolves when the agent has sent an answer, or any other message. */
  async ping(): Promise<void> {
    const said = new Promise<void>((resolve) => {
      this.#heard = resolve;
    });
    try {
      await Promise.race([said, this.#connection.agent.request(PING, {})]);
    } catch (error) {
      if (rpcCode(error) === undefined) throw error;
    }
  }

  /** Opens a session for the next conversation: only that shows whether the agent requires a login. */
  async prepare(): Promise<void> {
    await this.#sessions.prepare();
    if (this.#loginWanted) throw this.#loginWanted;
  }

  prompt(
    conversation: string,
    { prompt, files = [], folder }: AcpPrompt,
    terms: TurnTerms = {},
  ): WorkHandle<AcpAnswer> {
    const turn = new Turn(terms);
    const blocks = promptBlocks(prompt, files, this.description.prompts, this.#init.agent);
    const keep = () => this.#init.kept.asked(conversation, prompt);
    const work = (session: Conversation) => session.take(blocks, turn, keep);
    const done = this.#sessions.use(conversation, turn.signal, work, folder);
    return { done, cancel: () => turn.cancel() };
  }

  /** The session of a conversation is the one before where the agent can go on with it, else a new one. */
  async #open(key?: string, spare?: Promise<Conversation>, folder?: string): Promise<Conversation> {
    const { kept, workspace: own } = this.#init;
    const workspace = folder === undefined ? own : new Workspace(folder);
    if (key === undefined) return this.#create(workspace);
    const before = await kept.find(key);
    const earlier = before && (await this.#goOn(before, workspace));
    if (earlier instanceof Conversation) {
      spare?.then((one) => this.#close(one)).catch(() => {});
      return earlier;
    }
    const conversation = await (spare ?? this.#create(workspace));
    await kept.opened(key, conversation.sessionId, workspace.folder);
    if (before && earlier !== undefined && before.exchanges.length > 0) {
      const preface = summaryOf(before, fenceMark(this.#runtime));
      conversation.origin = { state: 'summarised', reason: earlier, preface };
    }
    return conversation;
  }

  /** The session of before, or why it cannot be used. */
  async #goOn({ session: sessionId, folder }: KeptConversation, workspace: Workspace): Promise<Conversation | string> {
    const { resumesSessions, loadsSessions } = this.#description;
    if (folder !== workspace.folder) return 'the agent works in another folder now';
    const open = this.#conversations.get(sessionId);
    if (open) return open;
    if (!resumesSessions && !loadsSessions) return 'the agent loads no sessions';
    const { methods } = this.#sdk;
    const method = resumesSessions ? methods.agent.session.resume : methods.agent.session.load;
    try {
      const answer = await this.#loggedIn<LoadSessionResponse>(() =>
        this.#connection.agent.request(method, { sessionId, ...this.#place(workspace) }),
      );
      const conversation = await this.#begin({ ...answer, sessionId }, workspace);
      conversation.origin = { state: 'loaded' };
      return conversation;
    } catch (error) {
      if (rpcCode(error) === undefined) throw error;
      return oneLine(describeError(error), REASON_CHARS);
    }
  }

  #place({ folder }: Workspace) {
    return { cwd: folder, mcpServers: [...this.#init.mcpServers(this.#description)] };
  }

  async #create(workspace: Workspace): Promise<Conversation> {
    const { methods } = this.#sdk;
    return this.#begin(
      await this.#loggedIn<NewSessionResponse>(() =>
        this.#connection.agent.request(methods.agent.session.new, this.#place(workspace)),
      ),
      workspace,
    );
  }

  async #begin(session: NewSessionResponse, workspace: Workspace): Promise<Conversation> {
    const { sessionId } = session;
    try {
      await this.#choose(session);
    } catch (error) {
      this.#closeSession(sessionId);
      throw error;
    }
    const conversation = new Conversation({
      sessionId,
      workspace,
      prompt: (prompt, turn) => this.#ask(sessionId, prompt, turn),
      cancel: () => {
        // An agent that cannot be told is about to exit.
        this.#connection.agent.notify(this.#sdk.methods.agent.session.cancel, { sessionId }).catch(() => {});
      },
    });
    this.#conversations.set(sessionId, conversation);
    return conversation;
  }

  async #ask(sessionId: string, prompt: PromptRequest['prompt'], turn: Turn): Promise<PromptResponse> {
    const { correlationId } = turn;
    const meta = correlationId === undefined ? undefined : { _meta: { [CORRELATION]: correlationId } };
    const request: PromptRequest = { sessionId, prompt: [...prompt], ...meta };
    const ask = () =>
      this.#connection.agent.request(this.#sdk.methods.agent.session.prompt, request).catch((error) => {
        // Claude explains a missing login in its answer, and not in the error.
        throw rpcCode(error) === AUTH_REQUIRED ? addDetails(error, turn.text) : error;
      });
    return this.#promptLoggedIn<PromptResponse>(ask);
  }

  async #choose(session: NewSessionResponse): Promise<void> {
    const { agent: name, choices } = this.#init;
    const { sessionId } = session;
    const { modeId, modelId, settings } = changesFor(name, session, choices ?? {});
    const { methods } = this.#sdk;
    const { agent } = this.#connection;
    if (modeId !== undefined) await agent.request(methods.agent.session.setMode, { sessionId, modeId });
    if (modelId !== undefined) await agent.request(SET_MODEL, { sessionId, modelId });
    for (const setting of settings) {
      await agent.request(methods.agent.session.setConfigOption, { sessionId, ...setting });
    }
  }

  #close({ sessionId }: Conversation): void {
    // An agent that closes no sessions keeps this one until it exits, so its conversation can go on in it.
    if (!this.description.closesSessions) return;
    this.#conversations.delete(sessionId);
    this.#closeSession(sessionId);
  }

  #closeSession(sessionId: string): void {
    if (!this.description.closesSessions) return;
    this.#connection.agent.request(this.#sdk.methods.agent.session.close, { sessionId }).catch(() => {});
  }

  async #promptLoggedIn<T>(ask: () => Promise<T>): Promise<T> {
    try {
      const answer = await this.#loggedIn(ask);
      this.#loginWanted = undefined;
      return answer;
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'LOGIN_REQUIRED') this.#loginWanted = error;
      throw error;
    }
  }

  /** Logs in first where the agent requires a login and the configuration names a method. */
  async #loggedIn<T>(work: () => Promise<T>): Promise<T> {
    try {
      const done = await withDetails(work());
      this.#needsLogin = false;
      return done;
    } catch (error) {
      if (rpcCode(error) !== AUTH_REQUIRED) throw error;
      const { auth: methodId } = this.#init;
      if (methodId !== undefined && !this.#needsLogin) {
        this.#needsLogin = true;
        await this.#connection.agent.request(this.#sdk.methods.agent.authenticate, { methodId });
        return this.#loggedIn(work);
      }
      this.#needsLogin = true;
      throw new EclipticError('LOGIN_REQUIRED', this.#howToLogIn(error), { authMethods: this.description.authMethods });
    }
  }

  #howToLogIn(error: unknown): string {
    const ways = this.description.authMethods.map(({ id, name }) => `${name} (${id})`);
    const offered = ways.length === 0 ? '' : `; it offers: ${ways.join(', ')}`;
    return `${this.#init.agent} wants its user to log in first (${describeError(error)})${offered}`;
  }
}
