import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { plantedBugs, ROOT } from './patches.js';

describe('the planted bugs', () => {
  const bugs = plantedBugs();

  it('are at least 24, over every capability [SIM.3]', () => {
    expect(bugs.length).toBeGreaterThanOrEqual(24);
    expect(new Set(bugs.map(({ capability }) => capability)).size).toBeGreaterThanOrEqual(12);
  });

  it('apply to the present source [SIM.3]', () => {
    const stale = bugs.filter(({ file }) => {
      const { status } = spawnSync('git', ['apply', '--check', file], { cwd: ROOT });
      return status !== 0;
    });
    expect(stale.map(({ name }) => name)).toEqual([]);
  });

  it('name a simulation or a test that is there [SIM.3]', () => {
    const missing = bugs.filter(({ finder }) => finder.kind === 'test' && !existsSync(join(ROOT, finder.file)));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });
});
