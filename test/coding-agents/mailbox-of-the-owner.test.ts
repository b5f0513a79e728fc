import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it, vi } from 'vitest';
import { idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, until, untilConnected } from '../nodes/cluster.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 120_000 });

interface Post {
  readonly text: string;
  readonly items: readonly { readonly id: string; readonly kind: string; readonly title: string }[];
}

/** A webhook that is busy at the first call. */
async function receiver(cluster: Cluster) {
  const got: { authorization: string | undefined; body: Post }[] = [];
  let calls = 0;
  const server = createServer(async (request, response) => {
    const body = await text(request);
    if (++calls === 1) return response.writeHead(503).end();
    got.push({ authorization: request.headers.authorization, body: JSON.parse(body) as Post });
    return response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cluster.onEnd(async () => void server.close());
  const { port } = server.address() as AddressInfo;
  return { got, calls: () => calls, address: `127.0.0.1:${port}` };
}

/** A `notify-send` that writes down its arguments. */
function desktop(cluster: Cluster): { path: string; shown: () => string } {
  const folder = join(cluster.folder, 'bin');
  const log = join(cluster.folder, 'shown');
  mkdirSync(folder);
  writeFileSync(join(folder, 'notify-send'), `#!/bin/sh\nprintf '%s\\n' "$@" >> '${log}'\n`);
  chmodSync(join(folder, 'notify-send'), 0o755);
  return { path: `${folder}:${process.env.PATH}`, shown: () => (existsSync(log) ? readFileSync(log, 'utf8') : '') };
}

describe('the mailbox of the owner', () => {
  it(
    'lists mail of other devices, also for programs, with what it needs, and is answered by its id [PM.1 PM.2]',
    inCluster(async (cluster) => {
      const init = { args: ['--no-dht', '--listen', '127.0.0.1:0'], config: { roster: false } };
      const [desk, laptop] = await Promise.all([cluster.start('desk', init), cluster.start('laptop', init)]);
      await desk.admit(laptop, { owner: true });
      await untilConnected([desk, laptop]);
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', desk.data]);
      const [id] = idsIn(await alice.call('mesh_send', { to: 'human', text: 'Which one?', needs: 'reply' }));
      const mail = () => laptop.json<object[]>('inbox');
      await until(async () => (await mail()).length > 0, 'the laptop knows of the message');
      expect(await mail()).toMatchObject([
        { id: `${id}@${desk.key}`, payload: { text: 'Which one?', mesh: { needs: 'reply' } }, node: { name: 'desk' } },
      ]);
      expect((await laptop.run('inbox')).stdout).toContain('needs reply\n  Which one?');
      expect(await laptop.json('reply', id!, 'That one.')).toMatchObject({ state: 'confirmed' });
      expect(await desk.run('reply', id!, 'Both.')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('answered on desk by laptop, reply'),
      });
    }),
  );

  it(
    'lists, answers, finds and announces what agents write to the owner [PM.1 PM.2 PM.3 PM.4]',
    inCluster(async (cluster) => {
      const webhook = await receiver(cluster);
      const screen = desktop(cluster);
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        env: { PATH: screen.path, HOOK_TOKEN: 'Bearer s3cret' },
        config: {
          roster: false,
          http: { allowPrivate: [webhook.address] },
          notify: {
            desktop: true,
            // biome-ignore lint/suspicious/noTemplateCurlyInString: that is how it is written
            webhook: { url: `http://${webhook.address}/hook`, headers: { Authorization: '${HOOK_TOKEN}' } },
          },
        },
      });
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      const asked = await alice.call('mesh_send', { to: 'human', text: 'Which <b>branch</b>?', needs: 'reply' });
      const [question] = idsIn(asked);
      const shown = async (...words: string[]) => {
        const { stdout, stderr, code } = await node.run(...words);
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
        return stdout;
      };
      expect(await shown('inbox')).toContain(`${question}  alice`);

      // The webhook is called again after its failure; it gets the item and the header.
      await until(() => webhook.got.length > 0, 'the webhook is called again');
      expect(webhook.calls()).toBe(2);
      expect(webhook.got).toEqual([
        {
          authorization: 'Bearer s3cret',
          body: expect.objectContaining({ text: 'alice wrote to you\nWhich <b>branch</b>?', more: 0 }),
        },
      ]);
      expect(webhook.got[0]!.body.items).toEqual([
        expect.objectContaining({ id: `mail:${question}`, kind: 'mail', title: 'Which <b>branch</b>?' }),
      ]);
      await until(() => screen.shown().includes('Which'), 'the desktop shows it');
      expect(screen.shown()).toBe('--app-name=Ecliptic\n--\nalice wrote to you\nWhich &lt;b&gt;branch&lt;/b&gt;?\n');

      expect(await shown('log', '--text', 'branch')).toMatch(new RegExp(`alice +operator .*${question} +Which <b>`));
      expect(await shown('log', '--text', 'branch', '--agent', 'bob')).toBe('no decisions match\n');
      const told = JSON.parse(await shown('reply', question!.slice(0, 24), 'The release one.', '--json'));
      expect(told).toMatchObject({ to: 'alice', answers: question });
      expect(await alice.call('mesh_inbox')).toMatch(/origin: human[\s\S]*The release one\./);
      expect(await shown('inbox')).toBe('no agent has written to you\n');
      expect(await shown('log', '--text', 'release')).toContain(told.id);
      expect(await node.run('reply', question!, 'Again.')).toMatchObject({ code: 1, stdout: '' });
      const ways = await node.json<object[]>('waiting', 'notify');
      expect(ways).toEqual([
        { way: 'desktop', failure: null },
        { way: 'webhook', failure: null },
      ]);
      expect(node.log).not.toContain('s3cret');
    }),
  );
});
