import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Children } from '../../system/process/children.js';
import type { JailRequest } from '../../system/process/jail-settings.js';

interface TrialComponents {
  readonly runtime: Runtime;
  readonly children: Children;
}

/** A jail that could be entered is not tried again before this time. */
const TRUSTED_MS = 300_000;
const TRIAL_MS = 10_000;
const MAX_SAID = 500;

/** Whether the jail of a program can be entered, known before there is work: a shell that does nothing tries it. */
export class JailTrial {
  readonly #components: TrialComponents;
  #enteredAt: number | undefined;

  constructor(components: TrialComponents) {
    this.#components = components;
  }

  /** Throws where it cannot be entered. */
  async check(jail: JailRequest): Promise<void> {
    const { runtime } = this.#components;
    const now = runtime.stopwatch();
    if (this.#enteredAt !== undefined && now - this.#enteredAt < TRUSTED_MS) return;
    this.#enteredAt = undefined;
    await this.#try(jail);
    this.#enteredAt = now;
  }

  async #try(jail: JailRequest): Promise<void> {
    const { runtime, children } = this.#components;
    const child = await children.start({
      ...{ command: '/bin/sh', args: ['-c', ':'], name: jail.name, cwd: jail.workspace },
      jail,
    });
    const timer = runtime.setTimer(() => void child.stop({ graceMs: 0 }), TRIAL_MS);
    child.stdout.resume();
    child.endInput();
    const exit = await child.exited;
    timer.cancel();
    if (exit.kind === 'code' && exit.code === 0) return;
    const said = cutText(child.stderr.join('\n').trim(), MAX_SAID) || 'its shell did not run to its end';
    throw new EclipticError('PROCESS_START_FAILED', `the jail cannot be entered: ${said}`, { command: '/bin/sh' });
  }
}
