import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MailLoad } from '../nats/cluster-load.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { stablePorts } from '../ports.js';
import { agentsOf, meshOf } from './all-work.js';
import { OLD_VERSIONS, oldBuild } from './old-builds.js';

const write = (node: ProcessNode, entry: string) => node.request('asker', 'scribe', { set: entry });
const entries = (node: ProcessNode) => node.request<string[]>('asker', 'scribe', { do: 'read' });

describe.skipIf(!SOAK)('a node of a build that spoke an earlier version of the wire protocol', () => {
  // Earlier builds are made first, from the history.
  it.for(OLD_VERSIONS)(
    'works with a present one, and with its data folder after it is upgraded: version %i [FX.11]',
    { timeout: 600_000 },
    (version, context) =>
      inCluster(async (cluster) => {
        const program = oldBuild(version);
        const { old, present } = await pairOf(cluster, program);
        const forth = new MailLoad(old, present);
        forth.begin();
        await write(old, 'of the old');
        await write(present, 'of the present');
        await forth.flows();
        await sameEntries([old, present], 2);

        // What waits in its store is there after the upgrade.
        await forth.end();
        await present.stop();
        for (let n = 1; n <= 10; n++) await sendWaiting(old, present, n);
        await old.stop();
        old.program = undefined;
        await Promise.all([old.start(), present.start()]);
        await untilConnected([old, present]);
        await until(async () => (await old.call<unknown[]>('outbox')).length === 0, 'the mail that waited has arrived');
        expect(JSON.stringify(await present.call('inbox', { as: 'asker' }))).toContain('waited 10');
        await forth.exact();
        await write(old, 'of the upgraded');
        await sameEntries([old, present], 3);
        expect(await old.call('audit.verify')).toMatchObject({ fault: null });

        // Back again: it either works, or is refused and changes nothing.
        await old.stop();
        const before = filesOf(old);
        old.program = program;
        const refused = await old.start().then(
          () => undefined,
          (error: Error) => error.message,
        );
        if (refused === undefined) {
          await until(async () => (await entries(old)).length === 3, 'the earlier build has the document');
          await old.stop();
        } else {
          expect(refused).toMatch(/SCHEMA_VERSION_MISMATCH|reason.*version|later release|release that wrote it/);
          expect(filesOf(old)).toEqual(before);
        }
        old.program = undefined;
        await old.start();
        await untilConnected([old, present]);
        await sameEntries([old, present], 3);
      })(context),
  );
});

async function pairOf(cluster: Cluster, program: string): Promise<{ old: ProcessNode; present: ProcessNode }> {
  const ports = await stablePorts(2);
  const [old, present] = await Promise.all(
    ['old', 'present'].map((name, at) =>
      cluster.start(name, {
        args: ['--no-dht', '--listen', `127.0.0.1:${ports[at]}`],
        config: agentsOf(cluster, name),
        ...(name === 'old' && { program }),
      }),
    ),
  );
  await meshOf([present!, old!]);
  return { old: old!, present: present! };
}

async function sameEntries(nodes: readonly ProcessNode[], count: number): Promise<void> {
  for (const node of nodes) {
    await until(async () => (await entries(node)).length === count, `${node.name} has ${count} entries`);
  }
}

function sendWaiting(from: ProcessNode, to: ProcessNode, n: number): Promise<unknown> {
  return from.call('send', { as: 'asker', to: `asker@${to.key}`, payload: `waited ${n}`, durable: true });
}

/** The files of its store, as they are. */
function filesOf({ data }: ProcessNode): Record<string, string> {
  const store = join(data, 'store');
  return Object.fromEntries(readdirSync(store).map((name) => [name, readFileSync(join(store, name), 'base64')]));
}
