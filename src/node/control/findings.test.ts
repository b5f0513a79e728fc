import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from '../../system/process/children.js';
import { agentFindings } from './findings.js';

const AGENT = fileURLToPath(new URL('../../../test/providers/acp-agent.mjs', import.meta.url));
const runtime = systemRuntime();
let folder: string;
let children: Children;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-installed-'));
  children = await Children.open(runtime);
});

afterEach(async () => {
  await children.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Installs a program of that name. */
function install(name: string, script: string, mode = 0o755): void {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, mode);
}

const diagnose = () => {
  const PATH = [folder, dirname(process.execPath), '/usr/bin', '/bin'].join(':');
  return Promise.all(agentFindings({ runtime, children, env: { PATH } }));
};

describe('what a diagnosis says of coding agents', () => {
  it('is nothing where none is installed', async () => {
    install('gemini', 'exit 1', 0o644);
    expect(await diagnose()).toEqual([]);
  });

  it('tells those that are ready, want a login or do not answer', async () => {
    install('codex-acp', `exec node ${AGENT} good`);
    install('gemini', `test "$1" = --acp && exec node ${AGENT} login`);
    install('claude-agent-acp', 'echo broken >&2; exit 4');
    expect(await diagnose()).toEqual([
      {
        level: 'warning',
        text: expect.stringMatching(/^Claude \(claude-agent-acp\) does not answer: .*code 4.*broken/),
      },
      { level: 'ok', text: 'Codex (codex-acp) 1.2.3 speaks the Agent Client Protocol 1 and is ready' },
      {
        level: 'ok',
        text: 'Gemini CLI (gemini --acp) 1.2.3 speaks the Agent Client Protocol 1 and wants you to log in first (key)',
      },
    ]);
    expect(children.size).toBe(0);
  });
});
