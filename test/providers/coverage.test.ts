import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import config from '../../vitest.config.js';

describe('the tests of providers', () => {
  it('fail below a coverage of 85 %, as part of the one test command [T020.V3]', () => {
    const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(scripts.test).toMatch(/&& npm run test:providers$/);
    expect(scripts['test:providers']).toBe('vitest run --coverage --project providers');
    expect(config.test?.coverage).toMatchObject({
      include: ['src/providers/**/*.ts'],
      thresholds: { lines: 85, statements: 85, functions: 85, branches: 85 },
    });
  });
});
