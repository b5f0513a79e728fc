import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, watch, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** The action of a fake client when its agent gets a turn. */
export type OnPrompt = (text: string) => void;

/** A session of Claude Code, as far as its inbox is known: it takes any line, and acts on those of the right shape. */
export class FakeClaude {
  readonly path: string;
  readonly token = 'b1946ac92492d2347c6235b4d2611184';
  readonly lines: unknown[] = [];
  onPrompt: OnPrompt = () => {};
  /** The shape that it wants; versions to come may want another. */
  wants = (frame: { type?: unknown; message?: { content?: unknown } }): string | undefined =>
    frame.type === 'user' && typeof frame.message?.content === 'string' && frame.message.content !== ''
      ? frame.message.content
      : undefined;
  readonly #server: Server;

  private constructor(path: string) {
    this.path = path;
    this.#server = createServer((socket) => {
      let child = false;
      socket.on('error', () => {});
      createInterface({ input: socket }).on('line', (line) => {
        const frame = JSON.parse(line) as { type?: unknown; token?: unknown };
        this.lines.push(frame);
        if (frame.type === 'auth') child = frame.token === this.token;
        const text = child ? this.wants(frame) : undefined;
        if (text !== undefined) this.onPrompt(text);
      });
    });
  }

  static async start(folder: string): Promise<FakeClaude> {
    const claude = new FakeClaude(join(folder, 'inbox.sock'));
    claude.#server.listen(claude.path);
    await once(claude.#server, 'listening');
    return claude;
  }

  get env(): Record<string, string> {
    return { CLAUDE_CODE_MESSAGING_SOCKET: this.path, CLAUDE_CODE_MESSAGING_TOKEN: this.token };
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** A Codex home with a thread in it, and a `codex` whose queue takes everything. */
export class FakeCodex {
  readonly home: string;
  readonly thread = '01a072a7-6d07-76a1-828b-300553a73a70';
  readonly bin: string;
  onPrompt: OnPrompt = () => {};
  readonly #queue: string;
  #writer: ChildProcess | undefined;
  #taken = 0;
  #watcher: { close(): void } | undefined;

  constructor(folder: string) {
    this.home = join(folder, 'codex-home');
    this.bin = join(folder, 'codex-bin');
    this.#queue = join(this.home, 'queue');
    mkdirSync(join(this.home, 'thread-writer-locks'), { recursive: true });
    mkdirSync(this.bin, { recursive: true });
    writeFileSync(this.#lock, '');
    writeFileSync(this.#queue, '');
    const script =
      '#!/bin/sh\n[ "$1 $2 $4" = "queue --thread --message" ] || exit 64\nprintf "%s\\t%s\\n" "$3" "$5" >> "$CODEX_HOME/queue"\n';
    writeFileSync(join(this.bin, 'codex'), script, { mode: 0o755 });
  }

  get env(): Record<string, string> {
    return { CODEX_HOME: this.home, PATH: `${this.bin}:${process.env.PATH}` };
  }

  /** Everything that was ever queued, also for unknown threads. */
  get queued(): string[] {
    return readFileSync(this.#queue, 'utf8').split('\n').filter(Boolean);
  }

  /** A process runs the thread: it holds the writer lock. One that is `deaf` never takes anything from the queue. */
  async run({ deaf = false } = {}): Promise<void> {
    const script = 'exec flock -x "$0" sh -c "echo held; exec cat"';
    const writer = spawn('sh', ['-c', script, this.#lock], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#writer = writer;
    await once(writer.stdout, 'data');
    if (deaf) return;
    this.#watcher = watch(this.#queue, () => this.#take());
    this.#take();
  }

  /** The process ends; the thread and its files stay. */
  async quit(): Promise<void> {
    this.#watcher?.close();
    if (!this.#writer) return;
    const closed = once(this.#writer, 'close');
    this.#writer.stdin!.end();
    await closed;
    this.#writer = undefined;
  }

  #take(): void {
    const rows = this.queued;
    for (const row of rows.slice(this.#taken)) {
      const [thread, message] = row.split('\t');
      if (thread === this.thread) this.onPrompt(message!);
    }
    this.#taken = rows.length;
  }

  get #lock(): string {
    return join(this.home, 'thread-writer-locks', `${this.thread}.lock`);
  }
}

/** The server of opencode, with one session. */
export class FakeOpencode {
  readonly session = 'ses_1';
  readonly asked: string[] = [];
  version = '1.4.3';
  /** Has it the method that starts a turn? */
  prompts = true;
  onPrompt: OnPrompt = () => {};
  readonly #server: HttpServer;

  private constructor(password: string) {
    const basic = `Basic ${Buffer.from(`opencode:${password}`).toString('base64')}`;
    this.#server = createHttpServer(async (request, response) => {
      this.asked.push(`${request.method} ${request.url}`);
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const answer = (status: number, body: object = {}) => {
        response
          .writeHead(status, { 'content-type': 'application/json' })
          .end(status === 204 ? '' : JSON.stringify(body));
      };
      if (request.headers.authorization !== basic) return answer(401);
      if (request.url === '/global/health') return answer(200, { healthy: true, version: this.version });
      if (request.url === `/session/${this.session}`) return answer(200, { id: this.session });
      const prompt = request.method === 'POST' && request.url === `/session/${this.session}/prompt_async`;
      if (!prompt || !this.prompts) return answer(404);
      const { parts } = JSON.parse(Buffer.concat(chunks).toString()) as { parts: { type: string; text: string }[] };
      answer(204);
      this.onPrompt(parts.map(({ text }) => text).join('\n'));
    });
  }

  static async start(password: string): Promise<FakeOpencode> {
    const opencode = new FakeOpencode(password);
    opencode.#server.listen(0, '127.0.0.1');
    await once(opencode.#server, 'listening');
    return opencode;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
