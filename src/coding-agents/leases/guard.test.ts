import { describe, expect, it } from 'vitest';
import { allow, deny, GUARDED_CLIENTS, readHook } from './guard.js';

const REASON = 'alice holds src';
const PATCH = [
  '*** Begin Patch',
  '*** Update File: src/a.ts',
  '@@',
  '*** Move to: src/b.ts',
  '*** Add File: new.md',
  '*** End Patch',
];

describe('a hook’s input', () => {
  it.each([
    [
      'Claude Code’s edit',
      { tool_name: 'Edit', tool_input: { file_path: '/r/src/a.ts', old_string: 'x' }, cwd: '/r' },
      ['/r/src/a.ts'],
    ],
    [
      'Claude Code’s notebook',
      { tool_name: 'NotebookEdit', tool_input: { notebook_path: '/r/n.ipynb' }, cwd: '/r' },
      ['/r/n.ipynb'],
    ],
    [
      'Codex’s patch',
      { tool_name: 'apply_patch', tool_input: { command: PATCH.join('\n') }, cwd: '/r' },
      ['src/a.ts', 'src/b.ts', 'new.md'],
    ],
    [
      'Codex’s patch by shell',
      { tool_name: 'Bash', tool_input: { command: ['apply_patch', PATCH.join('\n')] }, cwd: '/r' },
      ['src/a.ts', 'src/b.ts', 'new.md'],
    ],
    [
      'Gemini’s replace',
      { tool_name: 'replace', tool_input: { file_path: '/r/a', old_string: 'x' }, cwd: '/r' },
      ['/r/a'],
    ],
    [
      'Gemini’s write',
      { tool_name: 'write_file', tool_input: { file_path: '/r/a', content: '' }, cwd: '/r' },
      ['/r/a'],
    ],
    ['Cursor’s write', { tool_name: 'Write', tool_input: { path: 'a.ts' }, workspace_roots: ['/r'] }, ['a.ts']],
    ['a file server’s tool', { tool_name: 'mcp__files__edit_file', tool_input: { path: 'a.ts' }, cwd: '/r' }, ['a.ts']],
  ])('tell which files %s would write', (_what, said, paths) => {
    expect(readHook(JSON.stringify(said), '/elsewhere')).toEqual({ folder: '/r', paths });
  });

  it.each([
    ['nothing', ''],
    ['no JSON', '{"tool_name":'],
    ['null', 'null'],
    ['a list', '[1]'],
    ['a reading tool', JSON.stringify({ tool_name: 'Read', tool_input: { file_path: '/r/a' } })],
    ['a shell command', JSON.stringify({ tool_name: 'Bash', tool_input: { command: 'rm -rf src' } })],
    ['no input', JSON.stringify({ tool_name: 'Edit' })],
    ['an input of numbers', JSON.stringify({ tool_name: 'Edit', tool_input: { file_path: 1 } })],
  ])('that are %s concern no files', (_what, said) => {
    expect(readHook(said, '/r')).toBeUndefined();
  });
});

describe('a guard’s answer', () => {
  it('denies in each client’s own way [ON13.6]', () => {
    expect(deny('claude-code', REASON)).toEqual({
      stdout: JSON.stringify({
        hookSpecificOutput: {
          hookEventName: 'PreToolUse',
          permissionDecision: 'deny',
          permissionDecisionReason: REASON,
        },
      }),
      stderr: '',
      code: 0,
    });
    expect(deny('codex', REASON)).toEqual({ stdout: '', stderr: REASON, code: 2 });
    expect(deny('gemini', REASON)).toEqual({ stdout: `{"decision":"deny","reason":"${REASON}"}`, stderr: '', code: 0 });
    expect(JSON.parse(deny('cursor', REASON).stdout)).toEqual({
      permission: 'deny',
      user_message: REASON,
      agent_message: REASON,
    });
  });

  it('allows without output that could approve anything', () => {
    for (const client of GUARDED_CLIENTS) {
      const { stdout, stderr, code } = allow(client);
      expect([stderr, code]).toEqual(['', 0]);
      expect(['', '{}']).toContain(stdout);
    }
  });
});
