import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readJson } from '../src/coding-agents/setup/entries.js';
import { BIN, ROOT } from './source-files.js';

const AGENT = join(ROOT, 'test', 'providers', 'acp-agent.mjs');
/** Programs of this machine that the tests need. */
const LINKED = ['node', 'npm', 'sh', 'script'];
/** Nothing listens there. */
const NOWHERE = 'http://127.0.0.1:9/v1';

let folder: string;
let server: Server;
let baseUrl: string;
let nodes: ChildProcess[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-staff-'));
  mkdirSync(join(folder, 'programs'));
  mkdirSync(join(folder, 'tmp'));
  const places = process.env.PATH!.split(delimiter);
  for (const name of LINKED) {
    const file = places.map((place) => join(place, name)).find(existsSync);
    if (file !== undefined) symlinkSync(file, join(folder, 'programs', name));
  }
  nodes = [];
  server = createServer((request, response) => {
    const known = request.method === 'GET' && request.url === '/v1/models';
    const data = [{ id: 'nomic-embed-text' }, { id: 'qwen3' }];
    response.writeHead(known ? 200 : 404).end(JSON.stringify({ object: 'list', data }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});

afterEach(async () => {
  for (const node of nodes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)) {
    node.kill('SIGKILL');
    await once(node, 'exit');
  }
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('ecliptic staff', () => {
  it('finds workers of every kind, and writes them into a new ecliptic.json [WK.S2 WK.S3 WK.S4]', async () => {
    install('codex-acp', `exec node ${AGENT} good`);
    install('gemini', `exec node ${AGENT} login`);
    write('package.json', JSON.stringify({ scripts: { test: 'node --test', lint: 'true' } }));
    const { code, stdout, stderr } = await staff(['--endpoint', baseUrl, '--yes']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^ROLE +WORKER +WHY$/);
    expect(lines.find((line) => line.startsWith('sun '))).toMatch(/^sun +qwen3 at 127\.0\.0\.1:\d+ +answers$/);
    expect(lines.filter((line) => line.startsWith('mars '))).toEqual([
      expect.stringMatching(/^mars +Codex 1\.2\.3 +installed and logged in$/),
      expect.stringMatching(/^mars +qwen3 at .* answers; used while Codex 1\.2\.3 is down$/),
    ]);
    expect(stdout).toContain('Gemini CLI: it is not logged in\n    to fix it: gemini');
    expect(stdout).toMatch(/ecliptic\.json: 7 roles have a worker now: .*\nNext: ecliptic up\n$/);
    const model = { baseUrl, model: 'qwen3', cwd: '.' };
    const makers = [{ acp: { command: 'codex-acp', cwd: '.', mode: 'read-only' } }, { model }];
    expect(JSON.parse(read('ecliptic.json'))).toEqual({
      $schema: './node_modules/ecliptic/schema/ecliptic.schema.json',
      agents: {
        sun: { model },
        mercury: { model },
        mars: makers,
        venus: makers,
        pluto: makers,
        saturn: { exec: 'npm test' },
        triton: { exec: 'npm run lint' },
      },
    });
    expect(statSync(join(folder, 'ecliptic.json')).mode & 0o600).toBe(0o600);
  });

  it('changes nothing without consent, nor where every role has a worker [WK.S4]', async () => {
    const before = '{\n  // my agents\n  "agents": { "mars": { "module": "./mars.js" } }, // one\n}\n';
    write('ecliptic.json', before);
    for (const words of [[], ['--dry-run'], ['--dry-run', '--yes'], ['--json']]) {
      const { code, stdout } = await staff(['--endpoint', baseUrl, ...words]);
      expect(code).toBe(0);
      expect(stdout).toContain(words.includes('--json') ? '"written":false' : 'Nothing was written.');
      expect(read('ecliptic.json')).toBe(before);
    }
    const { stdout } = await staff(['--endpoint', baseUrl, '--roles', 'mars,venus', '--json', '--yes']);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({
      file: join(folder, 'ecliptic.json'),
      written: true,
      staffed: ['mars'],
      assignments: [{ role: 'venus', workers: [{ kind: 'model', config: { model: { baseUrl, model: 'qwen3' } } }] }],
      next: 'ecliptic up',
    });
    const after = read('ecliptic.json');
    for (const line of ['  // my agents', '}, // one']) expect(after).toContain(line);
    expect(readJson(after)).toEqual({
      agents: { mars: { module: './mars.js' }, venus: { model: { baseUrl, model: 'qwen3', cwd: '.' } } },
    });
    const again = await staff(['--endpoint', baseUrl, '--roles', 'mars,venus', '--yes']);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing to do') });
    expect(read('ecliptic.json')).toBe(after);
  });

  it.each([
    ['y', true],
    ['n', false],
    ['', false],
  ])('asks a person at a terminal, and takes "%s" as written: %s [WK.S4]', async (answer, isWritten) => {
    const words = [process.execPath, BIN, 'staff', '--endpoint', baseUrl].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qec', words, '/dev/null'], { cwd: folder, env: environment(), stdio: 'pipe' });
    let output = '';
    child.stdout.on('data', (data) => {
      const asked = /\[y\/N\]/.test(output);
      output += data;
      if (!asked && /Write this into ecliptic\.json\? \[y\/N\]/.test(output)) child.stdin.write(`${answer}\n`);
    });
    await once(child, 'close');
    expect(output).toContain(isWritten ? 'Next: ecliptic up' : 'Nothing was written.');
    expect(existsSync(join(folder, 'ecliptic.json'))).toBe(isWritten);
  });

  it('exits with 1 and says what to install where nothing is found [WK.S2]', async () => {
    const { code, stdout } = await staff(['--endpoint', NOWHERE]);
    expect(code).toBe(1);
    for (const line of ['ollama pull qwen3', 'export OPENAI_BASE_URL=', 'npm install -g @google/gemini-cli']) {
      expect(stdout).toContain(line);
    }
    expect(stdout).toContain('127.0.0.1:9: ');
    expect(existsSync(join(folder, 'ecliptic.json'))).toBe(false);
    const json = await staff(['--endpoint', NOWHERE, '--json']);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ written: false, assignments: [], unusable: [{ kind: 'model' }] });
  });

  it('takes the endpoint of the environment, and writes its key as a reference [WK.S2 WK.S4]', async () => {
    const env = { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'sk-secret' };
    const { code, stdout } = await staff(['--only', 'model', '--roles', 'uranus', '--endpoint', NOWHERE, '--yes'], env);
    expect(code).toBe(0);
    expect(`${stdout}${read('ecliptic.json')}`).not.toContain('sk-secret');
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to the environment
    const model = { baseUrl, model: 'qwen3', apiKey: '${OPENAI_API_KEY}', cwd: '.' };
    expect(JSON.parse(read('ecliptic.json')).agents).toEqual({ uranus: { model } });
  });

  it('refuses unknown roles and kinds, and files that it cannot edit [WK.S4]', async () => {
    expect(await staff(['--roles', 'vulcan'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^USAGE: .*"vulcan"/),
    });
    expect(await staff(['--only', 'people'])).toMatchObject({ code: 2 });
    write('ecliptic.json', '{ "agents": ');
    const { code, stderr } = await staff(['--endpoint', baseUrl, '--yes']);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^INVALID_CONFIG: .*ecliptic\.json: /) });
    expect(read('ecliptic.json')).toBe('{ "agents": ');
    write('ecliptic.json', '{ "mesh": 1 }');
    expect(await staff(['--endpoint', baseUrl, '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/INVALID_CONFIG.*\n.*mesh: is not a key that belongs here/),
    });
    expect(read('ecliptic.json')).toBe('{ "mesh": 1 }');
  });

  it('says that a running node has to be restarted [WK.S4]', async () => {
    write(
      'ecliptic.json',
      '{ "data": "./state", "roster": false, "agents": { "reviewer": {} }, "network": { "dht": false } }',
    );
    const node = spawn(process.execPath, [BIN, 'up', '--json'], { cwd: folder, env: environment({ PORT: '0' }) });
    nodes.push(node);
    await once(createInterface(node.stdout), 'line');
    const { stdout } = await staff(['--endpoint', baseUrl, '--roles', 'reviewer', '--yes', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ written: true, next: 'ecliptic down && ecliptic up' });
    expect(readJson(read('ecliptic.json'))).toMatchObject({ agents: { reviewer: { model: { model: 'qwen3' } } } });
  });
});

function install(name: string, script: string): void {
  writeFileSync(join(folder, 'programs', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

function write(name: string, content: string): void {
  writeFileSync(join(folder, name), content);
}

function read(name: string): string {
  return readFileSync(join(folder, name), 'utf8');
}

/** Only the programs of a test are installed, besides those in LINKED. */
function environment(env: Record<string, string> = {}): Record<string, string> {
  return { PATH: join(folder, 'programs'), HOME: folder, TMPDIR: join(folder, 'tmp'), TERM: 'dumb', ...env };
}

async function staff(words: readonly string[], env?: Record<string, string>) {
  const child = spawn(process.execPath, [BIN, 'staff', ...words], { cwd: folder, env: environment(env) });
  child.stdin.end();
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data) => {
    stdout += data;
  });
  child.stderr.on('data', (data) => {
    stderr += data;
  });
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}
