import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { stablePort } from './ports.js';

/** A request for a completion, as the server got it. */
export interface Completion {
  readonly model: string;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | null;
    readonly tool_calls?: readonly { readonly id: string; readonly function: { name: string; arguments: string } }[];
  }[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
  readonly response_format?: unknown;
  readonly headers: IncomingMessage['headers'];
}

/** What the model says: words, tool calls, or anything at all. */
export type Reply =
  | string
  | { readonly text?: string; readonly calls?: readonly (readonly [name: string, args: unknown])[]; finish?: string }
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  | ((response: ServerResponse) => void | Promise<void>);

export type Script = (completion: Completion, count: number) => Reply | Promise<Reply>;

/** A stand-in for an OpenAI-compatible model server: a script says what the model answers. */
export class ScriptedModel {
  readonly completions: Completion[] = [];
  script: Script;
  models: readonly string[] = ['test-model'];
  /** The bearer token that is asked for. */
  token: string | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;
  #opened = 0;

  private constructor(script: Script) {
    this.script = script;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error) => response.destroy(error as Error));
    });
    this.#server.on('connection', (socket) => {
      this.#opened++;
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(script: Script, port?: number): Promise<ScriptedModel> {
    const model = new ScriptedModel(script);
    await model.listen(port ?? (await stablePort()));
    return model;
  }

  async listen(port = this.#port): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(port, '127.0.0.1', resolve);
    });
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Connections so far. */
  get opened(): number {
    return this.#opened;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}/v1`;
  }

  /** As in `ecliptic.json`. */
  get config() {
    return { baseUrl: this.baseUrl, model: 'test-model' };
  }

  /** Ends all connections, as a killed server does. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      return void send(response, { status: 401, body: '{"error":{"message":"Incorrect API key provided"}}' });
    }
    if (request.url === '/v1/models') {
      const data = this.models.map((id) => ({ id, object: 'model' }));
      return void send(response, { status: 200, body: JSON.stringify({ object: 'list', data }) });
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const completion = { ...JSON.parse(Buffer.concat(chunks).toString()), headers: request.headers } as Completion;
    this.completions.push(completion);
    const reply = await this.script(completion, this.completions.length);
    if (typeof reply === 'function') return reply(response);
    if (typeof reply === 'object' && 'status' in reply) return void send(response, reply);
    stream(response, typeof reply === 'string' ? { text: reply } : reply);
  }
}

function send(response: ServerResponse, { status, headers, body = '' }: Extract<Reply, { status: number }>): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
}

/** One event of a stream. */
export function event(choice: object, rest: object = {}): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, finish_reason: null, ...choice }], ...rest })}\n\n`;
}

/** Streams an answer in pieces of a few characters, as models do. */
function stream(response: ServerResponse, { text = '', calls = [], finish }: Extract<Reply, { text?: string }>): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (let at = 0; at < text.length; at += 24) response.write(event({ delta: { content: text.slice(at, at + 24) } }));
  for (const [index, [name, args]] of calls.entries()) {
    const given = typeof args === 'string' ? args : JSON.stringify(args);
    const half = Math.ceil(given.length / 2);
    const first = { index, id: `call_${index}`, function: { name, arguments: given.slice(0, half) } };
    response.write(event({ delta: { tool_calls: [first] } }));
    response.write(event({ delta: { tool_calls: [{ index, function: { arguments: given.slice(half) } }] } }));
  }
  response.write(event({ delta: {}, finish_reason: finish ?? (calls.length > 0 ? 'tool_calls' : 'stop') }));
  const usage = { prompt_tokens: 100, completion_tokens: 10 };
  response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
}
