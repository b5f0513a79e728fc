import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { inCluster } from '../nodes/cluster.js';
import { InteractiveClient } from './interactive-client.js';
import { ScriptedModel, type Step } from './scripted-model.js';

/** The calls by which each client changes a file and makes one. */
const EDITS: Readonly<Record<string, (file: string, made: string) => readonly Step[]>> = {
  'claude-code': (file, made) => [
    { tool: 'Read', input: { file_path: file } },
    { tool: 'Edit', input: { file_path: file, old_string: 'one', new_string: 'two' } },
    { tool: 'Write', input: { file_path: made, content: 'made\n' } },
  ],
  codex: (file, made) => [
    { tool: 'apply_patch', input: `*** Begin Patch\n*** Update File: ${file}\n@@\n-one\n+two\n*** End Patch` },
    { tool: 'apply_patch', input: `*** Begin Patch\n*** Add File: ${made}\n+made\n*** End Patch` },
  ],
  gemini: (file, made) => [
    { tool: 'replace', input: { file_path: file, old_string: 'one', new_string: 'two', instruction: 'one is two' } },
    { tool: 'write_file', input: { file_path: made, content: 'made\n' } },
  ],
  opencode: (file, made) => [
    { tool: 'read', input: { filePath: file } },
    { tool: 'edit', input: { filePath: file, oldString: 'one', newString: 'two' } },
    { tool: 'write', input: { filePath: made, content: 'made\n' } },
  ],
};

/** The call by which each client runs a shell command. */
const SHELLS: Readonly<Record<string, (command: string) => Step>> = {
  'claude-code': (command) => ({ tool: 'Bash', input: { command, description: 'Makes a branch' } }),
  codex: (command) => ({ tool: 'exec_command', input: { cmd: command } }),
  gemini: (command) => ({ tool: 'run_shell_command', input: { command, description: 'Makes a branch' } }),
  opencode: (command) => ({ tool: 'bash', input: { command, description: 'Makes a branch' } }),
};

describe.each(Object.keys(EDITS))('the guard of %s in a terminal', (id) => {
  it(
    'stops the edits of files that another agent holds, tells the model who holds them, and lets others pass; and a git checkout under another agent [ON13 RD.7]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false } });
      const model = await ScriptedModel.start();
      cluster.onEnd(() => model.close());
      model.converse('alice', [{ tool: 'mesh_peers', input: {} }, { text: 'here' }]);
      const alice = await InteractiveClient.start(cluster, { id, as: 'alice', node, model });
      const held = join(alice.folder, 'src-a.ts');
      writeFileSync(held, 'one\n');
      await alice.turn('go');
      const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--data', node.data], {}, undefined, alice.folder);
      expect(await bob.call('mesh_lease', { action: 'take', paths: ['src-*.ts'], why: 'a big change' })).toContain(
        'Taken',
      );

      const steps = EDITS[id]!;
      const free = join(alice.folder, 'free.ts');
      const made = join(alice.folder, 'src-new.ts');
      writeFileSync(free, 'one\n');
      model.converse('alice', [...steps(held, made), ...steps(free, join(alice.folder, 'new.ts')), { text: 'tried' }]);
      const seen = model.of('alice').results.length;
      await alice.turn('edit');
      const results = model.of('alice').results.slice(seen);
      if (process.env.ECLIPTIC_SHOW) console.log(alice.setup, JSON.stringify(results, null, 1));
      const denied = results.filter(({ text }) => text.includes('Reserved by another agent'));
      expect(denied).toHaveLength(2);
      for (const { text } of denied) expect(text).toMatch(/bob holds src-\*\.ts until .*a big change/);
      expect(readFileSync(held, 'utf8')).toBe('one\n');
      expect(existsSync(made)).toBe(false);
      expect(readFileSync(free, 'utf8')).toBe('two\n');
      expect(readFileSync(join(alice.folder, 'new.ts'), 'utf8').trim()).toBe('made');
      expect(alice.setup).toMatch(/the guard covers .*does not cover shell commands/);

      // Both work in this folder, and have one HEAD.
      const head = () => readFileSync(join(alice.folder, '.git', 'HEAD'), 'utf8');
      const before = head();
      model.converse('alice', [SHELLS[id]!('git status && git checkout -b topic'), { text: 'tried' }]);
      const done = model.of('alice').results.length;
      await alice.turn('branch');
      const [branched] = model.of('alice').results.slice(done);
      expect(branched?.text).toMatch(
        /git checkout -b topic: bob works in .*project, and would lose its HEAD and index/,
      );
      expect(head()).toBe(before);
      expect(model.faults).toEqual([]);
    }),
  );
});
