import { chmodSync, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ControlClient } from '../node/control/client.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { VERSION } from '../runtime/package.js';
import type { Invocation } from './command.js';
import { asks } from './input.js';
import { printable } from './output.js';

/** Files of the data folder that only its owner may read. */
const SECRET = ['node.key', 'person.key', 'owner.token', 'mesh.json', 'directory-key.json', 'logins.json'];

/** Something that `doctor` can put right. */
interface Repair {
  readonly problem: string;
  /** What is done, as a question asks for it: "restart the worker mars". */
  readonly action: string;
  perform(): Promise<void>;
}

/** What became of a repair. */
export interface RepairRow {
  readonly problem: string;
  readonly action: string;
  readonly state: 'done' | 'declined' | 'failed';
  readonly reason: string | null;
}

/** Offers each repair, and performs those that the owner agrees to. */
export async function repair(invocation: Invocation<string[], { readonly yes?: boolean }>): Promise<RepairRow[]> {
  const { output, values } = invocation;
  const rows: RepairRow[] = [];
  for (const find of [files, node, workers]) {
    const client = find === files ? undefined : await running(invocation.connect);
    for (const { problem, action, perform } of await find(invocation, client)) {
      if (!output.json) output.line(printable(`  repair  ${problem}`));
      const agreed = values.yes === true || (!output.json && (await asks(`          ${action}?`, false)));
      const row = agreed
        ? await perform().then(
            () => ({ state: 'done' as const, reason: null }),
            (error) => ({ state: 'failed' as const, reason: describeError(error) }),
          )
        : { state: 'declined' as const, reason: null };
      rows.push({ problem, action, ...row });
      if (output.json) continue;
      const hint = values.yes || process.stdin.isTTY ? '' : '; agree with: ecliptic doctor --fix --yes';
      output.line(
        `          ${action}: ${row.reason === null ? row.state : `${row.state}: ${printable(row.reason)}`}${agreed ? '' : hint}`,
      );
    }
    client?.close();
  }
  return rows;
}

/** Others may not read secrets. */
async function files({ dataFolder }: Invocation<string[]>): Promise<Repair[]> {
  const folder = await dataFolder();
  if (process.platform === 'win32' || !existsSync(folder)) return [];
  const paths = [folder, ...SECRET.map((name) => join(folder, name))].filter((path) => existsSync(path));
  return paths
    .filter((path) => (statSync(path).mode & 0o077) !== 0)
    .map((path) => ({
      problem: `other users of this machine may open ${path}`,
      action: `allow only its owner to open ${path}`,
      perform: async () => chmodSync(path, path === folder ? 0o700 : 0o600),
    }));
}

/** A node that is away, or older than this command. */
async function node({ dataFolder, env }: Invocation<string[]>, client?: ControlClient): Promise<Repair[]> {
  const start = async () => {
    const [{ connectOrStart }, { systemRuntime }] = await Promise.all([
      import('./background-node.js'),
      import('../runtime/system-runtime.js'),
    ]);
    const runtime = systemRuntime();
    const alive = runtime.hold();
    const client = await connectOrStart(runtime, await dataFolder(), env).finally(() => alive.cancel());
    client.close();
  };
  if (!client) {
    return [{ problem: 'no node is running', action: 'start one in the background', perform: start }];
  }
  const { version } = client.server;
  if (version === VERSION) return [];
  const restart = async () => {
    await client.call('down');
    await client.closed;
    await start();
  };
  const problem = `the running node is ${version}, this command ${VERSION}`;
  return [{ problem, action: 'stop it and start this version in the background', perform: restart }];
}

/** Workers that failed, or did not come back. */
async function workers(_: Invocation<string[]>, client?: ControlClient): Promise<Repair[]> {
  if (!client) return [];
  const rows = await client.call('providers');
  return rows
    .filter(({ phase, state }) => phase === 'failed' || (phase === 'ready' && state === 'unavailable'))
    .map(({ id, message }) => ({
      problem: `the worker ${id} does not work${message ? `: ${message.split('\n')[0]}` : ''}`,
      action: `restart the worker ${id}`,
      perform: async () => {
        const { phase } = await client.call('provider.restart', { id });
        if (phase === 'failed')
          throw new EclipticError('PROVIDER_UNAVAILABLE', `it failed again; see: ecliptic provider show ${id}`);
      },
    }));
}

async function running(connect: Invocation['connect']): Promise<ControlClient | undefined> {
  try {
    return await connect();
  } catch (error) {
    if (error instanceof EclipticError && error.code === 'NO_NODE') return undefined;
    throw error;
  }
}
