import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Finished, finish, inCluster } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';
import { PROGRAMS } from './coding-clients.js';

const WORKER = fileURLToPath(new URL('../coding-agents/editor-worker.mjs', import.meta.url));
const CODING_AGENT = fileURLToPath(new URL('../providers/acp-agent.mjs', import.meta.url));

describe('acpx, a command-line client of ACP', () => {
  it(
    'works with agents of the mesh: prompts, files, plan, permission and sessions [ED.4]',
    inCluster(async (cluster) => {
      const mars = { acp: { command: process.execPath, args: [CODING_AGENT, 'load'] } };
      const config = { agents: { worker: { module: WORKER }, mars } };
      const node = await cluster.start('desk', { args: ['--no-dht'], config });
      cluster.onEnd(async () => void (await node.stop()));
      const work = join(cluster.folder, 'work');
      mkdirSync(work);
      writeFileSync(join(work, 'a.txt'), 'file words');
      const acpx = (to: string, ...words: string[]): Promise<Finished> => {
        const agent = `${process.execPath} ${BIN} acp --to ${to} --no-start --data ${node.data}`;
        const args = ['--agent', agent, '--cwd', work, '--approve-all', '--ttl', '1', ...words];
        const env = { PATH: process.env.PATH!, HOME: node.home };
        return finish(spawn(join(PROGRAMS, 'acpx'), args, { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] }));
      };
      expect((await acpx('worker', 'exec', 'hello')).stdout).toContain('you said hello\n');
      expect((await acpx('worker', 'exec', `read ${join(work, 'a.txt')}`)).stdout).toContain('file words\n');
      expect((await acpx('worker', 'exec', `write ${join(work, 'b.txt')} by the agent`)).stdout).toContain('written\n');
      expect(readFileSync(join(work, 'b.txt'), 'utf8')).toBe('by the agent');
      const { stdout } = await acpx('mars', 'exec', 'do:plan look,write\ndo:tool open a.txt\ndo:ask Edit a.txt');
      for (const line of ['[pending] look', 'open a.txt (completed)', 'session/request_permission', 'once']) {
        expect(stdout).toContain(line);
      }
      await acpx('mars', 'sessions', 'new');
      await acpx('mars', 'prompt', 'do:remember seven');
      expect((await acpx('mars', 'prompt', 'do:recall')).stdout).toContain('seven\n');
    }),
  );
});
