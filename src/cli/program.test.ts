import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { noun, type Verbs } from './command.js';
import { find } from './lookup.js';
import { TABLE } from './nouns.js';
import { runProgram } from './program.js';

/** A new command is a file and this line. */
const TOY = noun('toy', 'developing', 'play with a toy', () => import('../../test/toy-noun.js'));
const WITH_TOY = { ...TABLE, nouns: [...TABLE.nouns, TOY] };

afterEach(() => {
  vi.restoreAllMocks();
});

async function run(argv: readonly string[], table = TABLE) {
  let stdout = '';
  let stderr = '';
  const out = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += text;
    return true;
  });
  const err = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    stderr += text;
    return true;
  });
  const code = await runProgram(argv, table);
  out.mockRestore();
  err.mockRestore();
  return { code, stdout, stderr };
}

describe('a command that is one file and one line', () => {
  it('runs with typed words and options', async () => {
    expect(await run(['toy', 'spin', '3', '--way', 'left'], WITH_TOY)).toEqual({
      code: 0,
      stdout: '3 turns to the left\n',
      stderr: '',
    });
    const json = await run(['toy', 'spin', '3', '--fast', '--json'], WITH_TOY);
    expect(JSON.parse(json.stdout)).toEqual({ turns: 3, way: 'right', fast: true });
    expect(await run(['--json', '--data', '/nowhere', 'toy', 'spin', '3', '--fast'], WITH_TOY)).toEqual(json);
    expect(await run(['toy', 'spin', '3', '--way', 'up'], WITH_TOY)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--way is left or right, not "up"'),
    });
  });

  it('is in the overview, and has a help of its own', async () => {
    expect((await run(['help'], WITH_TOY)).stdout).toMatch(/^ {2}toy +play with a toy$/m);
    const { stdout } = await run(['help', 'toy', 'spin'], WITH_TOY);
    expect(stdout).toContain('usage: ecliptic toy spin TURNS [options]');
    expect(stdout).toMatch(/^ {2}--way left\|right +the direction$/m);
    expect(stdout).toContain('  ecliptic toy spin 3 --way left');
  });

  it('is completed by the shell', async () => {
    const { stdout } = await run(['completion', 'bash'], WITH_TOY);
    expect(await completed(stdout, ['toy'])).toEqual(['toy']);
    expect(await completed(stdout, ['toy', ''])).toEqual(['spin']);
    expect(await completed(stdout, ['toy', 'spin', '--w'])).toEqual(['--way']);
    expect(await completed(stdout, ['toy', 'spin', '--way', ''])).toEqual(['left', 'right']);
  });
});

describe('completion in bash', () => {
  it('knows nouns, short words, verbs, options and choices', async () => {
    const script = (await run(['completion', 'bash'])).stdout;
    expect(await completed(script, ['ag'])).toEqual(['agent', 'agents']);
    expect(await completed(script, ['help', 'prop'])).toEqual(['proposal', 'proposals', 'propose']);
    expect(await completed(script, ['swarm', ''])).toEqual(['cancel', 'join', 'list', 'show', 'start']);
    expect(await completed(script, ['peers', 're'])).toEqual(['remove']);
    expect(await completed(script, ['send', '--t'])).toEqual(['--thread', '--to', '--ttl', '--type']);
    expect(await completed(script, ['agents', '--tier', ''])).toEqual(['0', '1', '2', '3']);
    expect(await completed(script, ['message', 'inbox', '--'])).toContain('--wait');
  });
});

describe('completion scripts', () => {
  it.each(['bash', 'zsh', 'fish'])('of %s are read by that shell where it is installed', async (shell) => {
    const { code, stdout } = await run(['completion', shell]);
    expect(code).toBe(0);
    for (const { name } of TABLE.nouns) expect(stdout).toContain(name);
    if (spawnSync(shell, ['--version']).error) return;
    expect(spawnSync(shell, ['-n'], { input: stdout }).status).toBe(0);
  });
});

describe('every command', () => {
  it('has a summary on one line, an example, and help under each of its names', async () => {
    for (const { name, load } of TABLE.nouns) {
      const verbs: Verbs = (await load()).verbs;
      for (const [verb, { summary, examples }] of Object.entries(verbs)) {
        expect(summary).toMatch(/^[^\n]{5,120}$/);
        expect(examples.length).toBeGreaterThan(0);
        expect((await run([name, verb, '--help'])).stdout).toContain(`usage: ecliptic ${name} ${verb}`);
      }
    }
  });

  it('is reached by its short words', async () => {
    for (const [word, meaning] of Object.entries(TABLE.words)) {
      const { noun: found, verbs, name } = await find([word], TABLE);
      expect([found.name, name]).toEqual([meaning.split(' ')[0], meaning.split(' ').at(-1)!.replace(/[[\]]/g, '')]);
      expect(Object.hasOwn(verbs, name!)).toBe(true);
      expect((await run(['help', word])).code).toBe(0);
    }
  });

  it.each([
    [['peers', 'remove', 'x'], 'peer', 'remove', ['x']],
    [['peer', '--yes', 'remove', 'x'], 'peer', 'remove', ['--yes', 'x']],
    [['swarm', '--capability', 'show', 'Ship it'], 'swarm', 'start', ['--capability', 'show', 'Ship it']],
    [['state', 'plan', 'set', 'a.b', '1'], 'doc', 'set', ['plan', 'a.b', '1']],
    [['state', '--as', 'mars', 'plan'], 'doc', 'get', ['--as', 'mars', 'plan']],
    [['state', 'list'], 'doc', 'get', ['list']],
    [['run', 'plan.yaml'], 'plan', 'run', ['plan.yaml']],
    [['run', 'stop', '01J'], 'plan', 'stop', ['01J']],
    [['task', '01J'], 'task', 'show', ['01J']],
    [['tell', 'show', 'Hello'], 'message', 'tell', ['show', 'Hello']],
  ])('%j is found', async (argv, noun, verb, args) => {
    const found = await find(argv, TABLE);
    expect([found.noun.name, found.name, found.args]).toEqual([noun, verb, args]);
  });
});

describe('a mistyped command', () => {
  it.each([
    [['agnets'], 'did you mean: ecliptic agents?'],
    [['mesage', 'send'], 'did you mean: ecliptic message?'],
    [['message', 'snd'], 'did you mean: ecliptic message send?'],
    [['agents', '--capabilty', 'x'], 'did you mean --capability?'],
    [['xyzzy'], 'there is no command "xyzzy"; see: ecliptic --help'],
    [['message'], 'say what to do with message: send, request'],
  ])('%j is answered with the one that is most like it', async (argv, said) => {
    const { code, stdout, stderr } = await run(argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(said);
  });
});

describe('times', () => {
  it.each([
    [['request', '--as', 'a', '--to', 'b', '--timeout', '5', '1'], 'NO_NODE'],
    [['request', '--as', 'a', '--to', 'b', '--timeout', '1.5m', '1'], 'NO_NODE'],
    [['doctor', '--wake', '--within', '10'], 'NO_NODE'],
    [['doctor', '--wake', '--within', '2m'], 'NO_NODE'],
    [['send', '--as', 'a', '--to', 'b', '--ttl', 'soon', '1'], '--ttl must be a time like'],
    [['invite', '--ttl', '5'], '--ttl must be a time like 90s, 15m or 7d, not "5"'],
    [['log', '--since', 'yesterday'], '--since must be a date or a time like 15m'],
  ])('%j are read', async (argv, said) => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-times-'));
    expect((await run([...argv, '--data', folder])).stderr).toContain(said);
    rmSync(folder, { recursive: true });
  });
});

/** The completions of a real bash for the words after `ecliptic`. */
async function completed(script: string, words: readonly string[]): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-completion-'));
  writeFileSync(join(folder, 'script'), script);
  const ask = `source ${join(folder, 'script')}
    COMP_WORDS=(ecliptic "$@"); COMP_CWORD=$#; _ecliptic; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)('bash', ['--norc', '-c', ask, 'bash', ...words]);
  rmSync(folder, { recursive: true });
  return stdout.split('\n').filter(Boolean).sort();
}
