import { execFile } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseConfig } from '../../src/node/config/load.js';
import { Cluster, until } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';

vi.setConfig({ testTimeout: 120_000 });

const execute = promisify(execFile);

let home: string;
let cluster: Cluster;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ecliptic-daily-'));
  cluster = new Cluster();
});

afterEach(async () => {
  await cluster.end();
  rmSync(home, { recursive: true, force: true });
});

describe('ecliptic new', () => {
  beforeEach(() => {
    mkdirSync(join(home, 'node_modules'));
    symlinkSync(ROOT, join(home, 'node_modules', 'ecliptic'));
    for (const name of ['jiti', '@types', 'undici-types']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(home, 'node_modules', name));
    }
  });

  it('writes an agent and a tool that are typed, and whose tests pass [FM.new]', async () => {
    writeFileSync(join(home, 'ecliptic.json'), '{\n  // mine\n  "agents": {}\n}\n');
    for (const words of [
      ['agent', 'reviewer', '--capabilities', 'code.review', '--tier', '1'],
      ['tool', 'word-count'],
    ]) {
      const { code, stderr } = await cluster.run(['new', ...words], home);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    }
    const config = readFileSync(join(home, 'ecliptic.json'), 'utf8');
    expect(config).toContain('// mine');
    expect(parseConfig(config, 'ecliptic.json').agents).toEqual({
      reviewer: { tier: 1, capabilities: ['code.review'], module: './reviewer.ts' },
      'word-count': { tier: 2, module: './word-count.ts' },
    });
    const tests = ['--import', 'jiti/register', '--test', 'reviewer.test.ts', 'word-count.test.ts'];
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout } = await execute(process.execPath, tests, { cwd: home, env });
    expect(stdout).toMatch(/^# pass 2$/m);
    const options = [
      '--noEmit',
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'es2022',
      '--allowImportingTsExtensions',
    ];
    const typescript = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    writeFileSync(join(home, 'package.json'), '{"type":"module"}');
    const files = ['reviewer', 'word-count'].flatMap((name) => [`${name}.ts`, `${name}.test.ts`]);
    await execute(process.execPath, [typescript, ...options, '--skipLibCheck', '--types', 'node', ...files], {
      cwd: home,
    });
  });

  it('replaces nothing, and says which names are free [FM.new]', async () => {
    writeFileSync(join(home, 'taken.ts'), 'mine');
    writeFileSync(join(home, 'ecliptic.json'), '{"agents":{"known":{}}}');
    for (const name of ['taken', 'known']) {
      const { code, stderr } = await cluster.run(['new', 'agent', name], home);
      expect(code).toBe(1);
      expect(stderr).toContain('choose another name');
    }
    const odd = await cluster.run(['new', 'agent', '../x'], home);
    expect(odd.code).toBe(2);
    const dry = await cluster.run(['new', 'tool', 'free', '--dry-run', '--json'], home);
    expect(JSON.parse(dry.stdout)).toMatchObject({ written: false, module: expect.stringContaining('agent.tool(') });
    expect(readFileSync(join(home, 'taken.ts'), 'utf8')).toBe('mine');
    expect(readFileSync(join(home, 'ecliptic.json'), 'utf8')).toBe('{"agents":{"known":{}}}');
  });
});

describe('ecliptic doctor --fix and logs', () => {
  it('say where a node in the foreground logs to, and not to start one [FM.logs]', async () => {
    const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false } });
    const { code, stderr } = await node.run('logs');
    expect(code).toBe(1);
    expect(stderr).toContain(`(process ${node.pid}) was not started in the background`);
    expect(stderr).not.toContain('ecliptic up');
  });

  it('repair with consent, and show what the node logged [FM.fix FM.logs]', async () => {
    const data = join(home, 'data');
    mkdirSync(data, { mode: 0o700 });
    const ecliptic = (...words: string[]) => cluster.run([...words, '--data', data], home);

    const none = await ecliptic('logs');
    expect(none.code).toBe(1);
    expect(none.stderr).toMatch(/^NO_NODE: .*node\.log does not exist/);

    // Without a terminal, only --yes agrees.
    const declined = await ecliptic('doctor', '--fix');
    expect(declined.code).toBe(1);
    expect(declined.stdout).toContain('start one in the background: declined; agree with: ecliptic doctor --fix --yes');

    chmodSync(data, 0o755);
    const fixed = await ecliptic('doctor', '--fix', '--yes', '--json');
    const { repairs, pid } = JSON.parse(fixed.stdout);
    cluster.onEnd(async () => {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has stopped.
      }
    });
    expect(repairs.map(({ action, state }: { action: string; state: string }) => [action, state])).toEqual([
      [`allow only its owner to open ${data}`, 'done'],
      ['start one in the background', 'done'],
    ]);
    expect(statSync(data).mode & 0o777).toBe(0o700);

    const again = await ecliptic('doctor', '--fix', '--json');
    expect(JSON.parse(again.stdout).repairs).toEqual([]);

    const { stdout } = await ecliptic('logs', '--level', 'info');
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d\S* info {2}node started {2}/m);
    const follow = cluster.launch(['logs', '--follow', '--lines', '0', '--level', 'warn', '--data', data], home);
    let seen = '';
    follow.stdout!.on('data', (text) => {
      seen += text;
    });
    const entry = (level: number, msg: string) => `${JSON.stringify({ level, time: 1_700_000_000_000, msg })}\n`;
    await until(async () => {
      appendFileSync(join(data, 'node.log'), entry(30, 'quiet') + entry(40, 'disk is nearly full'));
      return seen.includes('disk is nearly full');
    }, 'what is added is shown');
    expect(seen).not.toContain('quiet');
    await ecliptic('down');
  });
});
