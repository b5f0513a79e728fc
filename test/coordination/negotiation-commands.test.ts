import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ProposalListRow } from '../../src/node/control/rows.js';
import { BIN } from '../source-files.js';

let folder: string;
let node: ChildProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-proposals-'));
  const agent = (module: string) => ({ module: `./${module}.mjs`, capabilities: ['build'], tier: 3 });
  writeFileSync(
    join(folder, 'ecliptic.json'),
    JSON.stringify({ data: './state', agents: { builder: agent('builder'), picky: agent('picky') } }),
  );
  writeFileSync(
    join(folder, 'builder.mjs'),
    `export function setup(agent) {
      agent.onTask(async (task) => {
        task.progress('half \\u001b[2Jdone');
        if (task.text === 'a house') task.usage({ inputTokens: 1200, outputTokens: 80, modelCalls: 2, costUsd: 0.0031 });
        if (task.text === 'break') throw new Error('no bricks');
        return { built: task.text, with: task.message.parts[1]?.data };
      });
    }`,
  );
  writeFileSync(
    join(folder, 'picky.mjs'),
    `export function setup(agent) {
      agent.onProposal((p) => p.proposal.taskDescription === 'sleep' ? undefined : p.reject('busy', { alternative: 'builder' }));
    }`,
  );
  node = launch(['up', '--json', '--port', '0']);
  await once(createInterface({ input: node.stdout! }), 'line');
}, 60_000);

afterAll(async () => {
  node.kill('SIGTERM');
  await once(node, 'close');
  rmSync(folder, { recursive: true, force: true });
});

describe('propose', () => {
  it('shows the proposal pending, accepted, its progress and usage, and its result [WK.A5]', async () => {
    const { code, stdout, stderr } = await run(['propose', 'builder', 'a house', '--input', '{"bricks":7}']);
    expect({ code, result: JSON.parse(stdout) }).toEqual({
      code: 0,
      result: { built: 'a house', with: { bricks: 7 } },
    });
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(/^pending: proposal 0\w+ to builder$/),
      'accepted by builder',
      '… half \ufffd[2Jdone',
      '… used 1200 tokens in, 80 out, 2 model calls, $0.0031',
    ]);
  });

  it('finds an agent with the capability, takes the best bid, and prints events as JSON', async () => {
    for (const extra of [[], ['--all'], ['--as', 'picky'], ['--durable']]) {
      const { stdout } = await run(['propose', '--capability', 'build', 'a shed', ...extra, '--json']);
      const events = stdout.trim().split('\n');
      const read = events.map((line) => JSON.parse(line));
      expect(read.map(({ event }) => event)).toEqual(expect.arrayContaining(['pending', 'answered', 'result']));
      expect(read.at(-1)).toEqual({ event: 'result', result: { built: 'a shed' } });
    }
  });

  it('prints the reason when it was rejected, failed or timed out', async () => {
    const rejected = await run(['propose', 'picky', 'a house']);
    expect(rejected).toMatchObject({ code: 1, stdout: '' });
    expect(rejected.stderr).toMatch(/rejected: busy; it suggests builder\nPROPOSAL_REJECTED: /);
    expect((await run(['propose', 'builder', 'break'])).stderr).toMatch(/HANDLER_FAILED: no bricks/);
    expect((await run(['propose', 'picky', 'sleep', '--deadline', '100ms'])).stderr).toMatch(/PROPOSAL_TIMEOUT: /);
    expect((await run(['propose', 'nobody', 'x'])).stderr).toMatch(/AGENT_NOT_FOUND: /);
    expect((await run(['propose', 'x'])).code).toBe(2);
    expect((await run(['propose', 'builder', 'x', '--all'])).code).toBe(2);
  });
});

describe('proposals', () => {
  it('lists the proposals that agents of this node sent and received, each once [T-B9]', async () => {
    const rows = JSON.parse((await run(['proposals', '--json'])).stdout) as ProposalListRow[];
    const seen = rows.map(({ agent, side, peer, work, proposal }) => [agent, side, peer, work, proposal.status]);
    expect(seen).toContainEqual(['operator', 'sent', 'builder', 'done', 'accepted']);
    expect(seen).toContainEqual(['operator', 'sent', 'picky', 'none', 'rejected']);
    const ids = rows.map(({ proposal }) => proposal.proposalId);
    expect(new Set(ids).size).toBe(ids.length);
    expect((await run(['proposals', '--agent', 'picky'])).stdout).toMatch(/rejected: busy +- +a house/);
    expect((await run(['proposals', '--pending'])).stdout).toBe('no proposals\n');
  });
});

function launch(args: readonly string[]): ChildProcess {
  const { ECLIPTIC_DATA: _, ECLIPTIC_CONFIG: __, ...env } = process.env;
  return spawn(process.execPath, [BIN, ...args], { cwd: folder, env });
}

async function run(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = launch(args);
  const ended = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!)]);
  const [code] = (await ended) as [number];
  return { code, stdout, stderr };
}
