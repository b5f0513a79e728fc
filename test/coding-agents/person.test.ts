import { describe, expect, it, vi } from 'vitest';
import { idsIn } from '../coding-agents-fixture.js';
import { inCluster } from '../nodes/cluster.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 60_000 });

describe('the operator of a node', () => {
  it(
    'finds answers and questions of an agent in inbox, watch, thread and export, and can reply [T-A3 PM.6]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false } });
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_peers');
      const told = await node.json<{ id: string; thread: string }>('tell', 'alice', 'Use the release branch.');
      await alice.call('mesh_inbox');
      const said = await alice.call('mesh_send', { reply_to: told.id, text: 'Which one?', needs: 'reply' });
      const [question] = idsIn(said);
      const shown = async (...words: string[]) => (await node.run(...words)).stdout;
      expect(await shown('watch', '--once')).toMatch(/for you: 1; .*\n.*alice \(needs reply\): Which one\?/);
      expect(await shown('inbox', '--as', 'operator')).toMatch(
        new RegExp(`^${question}  alice  \\S+  needs reply\\n  Which one\\?\\n$`),
      );
      expect(await alice.call('mesh_lookup', { id: question })).toContain('arrived → surfaced.');
      const thread = await shown('thread', told.thread);
      expect(thread).toContain('Use the release branch.');
      expect(thread).toContain('Which one?');
      const withoutThread = idsIn(await alice.call('mesh_send', { to: 'operator', text: 'By the way.' }))[0]!;
      await shown('inbox', '--as', 'operator', '--done', withoutThread);
      // The sender of this one waits for no answer.
      expect(await alice.call('mesh_inbox')).not.toContain(withoutThread);
      const [asked] = idsIn(await alice.call('mesh_send', { to: 'operator', text: 'May I?', needs: 'reply' }));
      const waiting = alice.call('mesh_inbox', { wait_s: 25 });
      expect(await shown('inbox', '--done', asked!)).toBe('1 closed\n');
      expect(await waiting).toContain(`The owner has closed your message ${asked} without an answer`);
      expect(await alice.call('mesh_lookup', { id: asked })).toContain('→ done');
      const ofMessage = await shown('thread', withoutThread);
      expect(ofMessage).toContain('By the way.');
      for (const id of [told.id, question!, told.id.slice(0, 24)]) expect(await shown('thread', id)).toBe(thread);
      const journal = await shown('export');
      expect(journal).toContain('Use the release branch.');
      expect(journal).toContain('Which one?');
      const { code, stderr } = await node.run('tell', 'alice', '1.2, please', '--reply-to', question!);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(await alice.call('mesh_inbox')).toMatch(/origin: human[\s\S]*1\.2, please/);
      const none = { code: 0, stdout: 'no agent has written to you\n', stderr: '' };
      expect(await node.run('inbox', '--as', 'operator')).toMatchObject(none);
      expect(await node.run('inbox', '--as', 'operator', '--json')).toMatchObject({ ...none, stdout: '[]\n' });
    }),
  );
});
