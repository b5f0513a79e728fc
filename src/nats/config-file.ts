import { existsSync, readFileSync } from 'node:fs';
import { EclipticError } from '../runtime/errors.js';
import { readUtf8, replaceText } from '../system/files/text-file.js';

/** It has no secrets, and the server may run as another user. */
const MODE = 0o644;

/** A server's configuration file, and the server that reads it. */
export class ConfigFile {
  readonly #file: string;
  readonly #server: string | undefined;
  #isReloadDue = false;

  /** `server`: its process id, or a file with it. Without one nothing is reloaded. */
  constructor(file: string, server: string | undefined) {
    this.#file = file;
    this.#server = server;
  }

  /** Replaces the file and has the server read it. False if there is nothing to do. */
  replace(config: string): boolean {
    const isSame = readUtf8(this.#file) === config;
    if (!isSame) replaceText(this.#file, config, MODE);
    // A server that could not be told is told at the next call.
    this.#isReloadDue ||= !isSame;
    if (isSame && !this.#isReloadDue) return false;
    this.#reload();
    this.#isReloadDue = false;
    return true;
  }

  #reload(): void {
    if (this.#server === undefined) return;
    const given = existsSync(this.#server) ? readFileSync(this.#server, 'utf8').trim() : this.#server;
    const pid = Number(given);
    if (!Number.isSafeInteger(pid) || pid < 2)
      throw new EclipticError('USAGE', `--reload takes a process id or a file with it, not "${this.#server}"`);
    try {
      process.kill(pid, 'SIGHUP');
    } catch {
      throw new EclipticError('PROCESS_ENDED', `no NATS server runs as process ${pid}`, { pid });
    }
  }
}
