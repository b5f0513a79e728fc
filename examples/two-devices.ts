/** Two nodes become one mesh by an invite; a request and a file go from one to the other. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createNode, openStore } from 'ecliptic';

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-example-'));
const device = async (name: string) => {
  const own = join(folder, name);
  mkdirSync(own);
  // At one address, because this example uses no DHT.
  const listen = { host: '127.0.0.1', port: 0 };
  return createNode({ store: await openStore(own), network: { name, folder: own, listen, dht: false } });
};

const laptop = await device('laptop');
const desktop = await device('desktop');
const sun = laptop.agent({ id: 'sun' });
const mars = desktop.agent({ id: 'mars', capabilities: ['backend.api'] });

const met = new Promise<void>((resolve) => {
  laptop.registry.onCard(({ id }) => id.startsWith('mars') && resolve());
});
const { code } = await laptop.network!.invite();
await desktop.network!.join(code);
await met;

const got = new Promise<string>((resolve) => {
  mars.onRequest(async ({ payload }) => {
    const file = join(folder, 'copy.txt');
    await mars.objects.save((payload as { plan: Parameters<typeof mars.objects.save>[0] }).plan, file);
    resolve(readFileSync(file, 'utf8'));
    return 'got it';
  });
});
const to = `mars@${desktop.key}`;
writeFileSync(join(folder, 'plan.txt'), 'Build the login page.');
const plan = await sun.objects.put(join(folder, 'plan.txt'), { to });
assert.equal(await sun.request(to, { plan }), 'got it');
assert.equal(await got, 'Build the login page.');

await desktop.stop();
await laptop.stop();
rmSync(folder, { recursive: true, force: true });
console.log('a file and a request went from the laptop to the desktop');
