import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findPackageScripts } from './package-scripts.js';

let folder: string;
let env: { PATH: string };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-scripts-'));
  env = { PATH: join(folder, 'programs') };
  mkdirSync(env.PATH);
  install('npm');
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function install(name: string): void {
  writeFileSync(join(env.PATH, name), '#!/bin/sh\n');
  chmodSync(join(env.PATH, name), 0o755);
}

function pack(content: object | string): void {
  writeFileSync(join(folder, 'package.json'), typeof content === 'string' ? content : JSON.stringify(content));
}

const found = () => {
  const { workers, unusable } = findPackageScripts(folder, env);
  return { workers: workers.map(({ role, config }) => [role, config]), unusable };
};

describe('the scripts of a package', () => {
  it('are nothing without a package', () => {
    expect(found()).toEqual({ workers: [], unusable: [] });
  });

  it('answer for the roles that test, check and measure; others are left out [WK.S2]', () => {
    const scripts = { test: 'node --test', lint: 'true', typecheck: 'tsc', bench: 'x', deploy: 'rm -rf /', start: 'x' };
    pack({ scripts });
    expect(found()).toEqual({
      workers: [
        ['saturn', { exec: 'npm test' }],
        ['triton', { exec: 'npm run typecheck' }],
        ['io', { exec: 'npm run bench' }],
      ],
      unusable: [],
    });
  });

  it.each([
    [{ packageManager: 'pnpm@9.1.0' }, undefined, 'pnpm', 'pnpm test'],
    [{}, 'yarn.lock', 'yarn', 'yarn test'],
    [{}, 'bun.lock', 'bun', 'bun run test'],
  ])('are run by the package’s own manager: %j %s [WK.S2]', (about, lock, manager, line) => {
    pack({ ...about, scripts: { test: 'x' } });
    if (lock) writeFileSync(join(folder, lock), '');
    expect(found()).toEqual({
      workers: [],
      unusable: [
        {
          kind: 'exec',
          title: line,
          reason: `there is no program "${manager}" on the PATH`,
          fix: `npm install -g ${manager}`,
        },
      ],
    });
    install(manager);
    expect(found().workers).toEqual([['saturn', { exec: line }]]);
  });

  it('are not usable while packages are missing, or if npm init wrote them [WK.S2]', () => {
    pack({ scripts: { test: 'echo "Error: no test specified" && exit 1', lint: 'x' }, devDependencies: { lint: '1' } });
    expect(found()).toMatchObject({
      workers: [],
      unusable: [
        { title: 'npm test', reason: expect.stringContaining('placeholder') },
        { title: 'npm run lint', fix: 'npm install' },
      ],
    });
    mkdirSync(join(folder, 'node_modules'));
    expect(found().workers).toEqual([['triton', { exec: 'npm run lint' }]]);
  });

  it.each(['{', '[]', 'null'])('of a package.json with %s are reported as unreadable', (text) => {
    pack(text);
    expect(found()).toMatchObject({ workers: [], unusable: [{ title: 'package.json' }] });
  });

  it.each([{}, { scripts: null }, { scripts: ['test'] }, { scripts: { test: 1, lint: '' } }])(
    'may be none: %j',
    (content) => {
      pack(content);
      expect(found()).toEqual({ workers: [], unusable: [] });
    },
  );
});
