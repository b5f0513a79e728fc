import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Writes docs/commands.md from the table of commands, so that it cannot differ from the program. */
export function writeCommands() {
  const program = fileURLToPath(new URL('../bin/ecliptic', import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, 'help', 'all'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  writeFileSync(new URL('../docs/commands.md', import.meta.url), stdout);
}
