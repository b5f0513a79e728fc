import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import {
  type Called,
  DIALECTS,
  type Dialect,
  type Offered,
  type ReadRequest,
  type Said,
  type ToolTurn,
} from './model-dialects.js';

/** The model's reaction to one request: a tool call, or a text, which ends its turn. */
export interface Step {
  /** The end of the tool's name: clients put a prefix before it. */
  readonly tool?: string;
  readonly input?: unknown;
  /** Several calls at once. */
  readonly tools?: readonly { readonly tool: string; readonly input?: unknown }[];
  readonly text?: string;
  /** The HTTP status with which the API refuses the request, such as 401 for a key that it does not know. */
  readonly status?: number;
}

/** A step, or a function that makes it of everything the model was shown so far; the client waits for it. */
export type Script = readonly (Step | ((seen: string) => Step | Promise<Step>))[];

/** A tool's result as the client handed it to the model. */
export interface Received {
  readonly tool: string;
  /** All texts in it, in order. */
  readonly text: string;
  /** The client's own value, with its flags. */
  readonly raw: unknown;
  readonly isError: boolean;
}

/** The script says that the API refuses this request. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number) {
    super(status === 401 ? 'invalid x-api-key' : `refused with ${status}`);
    this.status = status;
  }
}

const USAGE = { input: 100, output: 10 };
/** Requests that offer tools and are nevertheless no turn of the conversation. */
const ASIDE = /^\[SUGGESTION MODE/;
/** The tools by which clients let a model look for tools that they have not described yet. */
const SEARCHES: Readonly<Record<string, (name: string) => object>> = {
  ToolSearch: (name) => ({ query: `select:${name}`, max_results: 5 }),
  tool_search: (name) => ({ query: name }),
};

class Conversation {
  readonly results: Received[] = [];
  readonly prompts: string[] = [];
  readonly instructions: string[] = [];
  /** The names of the tools in each request. */
  readonly offers: (readonly string[])[] = [];
  /** Tools that the model had to search for before it could call them. */
  readonly searches: string[] = [];
  /** The results of tool searches. */
  readonly found: Received[] = [];
  /** The models that the client asked for. */
  readonly models = new Set<string>();
  seen = '';
  /** What the latest request showed: the conversation as the client has it. */
  latest: readonly string[] = [];
  readonly #known = new Set<string>();
  readonly #callNames = new Map<string, string>();
  #steps: Script;
  #at = 0;
  #answered = { turns: '', said: Promise.resolve({ calls: [] } as Omit<Said, 'id' | 'model' | 'usage'>) };

  constructor(steps: Script) {
    this.#steps = steps;
  }

  set steps(steps: Script) {
    this.#steps = steps;
    this.#at = 0;
    this.#answered.turns = '';
  }

  get isOver(): boolean {
    return this.#at >= this.#steps.length;
  }

  /** The client repeats the whole conversation with each request. */
  read({ turns, tools, model }: ReadRequest): void {
    this.models.add(model);
    this.offers.push(tools.map(({ name }) => name));
    this.latest = turns.map((turn) =>
      turn.role === 'tool' ? plainText(turn.content) : turn.role === 'model' ? '' : turn.text,
    );
    for (const [index, turn] of turns.entries()) {
      if (turn.role === 'model') continue;
      const key = turn.role === 'tool' ? `tool ${turn.call}` : `${turn.role} ${index} ${digest(turn.text)}`;
      if (this.#known.has(key)) continue;
      this.#known.add(key);
      if (turn.role === 'tool') this.#receive(turn);
      else (turn.role === 'user' ? this.prompts : this.instructions).push(turn.text);
      this.seen += `\n${turn.role === 'tool' ? plainText(turn.content) : turn.text}`;
    }
  }

  #receive({ call, tool = '', content, isError = false }: ToolTurn): void {
    const name = this.#callNames.get(call) ?? tool;
    const received = { tool: name, text: plainText(content), raw: content, isError };
    (name in SEARCHES ? this.found : this.results).push(received);
  }

  /** The next answer of the model. A repeated request gets the same answer. */
  next(request: ReadRequest, n: number): Promise<Omit<Said, 'id' | 'model' | 'usage'>> {
    const turns = digest(request.turns);
    if (turns !== this.#answered.turns) this.#answered = { turns, said: this.#compose(request, n) };
    return this.#answered.said;
  }

  async #compose({ tools }: ReadRequest, n: number): Promise<Omit<Said, 'id' | 'model' | 'usage'>> {
    const written = this.#steps[this.#at];
    if (written === undefined) return { text: 'ok', calls: [] };
    const step = typeof written === 'function' ? await written(this.seen) : written;
    if (step.status !== undefined) throw new Refusal(step.status);
    const wanted = step.tools ?? (step.tool === undefined ? [] : [{ tool: step.tool, input: step.input }]);
    const missing = wanted.find(({ tool }) => !findTool(tools, tool));
    if (missing) return this.#search(tools, missing.tool, n, step);
    this.#at++;
    const calls = wanted.map(({ tool, input = {} }, index) => this.#call(findTool(tools, tool)!, input, n, index));
    return { text: step.text, calls };
  }

  #call(tool: Offered, input: unknown, n: number, index: number): Called {
    const id = `call_${n}_${index}`;
    this.#callNames.set(id, tool.name);
    return { id, tool, input };
  }

  #search(tools: readonly Offered[], wanted: string, n: number, step: Step): Omit<Said, 'id' | 'model' | 'usage'> {
    const searcher = tools.find(({ name }) => name in SEARCHES);
    if (!searcher || this.searches.includes(wanted)) {
      throw new Error(`the client offers no tool ${wanted}: ${tools.map(({ name }) => name).join(', ')}`);
    }
    this.searches.push(wanted);
    const full = new RegExp(`[\\w.-]*[^a-zA-Z0-9\\s]${wanted}(?![\\w-])`).exec(this.seen)?.[0] ?? wanted;
    // The step is taken when the tool is there.
    this.#steps = [...this.#steps.slice(0, this.#at), step, ...this.#steps.slice(this.#at + 1)];
    return { calls: [this.#call(searcher, SEARCHES[searcher.name]!(full), n, 0)] };
  }
}

/**
 * A model behind the APIs of four vendors that follows a script, so that real coding agents can be tested without an
 * account, and a test can assert what their model is shown. It listens on the loopback interface only.
 */
export class ScriptedModel {
  readonly #server: Server;
  readonly #conversations = new Map<string, Conversation>();
  #requests = 0;
  /** Scripts that could not go on, and requests that could not be read. */
  readonly faults: string[] = [];

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#take(request, response).catch((error: Error) => {
        if (error instanceof Refusal) {
          const told = { type: 'authentication_error', code: error.status, message: error.message };
          response.setHeader('x-should-retry', 'false');
          sendJson(response, error.status, { type: 'error', error: told });
          return;
        }
        this.faults.push(error.stack ?? error.message);
        // Clients try again after most errors, but not after this one.
        if (!response.headersSent) sendJson(response, 400, { error: { message: error.message } });
      });
    });
  }

  static async start(): Promise<ScriptedModel> {
    const model = new ScriptedModel();
    await new Promise<void>((resolve) => model.#server.listen(0, '127.0.0.1', resolve));
    return model;
  }

  /** Sets the model's script for that conversation; returns the base URL for its client. */
  converse(name: string, script: Script): string {
    const known = this.#conversations.get(name);
    if (known) known.steps = script;
    else this.#conversations.set(name, new Conversation(script));
    return this.urlOf(name);
  }

  /** The base URL of that conversation. */
  urlOf(name: string): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${name}`;
  }

  of(name: string): Conversation {
    const conversation = this.#conversations.get(name);
    if (!conversation) throw new Error(`there is no conversation ${name}`);
    return conversation;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #take(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await bodyOf(incoming);
    const [, name = '', ...rest] = new URL(incoming.url!, 'http://localhost').pathname.split('/');
    const path = `/${rest.join('/')}`;
    const conversation = this.#conversations.get(name);
    const dialect = DIALECTS.find((each) => incoming.method === 'POST' && each.path.test(path));
    if (!conversation || !dialect) {
      sendJson(outgoing, /count_?tokens$/i.test(path) ? 200 : 404, { input_tokens: 1, totalTokens: 1, error: {} });
      return;
    }
    const request = dialect.read(JSON.parse(body) as never, path);
    const n = ++this.#requests;
    const last = request.turns.at(-1);
    const isAside =
      request.tools.length === 0 || request.schema !== undefined || (last?.role === 'user' && ASIDE.test(last.text));
    if (!isAside) conversation.read(request);
    const said = isAside ? { text: asideText(request), calls: [] } : await conversation.next(request, n);
    send(outgoing, dialect, request, { id: `s${n}`, model: request.model, usage: USAGE, ...said });
  }
}

function send(outgoing: ServerResponse, dialect: Dialect, { stream }: ReadRequest, said: Said): void {
  if (!stream) {
    sendJson(outgoing, 200, dialect.json(said));
    return;
  }
  outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const { event, data } of dialect.events(said)) {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    outgoing.write(`${event ? `event: ${event}\n` : ''}data: ${text}\n\n`);
  }
  outgoing.end();
}

function sendJson(outgoing: ServerResponse, status: number, value: unknown): void {
  outgoing.writeHead(status, { 'content-type': 'application/json' });
  outgoing.end(JSON.stringify(value));
}

/** The tool of that name, or the one whose name ends so after a separator. */
function findTool(tools: readonly Offered[], wanted: string): Offered | undefined {
  return (
    tools.find(({ name }) => name === wanted) ??
    tools.find(({ name }) => name.endsWith(wanted) && /[^a-zA-Z0-9]$/.test(name.slice(0, -wanted.length)))
  );
}

/** Titles, summaries and the like: no tools, or JSON of a schema. */
function asideText({ schema }: ReadRequest): string {
  return schema === undefined ? 'ok' : JSON.stringify(smallest(schema));
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
}

function smallest(schema: unknown): unknown {
  const { type, properties = {}, required = Object.keys(properties), enum: choices } = (schema ?? {}) as Schema;
  if (choices) return choices[0];
  switch (String(Array.isArray(type) ? type[0] : type).toLowerCase()) {
    case 'object':
      return Object.fromEntries(required.map((key) => [key, smallest(properties[key])]));
    case 'array':
      return [];
    case 'boolean':
      return false;
    case 'number':
    case 'integer':
      return 0;
    default:
      return 'ok';
  }
}

function plainText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(plainText).join('\n');
  if (typeof content !== 'object' || content === null) return String(content ?? '');
  const { text } = content as { text?: unknown };
  return typeof text === 'string' ? text : Object.values(content).map(plainText).join('\n');
}

function digest(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(value ?? null))
    .digest('base64');
}

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  return (incoming.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString();
}
