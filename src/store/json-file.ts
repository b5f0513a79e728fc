import { existsSync, readFileSync } from 'node:fs';
import type { z } from 'zod';
import { describeError, EclipticError } from '../runtime/errors.js';
import { writePrivately } from './private-file.js';

/** One value kept as JSON in a file of the owner's. A crash at any moment leaves the old one or the new one. */
export class JsonFile<T> {
  readonly #file: string;
  readonly #schema: z.ZodType<T>;

  constructor(file: string, schema: z.ZodType<T>) {
    this.#file = file;
    this.#schema = schema;
  }

  /** Undefined when there is none yet. One that is not what it should be is refused, never taken for none. */
  load(): T | undefined {
    if (!existsSync(this.#file)) return undefined;
    try {
      return this.#schema.parse(JSON.parse(readFileSync(this.#file, 'utf8')));
    } catch (error) {
      const message = `${this.#file} is damaged; restore it, or remove it to begin anew`;
      throw new EclipticError('DATA_FOLDER', message, { file: this.#file, reason: describeError(error) }, error);
    }
  }

  save(value: T): void {
    try {
      writePrivately(this.#file, `${JSON.stringify(value)}\n`);
    } catch (error) {
      throw new EclipticError('DATA_FOLDER', `cannot write ${this.#file}: ${describeError(error)}`, {}, error);
    }
  }
}
