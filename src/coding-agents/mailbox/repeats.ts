import type { Runtime } from '../../runtime/runtime.js';
import type { Answer } from './member-context.js';

/** The same words to the same agent within this time are one message: a client that got no answer asks again. */
const WINDOW_MS = 60_000;
const MAX_REMEMBERED = 200;

/** Makes sure that what a client asks twice, because it did not hear the first answer, is done once. */
export class Repeats {
  readonly #runtime: Runtime;
  readonly #answers = new Map<string, { readonly at: number; readonly answer: Promise<Answer> }>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Does it, or gives the answer of the first time. What failed is done again. */
  async once(tool: string, args: unknown, run: () => Promise<Answer>): Promise<Answer> {
    const key = `${tool} ${JSON.stringify(args)}`;
    const now = this.#runtime.now();
    for (const [known, { at }] of this.#answers) if (now - at > WINDOW_MS) this.#answers.delete(known);
    const earlier = this.#answers.get(key);
    if (earlier) {
      const answer = await earlier.answer;
      return { ...answer, text: `${answer.text}\nThis was asked before, and was done once.` };
    }
    if (this.#answers.size >= MAX_REMEMBERED) this.#answers.delete(this.#answers.keys().next().value!);
    const answer = run();
    this.#answers.set(key, { at: now, answer });
    answer.catch(() => this.#answers.delete(key));
    return answer;
  }
}
