import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type FetchAnswer, guardedFetch } from '../../system/fetch/guarded-fetch.js';
import type { ClientSession } from './client-session.js';
import { type Probe, refused, SUBMITTED, type Surfaced, type WakeAdapter } from './wake-adapter.js';

/** Only what runs on this machine, and only by its number. */
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\]):\d{1,5}$/;
const SESSION = /^[0-9a-zA-Z_-]{1,100}$/;
/** The versions whose servers start a turn when asked so. */
const VERSIONS = /^1\./;
const FETCH_MS = 1_500;

/** The server of an opencode session, which takes a prompt for it. */
export class OpencodePrompt implements WakeAdapter {
  readonly name = 'prompt_async';
  readonly key: string;
  readonly #runtime: Runtime;
  readonly #server: string;
  readonly #session: string;
  readonly #headers: Record<string, string>;

  private constructor(runtime: Runtime, server: string, session: string, env: ClientSession['env']) {
    this.#runtime = runtime;
    this.#server = server;
    this.#session = session;
    const { OPENCODE_SERVER_PASSWORD: password, OPENCODE_SERVER_USERNAME: user = 'opencode' } = env;
    const basic = Buffer.from(`${user}:${password}`).toString('base64');
    this.#headers = password ? { authorization: `Basic ${basic}` } : {};
    this.key = JSON.stringify(['opencode', server, session, this.#headers.authorization]);
  }

  /** The way in, or what is not known of it. */
  static for(runtime: Runtime, { server, session, env }: ClientSession): OpencodePrompt | string {
    if (server === undefined || session === undefined) {
      return 'its server and session are not known: a plugin tells them (ecliptic hook --client opencode --event session)';
    }
    const origin = server.replace(/\/$/, '').replace(/^http:\/\/localhost:/, 'http://127.0.0.1:');
    if (!LOOPBACK.test(origin)) return 'its server is not on this machine';
    if (!SESSION.test(session)) return 'its session has a name that is none';
    return new OpencodePrompt(runtime, origin, session, env);
  }

  async probe(): Promise<Probe> {
    try {
      const health = await this.#fetch('/global/health');
      const { version } = JSON.parse(health.body.toString()) as { version?: unknown };
      if (typeof version !== 'string' || !VERSIONS.test(version)) {
        return { open: false, about: `opencode ${String(version).slice(0, 20)}: 1.x is needed` };
      }
      const { status } = await this.#fetch(`/session/${this.#session}`);
      if (status !== 200) return { open: false, about: `its server knows no such session (${status})` };
      return { open: true, about: `opencode ${version} has the session` };
    } catch (error) {
      return { open: false, about: `its server does not answer (${describeError(error)})` };
    }
  }

  async surface(pointer: string): Promise<Surfaced> {
    try {
      const body = JSON.stringify({ parts: [{ type: 'text', text: pointer }] });
      const { status } = await this.#fetch(`/session/${this.#session}/prompt_async`, body);
      return status === 200 || status === 204 ? SUBMITTED : refused(`its server answered ${status}`);
    } catch (error) {
      return refused(`its server does not answer (${describeError(error)})`);
    }
  }

  #fetch(path: string, body?: string): Promise<FetchAnswer> {
    const asked = body === undefined ? {} : { method: 'POST', body };
    return guardedFetch(this.#runtime, `${this.#server}${path}`, {
      ...asked,
      headers: { ...this.#headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      timeoutMs: FETCH_MS,
      redirects: 0,
      allowPrivate: ['127.0.0.0/8', '::1/128'],
    });
  }
}
