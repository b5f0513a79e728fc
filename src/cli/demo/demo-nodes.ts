import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Config } from '../../node/config/schema.js';
import { ControlClient } from '../../node/control/client.js';
import { EclipticError } from '../../runtime/errors.js';
import { PROGRAM } from '../../runtime/package.js';

/** The output of `ecliptic up --json`. */
interface Ready {
  readonly node: string;
  readonly pid: number;
  readonly control: string;
  /** A link that opens the dashboard once. */
  readonly page: string;
}

/** One node of the demo: a process with a folder of its own. */
export class DemoNode {
  readonly name: string;
  readonly #folder: string;
  readonly #bootstrap: string;
  #child: ChildProcess | undefined;
  #ready: Ready | undefined;
  #client: ControlClient | undefined;
  #isOver = false;

  constructor(name: string, folder: string, bootstrap: string, config: Config) {
    this.name = name;
    this.#folder = join(folder, name);
    this.#bootstrap = bootstrap;
    mkdirSync(this.#folder, { recursive: true });
    writeFileSync(join(this.#folder, 'ecliptic.json'), JSON.stringify(config, null, 2));
  }

  get key(): string {
    return this.#started.node;
  }

  get pid(): number {
    return this.#started.pid;
  }

  get page(): string {
    return this.#started.page;
  }

  get call(): ControlClient['call'] {
    const client = this.#client;
    if (!client) throw new EclipticError('NO_NODE', `${this.name} does not run`);
    return client.call.bind(client) as ControlClient['call'];
  }

  /** The address of one of its agents. */
  agent(id: string): string {
    return `${id}@${this.key}`;
  }

  /** Starts the program, or starts it again with the same data. */
  async start(): Promise<void> {
    if (this.#isOver) throw new EclipticError('CANCELLED', 'the demo has ended');
    const log = openSync(this.#logFile, 'a');
    const options = ['--name', this.name, '--data', join(this.#folder, 'data'), '--bootstrap', this.#bootstrap];
    const child = spawn(process.execPath, [PROGRAM, 'up', '--json', '--no-browser', ...options], {
      cwd: this.#folder,
      env: this.#environment(),
      stdio: ['ignore', 'pipe', log],
    });
    closeSync(log);
    this.#child = child;
    const lines = createInterface({ input: child.stdout! });
    const line = await Promise.race([
      once(lines, 'line').then(([text]) => text as string),
      once(child, 'close').then(() => undefined),
    ]);
    if (line === undefined) {
      throw new EclipticError(
        'NO_NODE',
        `the node ${this.name} did not start:\n${readFileSync(this.#logFile, 'utf8')}`,
      );
    }
    this.#ready = JSON.parse(line) as Ready;
    this.#client = await ControlClient.connect(this.#ready.control);
  }

  /** Ends the process at once, as a power cut would. */
  async kill(): Promise<void> {
    this.#client?.close();
    this.#client = undefined;
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** Stops the program for good. */
  async stop(): Promise<void> {
    this.#isOver = true;
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    this.#client?.close();
    this.#client = undefined;
    this.#child = undefined;
    child.kill('SIGTERM');
    await exited;
  }

  get #started(): Ready {
    if (!this.#ready) throw new EclipticError('NO_NODE', `${this.name} was not started`);
    return this.#ready;
  }

  get #logFile(): string {
    return join(this.#folder, 'log');
  }

  /** Nothing of the user's own configuration reaches the demo. */
  #environment(): NodeJS.ProcessEnv {
    const { PATH, LANG, SYSTEMROOT, TEMP } = process.env;
    return { PATH, LANG, SYSTEMROOT, TEMP, HOME: this.#folder, PORT: '0', ECLIPTIC_LOG: 'warn' };
  }
}
