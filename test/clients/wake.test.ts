import { describe, expect, it } from 'vitest';
import type { WakeRow } from '../../src/coding-agents/wake/member-waking.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { InteractiveClient } from './interactive-client.js';
import { ScriptedModel } from './scripted-model.js';

/** An idle agent begins a turn within this time, and its model sees why. */
const WOKEN_MS = 5_000;

interface Scene {
  readonly node: ProcessNode;
  readonly bob: CodingAgent;
  readonly model: ScriptedModel;
  readonly alice: InteractiveClient;
  /** Alice's question to bob. */
  readonly question: string;
}

/** A client in which alice has asked bob a question, and is idle now. */
async function scene(cluster: Cluster, id: string): Promise<Scene> {
  const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false } });
  const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--data', node.data]);
  await bob.call('mesh_peers');
  const model = await ScriptedModel.start();
  cluster.onEnd(() => model.close());
  model.converse('alice', [
    { tool: 'mesh_send', input: { to: 'bob', text: 'Which branch?', needs: 'reply' } },
    { text: 'asked' },
  ]);
  const alice = await InteractiveClient.start(cluster, { id, as: 'alice', node, model });
  await alice.turn('go');
  const [question] = idsIn(await bob.call('mesh_inbox'));
  return { node, bob, model, alice, question: question! };
}

const INBOX = { tool: 'mesh_inbox', input: {} };
const TASKS = { tool: 'mesh_task', input: { action: 'list' } };

/** All that an agent may wait for: the text that its model must see, the tool that shows it, and what brings it about. */
const causes = ({ node, bob, question }: Scene) =>
  [
    [
      'The parser breaks.',
      INBOX,
      () => bob.call('mesh_send', { to: 'alice', text: 'The parser breaks.', needs: 'reply' }),
    ],
    ['The branch is main.', INBOX, () => bob.call('mesh_send', { reply_to: question, text: 'The branch is main.' })],
    [
      'by noon',
      TASKS,
      () => bob.call('mesh_task', { action: 'offer', to: 'alice', title: 'Fix it', detail: 'by noon' }),
    ],
    ['Stop for today.', INBOX, () => node.run('tell', 'alice', 'Stop for today.')],
  ] as const;

const rowOf = async ({ node }: Scene) => (await node.call<WakeRow[]>('wake')).find(({ name }) => name === 'alice');

/** Mail comes while the model works: it sees the mail without a word from its person. */
async function delivers({ bob, model, alice }: Scene): Promise<void> {
  const text = 'The tests fail since noon.';
  const seen = model.of('alice').results.length;
  model.converse('alice', [
    async () => {
      await bob.call('mesh_send', { to: 'alice', text, needs: 'ack' });
      return { text: 'That was all.' };
    },
    INBOX,
    { text: 'I see.' },
  ]);
  await alice.turn('and now');
  const [result] = model.of('alice').results.slice(seen);
  expect(bodiesIn(result!.text), result!.text).toEqual([text]);
}

describe.each(['claude-code', 'codex', 'opencode'])('%s in a terminal', (id) => {
  it(
    'is woken within 5 s by what it waits for: mail, the answer to its question, a task, and its owner [ON6 T-A10]',
    inCluster(async (cluster) => {
      const woken = await scene(cluster, id);
      const { node, model, alice } = woken;
      expect(alice.setup).toContain('an idle session');
      await until(async () => (await rowOf(woken))?.path === 'untested', 'there is a way to wake it');
      for (const [text, step, act] of causes(woken)) {
        let wokenAt = 0;
        const seen = model.of('alice').results.length;
        const look = () => {
          wokenAt = performance.now();
          return step;
        };
        model.converse('alice', [look, { text: 'I see.' }]);
        const began = performance.now();
        await act();
        await alice.turnEnds();
        const [result] = model.of('alice').results.slice(seen);
        if (process.env.ECLIPTIC_SHOW) console.log(id, text, wokenAt - began, model.of('alice').prompts.at(-1), result);
        expect(wokenAt - began, text).toBeLessThan(WOKEN_MS);
        expect(model.of('alice').prompts.at(-1)).toMatch(/Ecliptic: .*mesh_(?:inbox|task)/);
        expect(bodiesIn(result!.text), result!.text).toEqual([text]);
      }
      await delivers(woken);

      const close = (seen: string) => ({ tool: 'mesh_inbox', input: { done: idsIn(seen).slice(-1) } });
      model.converse('alice', [INBOX, close, { text: 'closed' }]);
      const { stdout } = await node.run('doctor', '--wake', 'alice', '--json');
      expect(JSON.parse(stdout)).toMatchObject([{ seesMail: 'wakes', test: { passed: true } }]);
      expect(model.faults).toEqual([]);
    }),
  );
});

describe('gemini in a terminal', () => {
  it(
    'cannot be woken, which setup says, and gets its mail at the end of a turn [ON6 T-A13]',
    inCluster(async (cluster) => {
      const asleep = await scene(cluster, 'gemini');
      expect(asleep.alice.setup).toContain('Gemini CLI: no program can wake an idle session');
      expect(await rowOf(asleep)).toMatchObject({ path: 'none', about: expect.stringContaining('no program can') });
      await delivers(asleep);
      expect(await rowOf(asleep)).toMatchObject({ seesMail: 'next_turn' });
      expect(asleep.model.faults).toEqual([]);
    }),
  );
});
