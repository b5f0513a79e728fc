import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../src/node/config/load.js';
import { ROOT } from './source-files.js';

const run = promisify(execFile);
const tsx = join(ROOT, 'node_modules', 'tsx', 'dist', 'cli.mjs');

describe('the examples', () => {
  it.each(readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.ts')))(
    '%s checks itself and succeeds',
    async (name) => {
      const { stdout } = await run(process.execPath, [tsx, join('examples', name)], { cwd: ROOT });
      expect(stdout.trim()).not.toBe('');
    },
  );

  it('include the README’s first conversation, word for word', () => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    expect(readme).toContain(readFileSync(join(ROOT, 'examples', 'first-conversation.ts'), 'utf8'));
  });

  it('include the README’s plan, word for word', () => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    expect(readme).toContain(`\`\`\`yaml\n${readFileSync(join(ROOT, 'examples', 'plan.yaml'), 'utf8')}\`\`\``);
  });

  it('include the README’s configuration, which is valid', () => {
    const blocks = configurations('README.md');
    const whole = blocks.find((text) => text.startsWith('{'))!;
    expect(Object.keys(parseConfig(whole, 'README.md').agents ?? {})).toEqual(['reviewer']);
    for (const agents of blocks.filter((text) => text !== whole)) parseConfig(`{"agents": {${agents}}}`, 'README.md');
  });

  it('in docs/configuration.md are valid', () => {
    const blocks = configurations('docs/configuration.md');
    expect(blocks).toHaveLength(5);
    for (const block of blocks) parseConfig(`{${block}}`, 'docs/configuration.md');
  });

  it('in docs/workers.md are valid', () => {
    const [workers, worktree, ...others] = configurations('docs/workers.md');
    expect(others).toEqual([]);
    parseConfig(`{${workers}}`, 'docs/workers.md');
    parseConfig(`{"agents": {${worktree}}}`, 'docs/workers.md');
  });

  it('print the output that the README shows', async () => {
    const { stdout } = await run(process.execPath, [tsx, 'examples/first-conversation.ts'], { cwd: ROOT });
    expect(stdout).toBe("{ built: { page: 'login' } }\n");
  });
});

function configurations(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  return [...text.matchAll(/```jsonc\n([\s\S]*?)```/g)].map(([, block]) => block!);
}
