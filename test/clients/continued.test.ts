import { describe, expect, it } from 'vitest';
import type { TaskDetail } from '../../src/node/control/rows.js';
import { inCluster, type ProcessNode } from '../nodes/cluster.js';
import { acpAgent, converse } from './acp-world.js';

interface Said {
  readonly answer: string | undefined;
  /** How the conversation came to its session, and the session's id. */
  readonly session: { readonly id: string; readonly state: string; readonly reason?: string };
  readonly context: string;
}

async function say(node: ProcessNode, text: string, context?: string): Promise<Said> {
  const { task } = await node.call<TaskDetail>('task.send', { to: 'worker', text, ...(context && { context }) });
  expect(task.status.state, JSON.stringify(task.status)).toBe('TASK_STATE_COMPLETED');
  const answer = task.artifacts?.[0]?.parts[0]?.text;
  return { answer, session: sessionIn(task), context: task.contextId! };
}

function sessionIn({ metadata }: TaskDetail['task']): Said['session'] {
  return metadata!.session as Said['session'];
}

/** Memory for four sessions: the fifth closes the first. */
const LIMITS = { memoryMb: 1_024 };

/** Gemini CLI 0.61.0 closes no session, and does not find those that it offers to load. */
const KEEPS = {
  claude: { idle: 'loaded', restarted: 'loaded' },
  codex: { idle: 'loaded', restarted: 'loaded' },
  gemini: { idle: 'continued', restarted: 'summarised' },
  opencode: { idle: 'loaded', restarted: 'loaded' },
} as const;

describe.each(['claude', 'codex', 'gemini', 'opencode'] as const)('a conversation with %s', (id) => {
  it(
    'goes on after its idle session was closed, and after a restart; the agent is not killed for its memory [SN.1 SN.2 SN.3]',
    inCluster(async (cluster) => {
      const { model, url } = await converse(
        cluster,
        Array.from({ length: 8 }, (_, n) => ({ text: `answer ${n}` })),
      );
      const acp = { ...acpAgent(cluster, id, url), limits: LIMITS };
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { roster: false, agents: { worker: { acp } } },
      });
      cluster.onEnd(async () => void (await node.stop()));
      const pid = async () => (await node.call<{ providers: { pid: number }[] }[]>('lanes'))[0]!.providers[0]!.pid;

      const first = await say(node, 'My colour is blue.');
      expect(first).toMatchObject({ answer: 'answer 0', session: { state: 'new' } });
      const began = await pid();
      for (let n = 1; n <= 5; n++) expect((await say(node, `other ${n}`)).session.state).toBe('new');
      const again = await say(node, 'Which colour?', first.context);
      expect(again).toMatchObject({ answer: 'answer 6', session: { id: first.session.id, state: KEEPS[id].idle } });
      expect(await pid()).toBe(began);
      const seen = () => model.of('worker').latest.join('\n');
      expect(seen()).toMatch(/My colour is blue[\s\S]*Which colour/);
      expect(seen()).not.toContain('other 1');

      await node.stop();
      await node.start();
      const after = await say(node, 'Still?', first.context);
      expect(after).toMatchObject({ answer: 'answer 7', session: { state: KEEPS[id].restarted } });
      expect(seen()).toMatch(/My colour is blue[\s\S]*Which colour[\s\S]*Still/);
      if (KEEPS[id].restarted === 'summarised') {
        expect(after.session.reason).toMatch(/session/);
        expect(seen()).toMatch(/They asked:\nMy colour is blue\.\n\nYou answered:\nanswer 0/);
      } else expect(after.session.id).toBe(first.session.id);
      expect(model.faults).toEqual([]);
    }),
  );
});
