import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Programs as agents: one in plain Node, one a shell script, both of which speak JSON lines (docs/line-protocol.md). */

const programs = join(import.meta.dirname, 'programs');
const folder = mkdtempSync(join(tmpdir(), 'ecliptic-example-'));
const config = {
  roster: false,
  data: 'state',
  http: { port: 0 },
  agents: {
    sun: { tier: 0 },
    greeter: { command: { command: process.execPath, args: [join(programs, 'greeter.mjs')] } },
    counter: { command: join(programs, 'counter.sh') },
  },
};
writeFileSync(join(folder, 'ecliptic.json'), JSON.stringify(config));

const cli = join(import.meta.dirname, '..', 'bin', 'ecliptic');
const ecliptic = async (...words: string[]) => {
  const { stdout } = await promisify(execFile)(process.execPath, [cli, ...words, '--json'], { cwd: folder });
  return JSON.parse(stdout);
};
const ask = (agent: string, payload: string) => ecliptic('request', '--as', 'sun', '--to', agent, payload);

const node = execFile(process.execPath, [cli, 'up', '--json', '--log', 'warn'], { cwd: folder });
try {
  await new Promise((resolve) => node.stdout?.once('data', resolve));
  console.log(await ask('greeter', '{"name":"Ada"}'));
  assert.deepEqual(await ask('greeter', '{"name":"Ada"}'), { greeting: 'Hello, Ada!' });
  assert.equal(await ask('counter', '"one"'), 1);
  assert.equal(await ask('counter', '"two"'), 2);
  await assert.rejects(ask('greeter', '{}'), /PROVIDER_INVALID_INPUT/);
  console.log((await ecliptic('lanes')).map(({ lane }: { lane: string }) => lane));
} finally {
  await ecliptic('down');
  rmSync(folder, { recursive: true, force: true });
}
