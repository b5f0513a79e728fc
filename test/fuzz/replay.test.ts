import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../source-files.js';
import { seedsOf } from './corpus.js';
import { attempt, type FuzzTarget } from './fuzz-target.js';

const FOLDER = join(ROOT, 'test', 'fuzz');
const names = readdirSync(join(FOLDER, 'targets')).map((file) => file.replace(/\.ts$/, ''));

describe('inputs that the fuzzer found', () => {
  it.each(names)(
    'keep every rule of %s, within its bounds of time and memory [FZ.1]',
    { timeout: 60_000 },
    async (name) => {
      const { target } = (await import(`./targets/${name}.ts`)) as { target: FuzzTarget };
      expect(target.name).toBe(name);
      const more = (await target.prepare?.()) ?? [];
      const inputs = [...seedsOf(target), ...more.map((seed) => Buffer.from(seed))];
      expect(inputs.length).toBeGreaterThan(0);
      for (const input of inputs) {
        try {
          await attempt(target, input);
        } catch (error) {
          throw new Error(`input ${JSON.stringify(input.toString('latin1'))}`, { cause: error });
        }
      }
    },
  );
});
