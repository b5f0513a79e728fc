import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { TABLE } from '../src/cli/nouns.js';
import { outputSchema, outputSchemas } from '../src/cli/output-schema.js';
import { expectJsonOutput } from './json-output.js';
import { Cluster, type ProcessNode } from './nodes/cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** They print no JSON, or a document of another kind. */
const WITHOUT = [
  ...['coding-agent mcp', 'coding-agent acp', 'coding-agent hook', 'coding-agent guard'],
  ...['config schema', 'plan schema', 'node logs', 'completion bash', 'completion zsh', 'completion fish'],
];

describe('the output of commands with --json', () => {
  let cluster: Cluster;
  let node: ProcessNode;

  beforeAll(async () => {
    cluster = new Cluster();
    const echo = { command: process.execPath, args: ['-e', 'process.stdin.pipe(process.stdout)'] };
    const config = { agents: { mars: { exec: echo } } };
    node = await cluster.start('a', { args: ['--no-dht', '--listen', '127.0.0.1:0'], config });
  });

  afterAll(() => cluster.end());

  it('has a schema for every command that prints JSON [FM.json]', async () => {
    const missing: string[] = [];
    for (const noun of TABLE.nouns) {
      const { verbs } = await noun.load();
      const names = Object.keys(verbs);
      for (const verb of names) {
        const path = names.length === 1 && noun.otherwise === verb ? noun.name : `${noun.name} ${verb}`;
        if (outputSchema(path) === undefined) missing.push(path);
      }
    }
    expect(missing.sort()).toEqual([...WITHOUT].sort());
  });

  it('matches the schema of its command [FM.json]', async () => {
    const lines = [
      ['welcome'],
      ['agents'],
      ['agents', '--capability', 'none.such'],
      ['card', 'mars'],
      ['doctor'],
      ['metrics'],
      ['peers'],
      ['invite'],
      ['tools'],
      ['waiting'],
      ['inbox'],
      ['tokens'],
      ['token', 'list'],
      ['policy', '--from', 'mercury', '--to', 'mars'],
      ['providers'],
      ['provider', 'show', 'mars'],
      ['request', '--as', 'sun', '--to', 'mars', '"hello"'],
      ['proposal', 'send', 'mars', 'Say it', '--as', 'sun'],
      ['task', 'send', 'mars', 'Say it'],
      ['tasks'],
      ['memory', 'add', 'The orders service is deployed with make ship.', '--tag', 'deploy'],
      ['memory', 'search', 'deploy'],
      ['log', 'search'],
      ['audit', 'verify'],
      ['swarms'],
      ['runs'],
      ['doc', 'set', 'notes', 'a', '1'],
      ['states'],
      ['leases'],
      ['radar'],
      ['workspaces'],
      ['config', 'check'],
      ['review', '.'],
    ];
    const seen: string[][] = [];
    const next = async (): Promise<void> => {
      const line = lines.shift();
      if (!line) return;
      // `run` compares the output with the schema.
      const { code, stdout, stderr } = await node.run(...line, '--json');
      if (code === 0) expect({ line, stdout, stderr }).toMatchObject({ stdout: expect.stringMatching(/^.+\n/) });
      else expect({ line, stderr }).toMatchObject({ stderr: expect.stringMatching(/^\{"error":/) });
      seen.push([...line, String(code)]);
      await next();
    };
    await Promise.all([next(), next(), next()]);
    expect(seen.filter((line) => line.at(-1) === '0').length).toBeGreaterThan(25);
  });

  it('is refused by the schema where it differs [FM.json]', async () => {
    const { stdout } = await node.run('agents', '--json');
    const rows = JSON.parse(stdout) as Record<string, unknown>[];
    const wrong = JSON.stringify(rows.map(({ tier: _, ...row }) => row));
    await expect(expectJsonOutput(['agents', '--json'], { stdout: wrong, stderr: '' })).rejects.toThrow(/tier/);
    const unknown = { stdout: '', stderr: '{"error":{"code":"NO_SUCH_CODE"}}' };
    await expect(expectJsonOutput(['agents', '--json'], unknown)).rejects.toThrow(/code/);
  });

  it('is described by help --json-schema: of one command, of all, or with the names that there are [FM.json]', async () => {
    const one = await node.run('help', '--json-schema', 'agents');
    expect(JSON.parse(one.stdout)).toMatchObject({ type: 'array', $defs: { AgentRow: { properties: { tier: {} } } } });
    const all = await cluster.run(['help', '--json-schema']);
    expect(JSON.parse(all.stdout)).toEqual(outputSchemas());
    const none = await cluster.run(['help', '--json-schema', 'completion', 'bash']);
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('it prints no JSON') });
    const noun = await cluster.run(['help', '--json-schema', 'message']);
    expect(noun).toMatchObject({ code: 2, stderr: expect.stringContaining('message send') });
  });
});
