import { describeError, EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ActionGate } from '../../system/approvals/action-gate.js';
import type { Workspace } from '../../system/files/workspace.js';
import type { Child } from '../../system/process/child.js';
import type { WorkHandle } from '../host/pending-work.js';
import { type AcpDescription, describeAgent, type PromptFile, promptBlocks } from './description.js';
import { answerAgent } from './requests.js';
import {
  type AcpSdk,
  AUTH_REQUIRED,
  addDetails,
  type ClientConnection,
  childStream,
  type InitializeResponse,
  loadAcpSdk,
  type McpServer,
  type NewSessionResponse,
  type PromptRequest,
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
  readonly mcpServers: (description: AcpDescription) => readonly McpServer[];
  readonly auth?: string | undefined;
  /** Id of the mode that sessions begin in. Default: the agent's own choice. */
  readonly mode?: string | undefined;
  /** May the agent read and write files through this client? Default true. */
  readonly files?: boolean | undefined;
  /** Memory of the agent's processes. Default: unknown, with room for every session. */
  readonly memory?: (() => MemoryUse) | undefined;
}

interface AcpPrompt {
  readonly prompt: string;
  readonly files?: readonly PromptFile[] | undefined;
}

const NO_LIMIT: MemoryUse = { usedBytes: undefined, limitBytes: Number.POSITIVE_INFINITY };
/** Any answer shows that the agent lives, "no such method" included. */
const PING = '_ecliptic/ping';
/** The key of the correlation id in the `_meta` of a prompt. */
const CORRELATION = 'ecliptic/correlationId';

/** An agent that speaks the Agent Client Protocol on its standard input and output. */
export class AcpAgent {
  readonly broken: Promise<EclipticError>;
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
    this.#init = init;
    this.#sdk = sdk;
    const { stream, ended } = childStream(runtime, child, () => this.#heard());
    const find = (session: string) => this.#conversations.get(session);
    this.#connection = answerAgent(sdk, { ...init, find }).connect(stream);
    this.#sessions = new SessionPool({
      agent: init.agent,
      open: () => this.#open(),
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

  prompt(conversation: string, { prompt, files = [] }: AcpPrompt, terms: TurnTerms = {}): WorkHandle<AcpAnswer> {
    const turn = new Turn(terms);
    const blocks = promptBlocks(prompt, files, this.description.prompts, this.#init.agent);
    const done = this.#sessions.use(conversation, turn.signal, (session) => session.take(blocks, turn));
    return { done, cancel: () => turn.cancel() };
  }

  async #open(): Promise<Conversation> {
    const { workspace, mcpServers } = this.#init;
    const { methods } = this.#sdk;
    const request = { cwd: workspace.folder, mcpServers: [...mcpServers(this.#description)] };
    const session = await this.#loggedIn<NewSessionResponse>(() =>
      this.#connection.agent.request(methods.agent.session.new, request),
    );
    const { sessionId } = session;
    try {
      this.#requireModel(session);
      await this.#setMode(session);
    } catch (error) {
      this.#closeSession(sessionId);
      throw error;
    }
    const conversation = new Conversation({
      sessionId,
      prompt: async (prompt, turn) => {
        const { correlationId } = turn;
        const meta = correlationId === undefined ? undefined : { _meta: { [CORRELATION]: correlationId } };
        const request: PromptRequest = { sessionId, prompt: [...prompt], ...meta };
        const ask = () =>
          this.#connection.agent.request(methods.agent.session.prompt, request).catch((error) => {
            // Claude explains a missing login in its answer, and not in the error.
            throw rpcCode(error) === AUTH_REQUIRED ? addDetails(error, turn.text) : error;
          });
        const { stopReason } = await this.#promptLoggedIn(ask);
        return stopReason;
      },
      cancel: () => {
        // An agent that cannot be told is about to exit.
        this.#connection.agent.notify(methods.agent.session.cancel, { sessionId }).catch(() => {});
      },
    });
    this.#conversations.set(sessionId, conversation);
    return conversation;
  }

  /** An agent that offers a choice of models and has none fails at every prompt, with an error that hides why. */
  #requireModel({ configOptions }: NewSessionResponse): void {
    const lacks = configOptions?.some(
      (option) => option.category === 'model' && option.type === 'select' && option.options.length === 0,
    );
    if (!lacks) return;
    const message = `${this.#init.agent} has no model; choose one in its own settings, or log in to a service that has some`;
    throw new EclipticError('INVALID_CONFIG', message);
  }

  /** A mode that the agent does not have would leave it in a more permissive one. */
  async #setMode({ sessionId, modes }: NewSessionResponse): Promise<void> {
    const { mode: modeId, agent } = this.#init;
    if (modeId === undefined || modes?.currentModeId === modeId) return;
    const ids = (modes?.availableModes ?? []).map(({ id }) => id);
    if (!ids.includes(modeId)) {
      const known = ids.length === 0 ? 'it names none' : `it has: ${ids.join(', ')}`;
      throw new EclipticError('INVALID_CONFIG', `${agent} has no mode "${modeId}"; ${known}`, {
        mode: modeId,
        modes: ids,
      });
    }
    await this.#connection.agent.request(this.#sdk.methods.agent.session.setMode, { sessionId, modeId });
  }

  #close({ sessionId }: Conversation): void {
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
