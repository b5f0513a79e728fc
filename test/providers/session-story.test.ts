import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import type { Waiting } from '../../src/http/dashboard/facts.js';
import { finish, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';

vi.setConfig({ testTimeout: 120_000 });

const AGENT = fileURLToPath(new URL('acp-agent.mjs', import.meta.url));

describe('a task for a coding agent on another device', () => {
  it(
    'is watched, allowed and continued from the device of its owner, also after a crash [SN.1 AP.1 AP.2]',
    inCluster(async (cluster) => {
      const desktop = await cluster.start('desktop', {
        args: ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`],
        config: { agents: { mars: { acp: { command: process.execPath, args: [AGENT, 'load'] } } } },
      });
      const laptop = await cluster.start('laptop', { args: ['--no-dht', '--listen', '127.0.0.1:0'] });
      await desktop.admit(laptop, { owner: true });
      await untilConnected([desktop, laptop]);
      const approval = async (node: ProcessNode, ...words: string[]) => (await node.run('approval', ...words)).stdout;

      const text = 'do:remember one\ndo:plan look,write\ndo:tool open a.txt\ndo:ask Edit a.txt\ndo:say . done';
      const first = finish(cluster.launch(['task', 'send', 'mars@desktop', text, '--data', laptop.data], laptop.home));
      const item = await until(async () => (await laptop.json<Waiting>('waiting')).items[0], 'the laptop shows it');
      const id = item.id.slice('approval:'.length);
      expect(await approval(laptop, 'list')).toMatch(/Edit a\.txt .* desktop\n$/);
      const shown = await approval(laptop, 'show', id.slice(0, 40));
      expect(shown).toContain('-one\n+two');
      expect(shown).toMatch(/folder +\/.*lanes\/mars\n/);
      expect(shown).toContain('{"agent":"mars","action":"permission.edit","match":"Edit a.txt","decision":"allow"}');
      expect((await laptop.run('approval', 'allow-once', 'no-such-id')).stderr).toContain('APPROVAL_NOT_FOUND');
      // Neither the device nor the whole id is needed.
      const short = id.split('@')[0]!.slice(0, 20);
      const given = await laptop.run('approval', 'allow-once', short);
      expect(given.stdout, given.stderr).toContain('this once, confirmed by desktop');
      // The first answer counts; later ones learn of it, on either device.
      const late = await laptop.run('approval', 'deny', id);
      expect({ code: late.code, stderr: late.stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/ALREADY_ANSWERED.*allow-once/),
      });
      expect(await approval(desktop, 'list', '--all')).toContain('allow-once by laptop');

      const { code, stdout, stderr } = await first;
      expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: 'once. done \n' });
      for (const line of [
        '[ ] look',
        'open a.txt: completed',
        'waits for its owner’s approval: mars asks: Edit a.txt',
      ]) {
        expect(stderr).toContain(line);
      }
      expect(stderr).toMatch(/mars asks: Edit a\.txt: laptop \(\w+\) allowed it/);
      const context = /--context (\S+)/.exec(stderr)![1]!;

      const send = (said: string) => laptop.run('task', 'send', 'mars@desktop', said, '--context', context);
      expect((await send('do:recall')).stdout).toBe('one\n');
      await desktop.crash();
      await desktop.start();
      await untilConnected([desktop, laptop]);
      const again = await send('do:recall');
      expect(again).toMatchObject({ code: 0, stdout: 'one\n' });
      expect(again.stderr).toContain('the agent has loaded the session of this conversation');
      const attached = await laptop.run(
        ...[
          'task',
          'send',
          'mars@desktop',
          'do:blocks',
          '--attach',
          `${laptop.home}/log`,
          '--link',
          'https://a.example/b.md',
        ],
      );
      expect(JSON.parse(attached.stdout)).toMatchObject([
        { type: 'resource', resource: { uri: 'attachment:///log', mimeType: 'text/plain' } },
        { type: 'resource_link', uri: 'https://a.example/b.md', name: 'b.md' },
      ]);
    }),
  );
});
