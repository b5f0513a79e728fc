import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../../agent/agent.js';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { createNode } from '../compose.js';
import { configuredDataFolder } from '../control/data-folder.js';
import { runAgentModule } from './agent-module.js';
import { checkPresence } from './check.js';
import { loadConfig, parseConfig } from './load.js';
import { configJsonSchema } from './schema.js';

const RULE = '"sourceTier": 1, "allowedTargetTiers": [0], "requiresEscalationJustification": true';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-config-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('a configuration text', () => {
  it('may set everything', () => {
    const config = {
      $schema: './ecliptic.schema.json',
      data: './state',
      log: 'warn',
      roster: false,
      agents: {
        builder: {
          name: 'Builder',
          description: 'builds',
          version: '2.0.0',
          tier: 2,
          capabilities: ['code.build', { id: 'code.test', name: 'Tests', description: 'tests', inputSchema: {} }],
          sandbox: 'lab',
          module: './builder.ts',
        },
        constructor: {},
      },
      tiers: { rules: [{ sourceTier: 0, allowedTargetTiers: [1], requiresEscalationJustification: true }] },
      sandbox: { enforced: false, crossSandboxAllowList: ['sun'], allow: { lab: ['mars'] }, shared: ['lab'] },
      limits: {
        mailboxCapacity: 5,
        concurrency: 6,
        channels: { queueCapacity: 7, retries: 0, retryDelayMs: 8, acknowledgeMs: 9, reconnectMs: 10 },
        events: { capacity: 11 },
        threads: { threads: 12, bytes: 13, envelopesPerThread: 14, maxAgeMs: 15, waiting: 16, waitMs: 17 },
      },
    };
    expect(parseConfig(JSON.stringify(config), 'here.json')).toEqual(config);
  });

  it('may set nothing', () => {
    expect(parseConfig('{}', 'here.json')).toEqual({});
  });

  it('may hold comments and trailing commas', () => {
    const text = `// what this node is for
      {
        /* quiet,
           please */
        "log": "error", // not a word
        "agents": { "mars": { "capabilities": ["a", "b",], }, },
      } // the end`;
    expect(parseConfig(text, 'here.json')).toEqual({ log: 'error', agents: { mars: { capabilities: ['a', 'b'] } } });
  });

  it.each<[string, string, string]>([
    ['a value that stops short', '{\n  "log": tru\n}', '2:10'],
    ['a missing colon', '{\n  "log" "info"\n}', '2:9'],
    ['a missing brace', '{\n  "log": "info"\n', '3:1'],
    ['something after the end', '{}\n\n  {}', '3:3'],
    ['a text without an end', '{\n  "log": "info\n}', '2:10'],
    ['nothing at all', '', '1:1'],
    ['nothing but space', '\n  \n', '3:1'],
    ['nothing but a comment', '// soon', '1:8'],
  ])('with %s is refused with the place of the fault', (_, text, place) => {
    const [fault] = faultsOf(text);
    expect(fault).toMatch(new RegExp(`^here\\.json:${place}: .+`));
  });

  it.each(['null', '[]', '"text"', '42', 'true'])('that is %s is refused', (text) => {
    expect(faultsOf(text)).toEqual([expect.stringMatching(/^here\.json:1:1: .*expected object/)]);
  });

  it('is refused with every fault, each with its place and what was expected', () => {
    const faults = faultsOf(
      lines(
        '{',
        '  "log": "loud",',
        '  "roster": "yes",',
        '  "data": "",',
        '  "agents": {',
        '    "mars": { "description": 5 },',
        '    "venus": { "capabilities": "none" }',
        '  },',
        '  "limits": {',
        '    "concurrency": 0,',
        '    "mailboxCapacity": 1.5,',
        '    "events": { "capacity": null }',
        '  }',
        '}',
      ),
    );
    expect(faults).toHaveLength(8);
    expect(faults).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^here\.json:2:10: log: .*"debug".*"info".*"warn".*"error".*"silent"/),
        expect.stringMatching(/^here\.json:3:13: roster: .*boolean/),
        expect.stringMatching(/^here\.json:4:11: data: .*1 char/),
        expect.stringMatching(/^here\.json:6:30: agents\.mars\.description: .*string/),
        expect.stringMatching(/^here\.json:7:32: agents\.venus\.capabilities: .*array/),
        expect.stringMatching(/^here\.json:10:20: limits\.concurrency: .*>0/),
        expect.stringMatching(/^here\.json:11:24: limits\.mailboxCapacity: .*int/),
        expect.stringMatching(/^here\.json:12:29: limits\.events\.capacity: .*number/),
      ]),
    );
  });

  it('is refused with its file and its faults in the error’s details, and all of them in its message', () => {
    const error = thrownBy(() => parseConfig('{ "log": 1, "data": 2 }', '/etc/ecliptic.json'));
    const faults = error.details.faults as string[];
    expect(error.details.file).toBe('/etc/ecliptic.json');
    expect([...faults].sort()).toEqual([
      expect.stringMatching(/^\/etc\/ecliptic\.json:1:10: log: /),
      expect.stringMatching(/^\/etc\/ecliptic\.json:1:21: data: /),
    ]);
    for (const fault of faults) expect(error.message).toContain(fault);
  });

  it.each<[string, string]>([
    ['a tier', '{ "agents": { "mars": { "tier": 5 } } }'],
    ['a tier as text', '{ "agents": { "mars": { "tier": "2" } } }'],
    ['a capability', '{ "agents": { "mars": { "capabilities": [1] } } }'],
  ])('with %s of the wrong kind is refused with what was expected', (_, text) => {
    expect(faultsOf(text)).toEqual([
      expect.stringMatching(/^here\.json:1:\d+: agents\.mars\..*(expected|must be|one of)/),
    ]);
  });

  it.each<[string, string[], number]>([
    ['at the top', ['{', '  "log": "info",', '  "lgo": "info"', '}'], 3],
    ['of an agent', ['{', '  "agents": { "mars": {', '    "tier": 2,', '    "lgo": 1', '  } }', '}'], 4],
    ['of the limits', ['{', '  "limits": {', '    "lgo": 1', '  }', '}'], 3],
    ['of the channels’ limits', ['{', '  "limits": { "channels": {', '    "lgo": 1', '  } }', '}'], 3],
    ['of a capability', ['{ "agents": { "mars": { "capabilities": [{', '  "id": "a",', '  "lgo": 1', '}] } } }'], 3],
    ['of the sandbox rules', ['{ "sandbox": {', '  "enforced": true,', '  "lgo": {}', '} }'], 3],
    ['of the tier rules', ['{ "tiers": {', '  "rules": [],', '  "lgo": {}', '} }'], 3],
    ['of a tier rule', ['{ "tiers": { "rules": [{', `  ${RULE},`, '  "lgo": 1', '}] } }'], 3],
  ])('with an unknown key %s is refused with the key and its line', (_, text, line) => {
    expect(faultsOf(lines(...text))).toEqual([expect.stringMatching(new RegExp(`^here\\.json:${line}:\\d+: .*lgo`))]);
  });

  it('with several unknown keys is refused with all of them', () => {
    expect(faultsOf('{ "toString": 1, "constructor": 2, "agentz": 3 }').join('\n')).toMatch(
      /(?=.*toString)(?=.*constructor)(?=.*agentz)/s,
    );
  });

  it.each([
    '{ "__proto__": { "log": "info" } }',
    '{ "agents": { "__proto__": {} } }',
    '{ "agents": { "mars": { "__proto__": {} } } }',
    '{ "limits": { "__proto__": { "concurrency": 1 } } }',
    '{ "sandbox": { "enforced": true, "allow": { "__proto__": ["mars"] } } }',
  ])('with the key __proto__ is refused: %s', (text) => {
    expect(faultsOf(text)).toEqual([expect.stringMatching(/^here\.json:1:\d+: .*__proto__/)]);
    expect(Object.hasOwn(Object.prototype, 'log')).toBe(false);
  });

  it.each(['a b', 'mars@here', '*', 'a.b', '-mars', '', 'märz', 'a/b'])(
    'with the agent id %j is refused with what an id looks like',
    (id) => {
      const faults = faultsOf(`{ "agents": { ${JSON.stringify(id)}: {} } }`);
      expect(faults).toEqual([expect.stringMatching(/^here\.json:1:\d+: agents.*letters, digits/)]);
    },
  );

  it.each<[string, object]>([
    ['an id of 65 characters', { ['a'.repeat(65)]: {} }],
    ['an empty name', { mars: { name: '' } }],
    ['a name of 257 characters', { mars: { name: 'x'.repeat(257) } }],
    ['an empty version', { mars: { version: '' } }],
    ['a description of 4,097 characters', { mars: { description: 'x'.repeat(4_097) } }],
    ['a sandbox of 129 characters', { mars: { sandbox: 'x'.repeat(129) } }],
    ['a capability of 129 characters', { mars: { capabilities: ['x'.repeat(129)] } }],
    ['257 capabilities', { mars: { capabilities: Array.from({ length: 257 }, (_, n) => `c.${n}`) } }],
  ])('with an agent that no node would take, for %s, is refused', (_, agents) => {
    expect(faultsOf(JSON.stringify({ agents }))).toHaveLength(1);
  });

  it('with two rules for one tier is refused', () => {
    const faults = faultsOf(`{ "tiers": { "rules": [{ ${RULE} }, { ${RULE} }] } }`);
    expect(faults).toEqual([expect.stringMatching(/^here\.json:1:\d+: tiers\.rules.*: one rule for each tier/)]);
  });

  it('of any kind is taken, or refused as INVALID_CONFIG with a place', () => {
    const part = fc.oneof(
      fc.constantFrom('{', '}', '[', ']', ':', ',', '"', '//', '/*', '*/', '\n', ' ', 'null', 'true', '1', '-', '\\u'),
      fc.constantFrom('"log"', '"info"', '"agents"', '"mars"', '"__proto__"', '"tier"', '"limits"', '"sandbox"'),
      fc.string({ maxLength: 4 }),
    );
    const text = fc.oneof(
      fc.array(part, { maxLength: 30 }).map((parts) => parts.join('')),
      fc.json(),
    );
    fc.assert(
      fc.property(text, (written) => {
        const error = attempt(() => parseConfig(written, 'here.json'));
        if (error === undefined) return;
        expect(error).toSatisfy(coded('INVALID_CONFIG'));
        const faults = (error as EclipticError).details.faults as string[];
        expect(faults.length).toBeGreaterThan(0);
        for (const fault of faults) expect(fault).toMatch(/^here\.json:\d+:\d+: ./);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('finding the configuration', () => {
  it('takes ecliptic.json of the working folder', () => {
    const file = write('ecliptic.json', '{ "log": "debug" }');
    expect(loadConfig(undefined, folder)).toEqual({ config: { log: 'debug' }, file, folder });
  });

  it('needs none', () => {
    expect(loadConfig(undefined, folder)).toEqual({ config: {}, file: undefined, folder });
  });

  it('takes the file that was named, from the working folder, and not ecliptic.json', () => {
    write('ecliptic.json', '{ "log": "debug" }');
    mkdirSync(join(folder, 'deploy'));
    const file = write('deploy/node.json', '{ "log": "warn" }');
    const expected = { config: { log: 'warn' }, file, folder: join(folder, 'deploy') };
    expect(loadConfig('deploy/node.json', folder)).toEqual(expected);
    expect(loadConfig(file, '/')).toEqual(expected);
  });

  it('refuses a file that was named and is not there', () => {
    write('ecliptic.json', '{}');
    const error = thrownBy(() => loadConfig('missing.json', folder));
    expect(error.details).toMatchObject({ file: join(folder, 'missing.json') });
    expect(error.message).toContain(join(folder, 'missing.json'));
  });

  it('refuses a folder in place of a file', () => {
    mkdirSync(join(folder, 'ecliptic.json'));
    expect(thrownBy(() => loadConfig(undefined, folder)).details).toMatchObject({
      file: join(folder, 'ecliptic.json'),
    });
  });

  it('reports faults with the file’s full path', () => {
    const file = write('ecliptic.json', '{ "log": 1 }');
    const error = thrownBy(() => loadConfig(undefined, folder));
    expect(error.details).toEqual({ file, faults: [expect.stringContaining(`${file}:1:10: `)] });
  });
});

describe('checking that modules and programs are there', () => {
  const check = (config: object, env: Record<string, string> = {}) => {
    writeFileSync(join(folder, 'ecliptic.json'), JSON.stringify(config));
    return () => checkPresence(loadConfig(undefined, folder), { PATH: folder, ...env });
  };

  it('passes without a file, without agents, and with everything there', () => {
    expect(() => checkPresence(loadConfig(undefined, folder), {})).not.toThrow();
    expect(check({ agents: { plain: {} }, mcpServers: { web: { url: 'http://localhost:1' } } })).not.toThrow();
    writeFileSync(join(folder, 'tool'), '#!/bin/sh\n', { mode: 0o755 });
    writeFileSync(join(folder, 'agent.mjs'), '');
    const agents = {
      module: { module: 'agent.mjs' },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the configuration
      named: { command: '${TOOL:-tool}' },
      placed: { acp: { command: './tool' } },
    };
    expect(check({ agents, mcpServers: { tool: { command: './tool' } } })).not.toThrow();
  });

  it.each<[string, object, RegExp]>([
    ['a folder for a module', { agents: { a: { module: '.' } } }, /agents\.a\.module: there is no file /],
    ['a folder for a program', { agents: { a: { command: './' } } }, /agents\.a\.command: there is no program /],
    ['a name that is not on the PATH', { agents: { a: { command: 'sh' } } }, /no program "sh" on the PATH/],
    ['a PATH of its own', { agents: { a: { acp: { command: 'sh', env: { PATH: '/x' } } } } }, /agents\.a\.acp: /],
    ['an address without a port', { http: { allowPrivate: ['127.0.0.1'] } }, /http\.allowPrivate: "127\.0\.0\.1" /],
    ['a missing folder', { agents: { a: { command: { command: '/bin/sh', cwd: 'gone' } } } }, /there is no folder /],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the configuration
    ['a missing variable', { agents: { a: { command: '${TOOL}' } } }, /agents\.a\.command: .*no TOOL/],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the configuration
    ['a server’s missing variable', { mcpServers: { s: { url: '${WHERE}' } } }, /mcpServers\.s: .*no WHERE/],
  ])('refuses %s with its place', (_, config, message) => {
    expect(check(config)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    expect(check(config)).toThrow(message);
    expect(check(config)).toThrow(`${join(folder, 'ecliptic.json')}:1:`);
  });
});

describe('the data folder that a configuration names', async () => {
  it('is relative to the file', async () => {
    mkdirSync(join(folder, 'deploy'));
    write('deploy/node.json', '{ "data": "./state" /* here */ }');
    expect(await configuredDataFolder('deploy/node.json', folder)).toBe(join(folder, 'deploy', 'state'));
    expect(await configuredDataFolder(join(folder, 'deploy/node.json'), '/')).toBe(join(folder, 'deploy', 'state'));
  });

  it('may be absolute', async () => {
    write('ecliptic.json', '{ "data": "/srv/ecliptic" }');
    expect(await configuredDataFolder(undefined, folder)).toBe('/srv/ecliptic');
  });

  it('is known even when the rest of the file has faults', async () => {
    write('ecliptic.json', '{ "data": "state", "log": "loud" }');
    expect(await configuredDataFolder(undefined, folder)).toBe(join(folder, 'state'));
  });

  it.each(['{}', '', 'null', '[]', '{ "data": 5 }', '{ "data": null }'])('is none in %j', async (text) => {
    write('ecliptic.json', text);
    expect(await configuredDataFolder(undefined, folder)).toBeUndefined();
  });

  it('is none without a file', async () => {
    expect(await configuredDataFolder(undefined, folder)).toBeUndefined();
    expect(await configuredDataFolder('missing.json', folder)).toBeUndefined();
  });
});

describe('an agent’s module', async () => {
  let temporary: string;

  beforeEach(() => {
    temporary = join(folder, 'tmp');
    mkdirSync(temporary);
    vi.stubEnv('TMPDIR', temporary);
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  const javaScript = `export function setup(agent) { agent.onRequest((message) => ({ from: agent.id, got: message.payload })); }`;
  const typeScript = `import { greet, type Greeting } from './greet.js';
    enum Mood { Good = 'good' }
    export async function setup(agent: { id: string; onRequest(handler: (message: { payload: unknown }) => Greeting): void }): Promise<void> {
      await Promise.resolve();
      agent.onRequest((message) => greet(agent.id, message.payload, Mood.Good));
    }`;
  const greet = `export interface Greeting { from: string; got: unknown; mood: string }
    export function greet(from: string, got: unknown, mood: string): Greeting { return { from, got, mood }; }`;

  it.each(['agent.mjs', 'agent.js'])('may be JavaScript in %s', async (name) => {
    write('package.json', '{ "type": "module" }');
    await load(name, javaScript, async (ask) => expect(await ask(1)).toEqual({ from: 'mars', got: 1 }));
  });

  it('may be an older kind of JavaScript', async () => {
    const text = `exports.setup = (agent) => { agent.onRequest(() => require('node:path').basename(__filename)); };`;
    await load('agent.cjs', text, async (ask) => expect(await ask(1)).toBe('agent.cjs'));
  });

  it.each(['agent.ts', 'agent.mts'])('may be TypeScript in %s, with files of its own', async (name) => {
    write('greet.ts', greet);
    await load(name, typeScript, async (ask) => expect(await ask(1)).toEqual({ from: 'mars', got: 1, mood: 'good' }));
  });

  it.each<[string, string, string]>([
    ['is not there', 'missing.js', ''],
    ['is not there, as TypeScript', 'missing.ts', ''],
    ['has no setup', 'agent.mjs', 'export const start = () => {};'],
    ['has no setup, as TypeScript', 'agent.ts', 'export const start = () => {};'],
    ['has a setup that is no function', 'agent.mjs', 'export const setup = {};'],
    ['throws when loaded', 'agent.mjs', 'throw new Error("boo"); export function setup() {}'],
    ['throws when loaded, as TypeScript', 'agent.ts', 'throw new Error("boo"); export function setup() {}'],
    ['throws in its setup', 'agent.mjs', 'export function setup() { throw new Error("boo"); }'],
    ['throws in its setup, as TypeScript', 'agent.ts', 'export function setup() { throw new Error("boo"); }'],
    ['throws later in its setup', 'agent.mjs', 'export async function setup() { await null; throw new Error("boo"); }'],
    ['throws no error but a text', 'agent.mjs', 'export function setup() { throw "boo"; }'],
    ['throws nothing at all', 'agent.mjs', 'export function setup() { throw undefined; }'],
    ['throws what has no text', 'agent.mjs', 'export function setup() { throw Object.create(null); }'],
    ['is no JavaScript', 'agent.mjs', 'export function setup( {'],
    ['is no TypeScript', 'agent.ts', 'export function setup(agent: {'],
    ['needs what is not there', 'agent.mjs', 'import "./missing.js"; export function setup() {}'],
    ['needs what is not there, as TypeScript', 'agent.ts', 'import "./missing.js"; export function setup() {}'],
  ])('that %s is refused as MODULE_FAILED with its file', async (_, name, text) => {
    const file = name.startsWith('missing') ? join(folder, name) : write(name, text);
    await withAgent(async (agent) => {
      const error = await runAgentModule(agent, file).catch((thrown) => thrown);
      expect(error).toSatisfy(coded('MODULE_FAILED'));
      expect(error.details).toEqual({ file });
      expect(error.message).toContain(file);
      if (text.includes('"boo"')) expect(error.message).toContain('boo');
    });
  });

  it('in TypeScript is never taken from a folder where another user could have put it', async () => {
    await load('agent.ts', 'export function setup() {}', () => {});
    expect(readdirSync(temporary)).toEqual([]);
  });

  async function load(name: string, text: string, check: (ask: (payload: unknown) => Promise<unknown>) => unknown) {
    const file = write(name, text);
    await withAgent(async (agent, asker) => {
      await runAgentModule(agent, file);
      await check((payload) => asker.request('mars', payload));
    });
  }

  async function withAgent(test: (agent: Agent, asker: Agent) => Promise<void>): Promise<void> {
    const node = await createNode({ runtime: new SimulatedRuntime() });
    try {
      await test(node.agent({ id: 'mars' }), node.agent({ id: 'sun' }));
    } finally {
      await node.stop();
    }
  }
});

describe('the published schema', () => {
  it('is the one that configurations are checked with', () => {
    const published = new URL('../../../schema/ecliptic.schema.json', import.meta.url);
    expect(JSON.parse(readFileSync(published, 'utf8'))).toEqual(configJsonSchema());
  });

  it('describes every setting at the top', () => {
    expect(configJsonSchema()).toMatchObject({
      type: 'object',
      additionalProperties: false,
      properties: { data: {}, log: {}, roster: {}, agents: {}, tiers: {}, sandbox: {}, limits: {} },
    });
  });
});

function write(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

function lines(...text: string[]): string {
  return text.join('\n');
}

function faultsOf(text: string): string[] {
  return thrownBy(() => parseConfig(text, 'here.json')).details.faults as string[];
}

/** The refusal that a configuration must get. */
function thrownBy(work: () => unknown): EclipticError {
  const error = attempt(work);
  expect(error).toSatisfy(coded('INVALID_CONFIG'));
  return error as EclipticError;
}

function attempt(work: () => unknown): unknown {
  try {
    work();
    return undefined;
  } catch (error) {
    return error;
  }
}

function coded(code: ErrorCode): (error: unknown) => boolean {
  return (error) => error instanceof EclipticError && error.code === code;
}
