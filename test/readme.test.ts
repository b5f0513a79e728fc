import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installPackage } from './installed-package.js';
import { ROOT } from './source-files.js';

/** The commands of the README's terminal session, each with the output shown under it. */
interface Step {
  readonly command: string;
  readonly shown: string;
}

describe('the README’s terminal session', () => {
  let folder: string;
  let user: string;
  let environment: NodeJS.ProcessEnv;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ecliptic-readme-'));
    user = await installPackage(folder);
    const { ECLIPTIC_DATA: _, ECLIPTIC_CONFIG: __, ...rest } = process.env;
    environment = { ...rest, XDG_STATE_HOME: join(folder, 'state'), npm_config_loglevel: 'error' };
  }, 120_000);

  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('gives the output that is shown, in an empty folder, from a fresh install', async () => {
    const [first, second] = sessions(await readFile(join(ROOT, 'README.md'), 'utf8'));
    const preparing = first!.slice(0, -1);
    const upStep = first!.at(-1)!;
    for (const { command, shown } of preparing) expect(await output(start(command))).toMatch(pattern(shown));
    const up = start(upStep.command);
    const ended = once(up, 'exit');
    try {
      expect(await firstLine(up)).toMatch(pattern(upStep.shown.trim()));
      for (const { command, shown } of second!) expect(await output(start(command))).toMatch(pattern(shown));
      await ended;
    } finally {
      if (up.exitCode === null && up.signalCode === null) process.kill(-up.pid!, 'SIGKILL');
    }
  }, 60_000);

  function start(command: string) {
    return spawn('bash', ['-c', command], { cwd: user, env: environment, detached: true });
  }
});

function sessions(readme: string): Step[][] {
  return [...readme.matchAll(/```console\n([\s\S]*?)```/g)].map(([, text]) =>
    text!
      .split(/^\$ /m)
      .slice(1)
      .map((step) => {
        const [command, ...shown] = step.split('\n');
        return { command: command!, shown: shown.join('\n') };
      }),
  );
}

/** Matches the output that is shown; … stands for any text. */
function pattern(shown: string): RegExp {
  const escaped = shown.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${escaped.join('[\\s\\S]*?')}$`);
}

async function firstLine(child: ReturnType<typeof spawn>): Promise<string> {
  let text = '';
  for await (const chunk of child.stdout!) {
    text += chunk;
    if (text.includes('\n')) break;
  }
  return text.split('\n')[0]!;
}

async function output(child: ReturnType<typeof spawn>): Promise<string> {
  let text = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', (chunk) => {
      text += chunk;
    });
  }
  await once(child, 'close');
  return text;
}
