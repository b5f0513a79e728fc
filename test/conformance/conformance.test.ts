import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Cluster } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';
import { type ClientDoor, openClientDoor } from './client-door.js';
import { type Endpoint, startAcross, startAlone } from './endpoints.js';
import { installPackages, runInspector } from './packages.js';
import { judgeClient, judgeServer, type Verdict } from './suite.js';

// The packages are installed once, which takes its time.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 300_000 });

/** How many scenarios each revision requires of a server. */
const REVISIONS = [
  ['2026-07-28', 37],
  ['2025-11-25', 30],
] as const;

beforeAll(installPackages);

describe('the MCP endpoint with agents of this node', () => {
  const endpoint = started(startAlone);

  it.each(REVISIONS)('passes every scenario that MCP %s requires [R6.2 R6.3 R6.5]', (revision, count) =>
    passesAll(endpoint(), revision, count),
  );

  it('serves the MCP Inspector over standard input and output [MC11]', async () => {
    const { front } = endpoint();
    const words = [process.execPath, BIN, 'mcp', '--as', 'inspector', '--tools', 'all', '--data', front.data];
    // A shared note may be any value, of which the inspector warns.
    const said = /^ecliptic: this agent is "inspector" on the mesh\n(Schema portability: 0 errors, 1 warning .*\n)?$/;
    await listsAndCalls(['--cwd', front.home, '--', ...words], said);
  });
});

describe('the MCP endpoint with agents of another node', () => {
  const endpoint = started(startAcross);

  it.each(REVISIONS)('passes every scenario that MCP %s requires [R6.2 R6.3 R6.5]', (revision, count) =>
    passesAll(endpoint(), revision, count),
  );

  it('serves the MCP Inspector over HTTP, without a token and with one, of both eras [R5.2 R5.3]', async () => {
    const { mcp, token } = endpoint().front.ready;
    const bearing = (secret: string) => ['--header', `Authorization: Bearer ${secret}`];
    await listsAndCalls([mcp, '--transport', 'http', '--protocol-era', 'legacy']);
    await listsAndCalls([mcp, '--transport', 'http', '--protocol-era', 'modern', ...bearing(token)]);
    const stranger = [mcp, '--transport', 'http', '--stored-auth-only', ...bearing('unknown')];
    const refused = await runInspector('--method', 'tools/list', ...stranger);
    expect(refused.code, refused.stdout).not.toBe(0);
  });
});

describe('the client for upstream MCP servers', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-conformance-'));
  let door: ClientDoor;
  beforeAll(async () => {
    door = await openClientDoor();
  });
  afterAll(async () => {
    await door.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each([
    ['2026-07-28', 32],
    ['2025-11-25', 18],
  ])('passes every scenario that MCP %s requires [UP2 UP10]', async (revision, count) => {
    isComplete(await judgeClient(door.command, revision, join(folder, revision)), count);
  });
});

/** Has the tests of a block share an endpoint. */
function started(start: (cluster: Cluster) => Promise<Endpoint>): () => Endpoint {
  const cluster = new Cluster();
  let endpoint: Endpoint | undefined;
  beforeAll(async () => {
    endpoint = await start(cluster);
  });
  afterAll(() => cluster.end());
  return () => endpoint!;
}

async function passesAll({ front }: Endpoint, revision: string, count: number): Promise<void> {
  isComplete(await judgeServer(front.ready.mcp, revision, join(front.home, revision)), count);
}

function isComplete({ required, passed, failed, output }: Verdict, count: number): void {
  expect(failed).toEqual({});
  expect(required, output).toHaveLength(count);
  expect(passed, output).toEqual(expect.arrayContaining([...required]));
}

/** Lists and calls through the inspector; beside the answers, it says that and nothing else. */
async function listsAndCalls(target: readonly string[], said = /^$/): Promise<void> {
  const ask = async (...method: string[]) => {
    const { code, stdout, stderr } = await runInspector('--format', 'json', ...method, ...target);
    expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: expect.stringMatching(said) });
    return JSON.parse(stdout).result;
  };
  const { tools } = await ask('--method', 'tools/list');
  expect(tools).toContainEqual(expect.objectContaining({ name: 'test_simple_text' }));
  const { content } = await ask('--method', 'tools/call', '--tool-name', 'test_simple_text');
  expect(content).toEqual([{ type: 'text', text: 'This is a simple text response for testing.' }]);
}
