import { describe, expect, it } from 'vitest';
import { PLANETARY_ROSTER } from '../../roster/planetary-roster.js';
import type { FoundWorker, WorkerConfig, WorkerKind } from './found.js';
import { hasWorker, proposeStaff, type StaffedConfig } from './proposal.js';

const coder = worker('acp', 'Codex', { acp: { command: 'codex-acp', cwd: '.' } });
const other = worker('acp', 'Gemini', { acp: { command: 'gemini', args: ['--acp'], cwd: '.' } });
const brain = worker('model', 'qwen3', { model: { baseUrl: 'http://127.0.0.1:11434/v1', model: 'qwen3', cwd: '.' } });
const tests: FoundWorker = { ...worker('exec', 'npm test', { exec: 'npm test' }), role: 'saturn' };
const lint: FoundWorker = { ...worker('exec', 'npm run lint', { exec: 'npm run lint' }), role: 'triton' };

function worker(kind: WorkerKind, title: string, config: WorkerConfig): FoundWorker {
  return { kind, title, why: 'it is there', config };
}

function propose(workers: readonly FoundWorker[], config: StaffedConfig = {}, roles?: readonly string[]) {
  const { assignments, ...rest } = proposeStaff({ workers, unusable: [] }, config, roles);
  return {
    roles: Object.fromEntries(assignments.map((one) => [one.role, one.workers.map(({ title }) => title)])),
    ...rest,
  };
}

describe('a proposal of staff', () => {
  it('gives models the decisions, coding agents the files, and scripts the checks [WK.S3]', () => {
    expect(propose([coder, other, brain, tests, lint])).toEqual({
      roles: {
        sun: ['qwen3'],
        mercury: ['qwen3'],
        mars: ['Codex', 'Gemini', 'qwen3'],
        venus: ['Codex', 'Gemini', 'qwen3'],
        pluto: ['Codex', 'Gemini', 'qwen3'],
        saturn: ['npm test'],
        triton: ['npm run lint'],
      },
      staffed: [],
      vacant: [],
      spare: [],
    });
  });

  it('leaves a role without a worker rather than give it one that does not fit [WK.S3]', () => {
    const { roles, vacant } = propose([coder]);
    expect(Object.keys(roles)).toEqual(['mars', 'venus', 'pluto', 'saturn']);
    expect(vacant).toEqual([
      { role: 'sun', reason: 'no model can be used; Codex gets it with: ecliptic staff --roles sun' },
      { role: 'mercury', reason: 'no model can be used; Codex gets it with: ecliptic staff --roles mercury' },
    ]);
    expect(propose([coder], {}, ['sun']).roles).toEqual({ sun: ['Codex'] });
    expect(propose([tests]).roles).toEqual({ saturn: ['npm test'] });
    expect(propose([]).vacant).toHaveLength(6);
  });

  it('leaves every role alone that has a worker of any kind [WK.S3]', () => {
    const agents = {
      sun: { module: './sun.js' },
      mercury: { a2a: ['https://a.example'] },
      mars: [{ acp: { command: 'gemini' } }, { model: {} }],
      venus: { command: './venus.sh' },
      pluto: { model: {} },
      saturn: { exec: 'make test' },
    };
    const { roles, staffed } = propose([coder, brain, tests], { agents });
    expect(roles).toEqual({});
    expect(staffed).toEqual(Object.keys(agents));
  });

  it('gives an agent that is configured without a worker the first one only, beside its fields', () => {
    const agents = { mars: { tier: 2 }, reviewer: { capabilities: ['code.review'] }, venus: [] };
    const { roles } = propose([coder, brain], { agents }, ['mars', 'reviewer', 'pluto']);
    expect(roles).toEqual({ mars: ['Codex'], reviewer: ['Codex'], pluto: ['Codex', 'qwen3'] });
  });

  it('staffs the roles that are asked for, or all of them [WK.S3]', () => {
    expect(propose([coder, brain], {}, ['callisto', 'uranus', 'callisto']).roles).toEqual({
      callisto: ['Codex', 'qwen3'],
      uranus: ['qwen3', 'Codex'],
    });
    const everyone = propose([brain], {}, ['all']);
    expect(Object.keys(everyone.roles)).toEqual(PLANETARY_ROSTER.map(({ id }) => id));
    expect(() => propose([brain], {}, ['vulcan'])).toThrow(expect.objectContaining({ code: 'USAGE' }));
    expect(() => propose([brain], {}, ['__proto__'])).toThrow(expect.objectContaining({ code: 'USAGE' }));
  });

  it('knows only the configured agents where the roster is off', () => {
    expect(propose([brain], { roster: false, agents: { mars: {} } }).roles).toEqual({ mars: ['qwen3'] });
    expect(() => propose([brain], { roster: false }, ['mars'])).toThrow(expect.objectContaining({ code: 'USAGE' }));
  });

  it('names workers as spare that neither it nor the configuration uses', () => {
    const agents = { saturn: tests.config, mars: [other.config] } as unknown as StaffedConfig['agents'] & object;
    expect(propose([coder, other, brain, tests], { agents }, ['sun', 'mars', 'saturn']).spare).toEqual([]);
    expect(propose([brain, tests, lint], { agents }, ['mars', 'saturn']).spare).toEqual([brain, lint]);
  });

  it.each([undefined, null, {}, [], [{}], { tier: 2 }, 'exec', { lane: 'x' }])('takes %j for no worker', (value) => {
    expect(hasWorker(value)).toBe(false);
  });
});
