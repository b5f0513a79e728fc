import { describe, expect, it } from 'vitest';
import { parseConfig } from './load.js';
import { readWorkers } from './providers.js';
import type { AgentConfig } from './schema.js';

const read = (config: AgentConfig, env = {}) => readWorkers(config, env, '/home/me')[0];
const parse = (agent: object) =>
  parseConfig(JSON.stringify({ agents: { mars: agent } }), 'ecliptic.json').agents!.mars!;

const variable = (text: string) => `\${${text}}`;

describe('an agent that is a program', () => {
  it('is found from the folder of the file, and starts there', () => {
    expect(read(parse({ command: './bin/agent' }))).toMatchObject({
      type: 'command',
      config: { command: '/home/me/bin/agent', args: [], cwd: '/home/me' },
    });
    const { config } = read(parse({ command: { command: 'node', args: ['a.mjs'], cwd: 'sub' } }))!;
    expect(config).toMatchObject({ command: 'node', args: ['a.mjs'], cwd: '/home/me/sub' });
  });

  it('gets what the environment says, which is kept secret', () => {
    const agent = parse({
      command: {
        command: 'node',
        args: [variable('SCRIPT:-a.mjs')],
        env: { KEY: `x-${variable('TOKEN')}`, OTHER: { credential: 'other' } },
      },
    });
    const { config } = read(agent, { TOKEN: 't0ken' })!;
    expect(config).toMatchObject({ args: ['a.mjs'], env: { KEY: 'x-t0ken', OTHER: { credential: 'other' } } });
    expect(config).toMatchObject({ secrets: expect.arrayContaining(['t0ken']) });
    expect(() => read(agent)).toThrow('the environment has no TOKEN');
  });

  it('over the Agent Client Protocol works in its lane, or where it is told to', () => {
    const limits = { memoryMb: 512 };
    expect(read(parse({ acp: { command: 'gemini', args: ['--acp'], limits, concurrency: 2 }, lane: 'fast' }))).toEqual({
      type: 'acp',
      lane: 'fast',
      concurrency: 2,
      config: expect.objectContaining({ command: 'gemini', args: ['--acp'], cwd: undefined, limits }),
    });
    const { config } = read(parse({ acp: { command: 'gemini', cwd: 'project', auth: 'key', env: {} } }))!;
    expect(config).toMatchObject({ cwd: '/home/me/project', auth: 'key' });
  });

  it('is one thing only', () => {
    expect(read(parse({ module: './a.ts' }))).toBeUndefined();
    for (const both of [{ module: './a.ts' }, { acp: { command: 'b' } }, { a2a: ['https://a.example'] }]) {
      expect(() => parse({ command: 'a', ...both })).toThrow('has several workers');
    }
    expect(() => parse({ command: { args: [] } })).toThrow('must be a program');
    expect(() => parse({ acp: { command: 'a', healthMs: 100 } })).toThrow('healthMs');
  });
});
