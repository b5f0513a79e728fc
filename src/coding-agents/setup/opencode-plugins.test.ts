import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { guardPluginEntry } from './opencode-plugins.js';

interface Plugin {
  'tool.execute.before'(about: { tool: string }, call: { args: object }): Promise<void>;
}

/** The plugin as opencode loads it, with a program in the place of the guard. */
async function loaded(program: string): Promise<Plugin> {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-plugin-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const guard = join(folder, 'guard.cjs');
  writeFileSync(guard, program);
  const file = join(folder, 'plugin.mjs');
  writeFileSync(file, guardPluginEntry.set(undefined, { command: process.execPath, args: [guard] })!);
  const { EclipticGuard } = (await import(pathToFileURL(file).href)) as {
    EclipticGuard(about: object): Promise<Plugin>;
  };
  return EclipticGuard({ directory: folder });
}

it('opencode’s guard plugin stops a tool when the guard denies, and at no other end of it [ON13.6]', async () => {
  const denies = await loaded(`
    let asked = '';
    process.stdin.on('data', (chunk) => { asked += chunk; });
    process.stdin.on('end', () => { console.error('held: ' + JSON.parse(asked).tool_input.filePath); process.exit(2); });`);
  const call = { args: { filePath: 'src/x.ts' } };
  await expect(denies['tool.execute.before']({ tool: 'edit' }, call)).rejects.toThrow('held: src/x.ts');
  await expect(denies['tool.execute.before']({ tool: 'read' }, call)).resolves.toBeUndefined();
  const fails = await loaded('process.exit(1)');
  await expect(fails['tool.execute.before']({ tool: 'edit' }, call)).resolves.toBeUndefined();
});
