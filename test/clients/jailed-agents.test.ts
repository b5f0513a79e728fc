import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { inCluster } from '../nodes/cluster.js';
import { PROGRAMS, WAYS } from './coding-clients.js';
import { ScriptedModel } from './scripted-model.js';

/** The real agents, each with its own settings in a folder that its jail opens. */
const AGENTS = {
  claude: { words: ['claude-agent-acp'], way: 'claude-code', settings: undefined, shell: 'Bash' },
  gemini: { words: ['gemini', '--acp'], way: 'gemini', settings: '.gemini/settings.json', shell: 'run_shell_command' },
  opencode: { words: ['opencode', 'acp'], way: 'opencode', settings: '.config/opencode/opencode.json', shell: 'bash' },
} as const;

describe.each(['claude', 'gemini', 'opencode'] as const)('%s in a jail', (id) => {
  it(
    'works in its folder and reaches its model, while its commands find no secret and cannot write outside [JL.5]',
    inCluster(async (cluster) => {
      const { words, way, settings, shell } = AGENTS[id];
      const home = join(cluster.folder, `home-${id}`);
      const project = join(cluster.folder, 'project');
      const secret = join(cluster.folder, 'secret.txt');
      for (const folder of [home, project]) mkdirSync(folder, { recursive: true });
      writeFileSync(secret, 'SECRET of the owner');
      const model = await ScriptedModel.start();
      cluster.onEnd(() => model.close());
      const command = `cat ${secret}; echo x > /etc/ecliptic-test; echo made > made.txt; ls /proc | grep -c '^[0-9]'`;
      const input = { command, description: 'look around' };
      const url = model.converse('worker', [{ tool: shell, input }, { text: 'looked around' }]);
      if (settings) {
        mkdirSync(join(home, settings, '..'), { recursive: true });
        writeFileSync(join(home, settings), WAYS[way]!.settings(url));
      }
      const [program, ...args] = words;
      const acp = { command: join(PROGRAMS, program), args, cwd: project, env: { HOME: home, ...WAYS[way]!.env(url) } };
      // That of opencode is in its settings, and not in a variable.
      const network = id === 'claude' ? {} : { network: [new URL(url).host] };
      const config = {
        ...{ roster: false, policy: [{ action: '*', decision: 'allow' as const }] },
        agents: { worker: { acp, jail: { required: true, write: [home], ...network } } },
      };
      const node = await cluster.start('desk', { args: ['--no-dht'], config });
      cluster.onEnd(async () => void (await node.stop()));
      const { stdout } = await node.run('propose', 'worker', 'look around', '--deadline', '90s', '--json');
      expect(JSON.parse(stdout.trim().split('\n').at(-1)!), stdout).toMatchObject({ result: 'looked around' });
      expect(await node.call('providers')).toMatchObject([{ id: 'worker', jail: 'bwrap' }]);
      expect(readFileSync(join(project, 'made.txt'), 'utf8')).toBe('made\n');
      expect(existsSync('/etc/ecliptic-test')).toBe(false);
      const told = JSON.stringify(model.of('worker').results);
      expect(told).toContain('No such file or directory');
      expect(told).toMatch(/Read-only file system|cannot create \/etc\/ecliptic-test/);
      expect(told).not.toContain('SECRET of the owner');
      expect(model.faults).toEqual([]);
    }),
  );
});
