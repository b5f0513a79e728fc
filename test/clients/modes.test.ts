import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { TaskDetail } from '../../src/node/control/rows.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { inCluster, until } from '../nodes/cluster.js';
import { acpAgent, converse } from './acp-world.js';

/** A mode in which each agent makes a file without a question, or none at all, and a model that is not its own choice. */
const CHOICES = {
  claude: {
    mode: 'acceptEdits',
    makes: true,
    model: 'sonnet',
    asked: /sonnet/,
    write: 'Write',
    input: (file: string): unknown => ({ file_path: file, content: '# Notes\n' }),
  },
  codex: {
    mode: 'agent-full-access',
    makes: true,
    model: 'gpt-5.5',
    asked: /^gpt-5\.5$/,
    write: 'apply_patch',
    input: (): unknown => '*** Begin Patch\n*** Add File: notes.md\n+# Notes\n*** End Patch',
  },
  gemini: {
    mode: 'autoEdit',
    makes: true,
    model: 'gemini-3.8-flash',
    asked: /^gemini-3\.8-flash$/,
    write: 'write_file',
    input: (file: string): unknown => ({ file_path: file, content: '# Notes\n' }),
  },
  opencode: {
    mode: 'plan',
    makes: false,
    model: 'scripted/scripted-2',
    asked: /^scripted-2$/,
    write: 'write',
    input: (file: string): unknown => ({ filePath: file, content: '# Notes\n' }),
  },
} as const;

describe.each(['claude', 'codex', 'gemini', 'opencode'] as const)('the sessions of %s', (id) => {
  it(
    'have the mode and the model of the configuration, and an unknown model is refused with those it has [SN.5 T-A12]',
    inCluster(async (cluster) => {
      const { mode, makes, model: chosen, asked, write, input } = CHOICES[id];
      const file = join(cluster.folder, 'desk', 'data', 'lanes', 'worker', 'notes.md');
      const { model, url } = await converse(cluster, [{ tool: write, input: input(file) }, { text: 'tried' }]);
      const acp = acpAgent(cluster, id, url);
      // Two of Codex that start in one new home at once disturb each other.
      const elsewhere = acpAgent(cluster, id, url, undefined, `home-other-${id}`);
      const agents = {
        worker: { acp: { ...acp, mode, model: chosen } },
        other: { acp: { ...elsewhere, model: 'abacus' } },
      };
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false, agents } });
      cluster.onEnd(async () => void (await node.stop()));
      const task = await node.call<TaskDetail>('task.send', { to: 'worker', text: 'write the notes' });
      expect({ state: task.state, made: existsSync(file), approvals: await node.call('approvals') }).toEqual({
        state: 'TASK_STATE_COMPLETED',
        made: makes,
        approvals: [],
      });
      expect([...model.of('worker').models]).toEqual([expect.stringMatching(asked)]);
      const other = async () => (await node.call<ProviderRow[]>('providers')).find((row) => row.id === 'other')!;
      await until(async () => /has no model "abacus"; it has: /.test((await other()).message ?? ''), 'health says it');
      expect(model.faults).toEqual([]);
    }),
  );
});
