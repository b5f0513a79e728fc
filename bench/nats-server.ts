import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A NATS server on loopback, with an empty JetStream folder. */
export class NatsServer {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(url: string, child: ChildProcess, folder: string) {
    this.url = url;
    this.#child = child;
    this.#folder = folder;
  }

  /** Synced: what it acknowledges is on disk. */
  static async start({ synced = false } = {}): Promise<NatsServer> {
    // From the compiled folder, two levels up.
    const script = new URL('../../scripts/need-nats-server.mjs', import.meta.url).href;
    const { natsServer } = (await import(script)) as { natsServer(): string };
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-bench-nats-'));
    const file = join(folder, 'server.conf');
    const sync = synced ? ', sync_interval: always' : '';
    writeFileSync(file, `listen: "127.0.0.1:-1"\njetstream { store_dir: "${folder}"${sync} }\n`);
    const child = spawn(natsServer(), ['-c', file], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    for await (const text of child.stderr!) {
      log += String(text);
      if (log.includes('Server is ready')) break;
    }
    child.stderr!.resume();
    const port = /Listening for client connections on 127\.0\.0\.1:(\d+)/.exec(log)?.[1];
    if (port === undefined) throw new Error(`nats-server did not start: ${log}`);
    return new NatsServer(`nats://127.0.0.1:${port}`, child, folder);
  }

  /** The CPU time of the server so far; 0 where there is no `/proc`. */
  cpuMicros(): number {
    try {
      // After the name, which is in brackets: user and system time are the 12th and 13th value, in ticks of 10 ms.
      const values = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
      return (Number(values[11]) + Number(values[12])) * 10_000;
    } catch {
      return 0;
    }
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
