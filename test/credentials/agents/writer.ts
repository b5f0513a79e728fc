import { systemRuntime } from '../../../src/runtime/system-runtime.js';
import { Credentials } from '../../../src/system/secrets/credentials.js';

/** `writer FOLDER NAME COUNT`: rotates a credential that it shares with others, and sets some of its own. */
const [folder, name, count] = process.argv.slice(2) as [string, string, string];
const credentials = new Credentials({ runtime: systemRuntime(), report: () => {} }, { folder });
const shared = { provider: 'shared', workspace: 'default', name: 'token' };

process.stdout.write('ready\n');
await new Promise((resolve) => process.stdin.once('data', resolve));
for (let n = 0; n < Number(count); n++) {
  await credentials.rotate(shared, `${name}-${n}-${'x'.repeat(2_000)}`);
  await credentials.set({ provider: name, workspace: 'default', name: String(n % 10) }, `${name}-${n}`);
}
process.stdout.write('done\n');
process.exit(0);
