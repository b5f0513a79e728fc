import { mkdirSync } from 'node:fs';
import { EclipticError } from '../runtime/errors.js';
import { flag, type Invocation, many, text, verb, whole } from './command.js';
import { usage } from './output.js';

const DEFAULT_PORT = 4222;
/** How often the members are looked at. */
const WATCH_MS = 1_000;

const up = verb({
  summary: 'run a NATS server on this machine, for development',
  options: { port: whole(`its port on 127.0.0.1 (default: ${DEFAULT_PORT})`) },
  examples: ['', '--port 4333', '% & ecliptic up --nats nats://127.0.0.1:4222'],
  async run({ values: { port = DEFAULT_PORT }, output, env, dataFolder }) {
    if (port < 1 || port > 65_535) throw usage('--port must be from 1 to 65535');
    const [{ ServerProcess }, { systemRuntime }, { join }] = await Promise.all([
      import('../nats/server-process.js'),
      import('../runtime/system-runtime.js'),
      import('node:path'),
    ]);
    const runtime = systemRuntime();
    const folder = join(await dataFolder(), 'nats');
    // Until it has ended, the server keeps this process alive.
    const server = await ServerProcess.start(runtime, { folder, port, path: env.PATH });
    output.value({ url: server.url, folder, pid: process.pid }, () =>
      [
        `NATS runs at ${server.url}, open to every program on this machine; its data is in ${folder}`,
        `  ecliptic up --nats ${server.url}`,
        '',
        'Ctrl-C stops it.',
      ].join('\n'),
    );
    let told = false;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        told = true;
        void server.stop();
      });
    }
    await server.ended;
    await server.stop();
    if (!told) throw new EclipticError('PROCESS_ENDED', 'nats-server has ended');
  },
});

const key = verb({
  summary: 'print this node’s key and the key with which it logs in at NATS',
  examples: ['', '--json'],
  async run(invocation) {
    const own = await ownUser(invocation);
    invocation.output.value(own, () => `${own.node}:${own.nkey}`);
  },
});

const allow = verb({
  summary: 'let a node that is to join log in at NATS for a day: `ecliptic nats config --watch` adds it',
  args: ['NODE:NKEY'],
  examples: ['5f…:UA…'],
  async run({ words: [given], call, output }) {
    const user = readUser(given);
    await call('nats.allow', user);
    output.value(
      user,
      () => `node ${user.node.slice(0, 12)} may log in at NATS for a day; invite it with: ecliptic invite`,
    );
  },
});

const config = verb({
  summary: 'print or write a configuration for NATS servers: a user for each known member, who can act as itself only',
  options: {
    mesh: text('NAME', 'the mesh’s name at the servers (default: the running node’s, else main)'),
    user: many('NODE:NKEY', 'one more node, as its `ecliptic nats key` prints it: before it joins, for example'),
    listen: text('ADDRESS', 'host:port of the server (default: 0.0.0.0:4222)'),
    store: text('FOLDER', 'the folder of JetStream (default: /var/lib/nats)'),
    'no-sync': flag('leave out sync_interval, which servers before 2.10 do not have'),
    write: text('FILE', 'replace this file instead of printing'),
    reload: text('PID', 'the server to reload once the file was replaced: its process id, or a file with it'),
    watch: flag('go on, and replace the file whenever a node joins, is allowed or is removed'),
  },
  examples: [
    '> server.conf',
    '--user 5f…:UA… --listen 10.0.0.1:4222',
    '--write server.conf --reload /run/nats.pid --watch',
    '--json',
  ],
  async run(invocation) {
    const { values, output } = invocation;
    const { write, reload, watch } = values;
    if (write === undefined && (reload !== undefined || watch)) throw usage('--reload and --watch need --write FILE');
    const { serverConfig } = await import('../nats/server-config.js');
    const more = (values.user ?? []).map(readUser);
    const make = (known: { mesh: string; users: readonly BrokerUser[] }) => {
      const users = [...new Map([...known.users, ...more].map((user) => [user.node, user])).values()];
      const mesh = values.mesh ?? known.mesh;
      const { listen, store } = values;
      return { mesh, users, config: serverConfig({ mesh, users, listen, store, syncAlways: !values['no-sync'] }) };
    };
    if (write === undefined) {
      const made = make(await knownUsers(invocation));
      output.value(made, () => made.config.trimEnd());
      return;
    }
    const { ConfigFile } = await import('../nats/config-file.js');
    const file = new ConfigFile(write, reload);
    const replace = (known: Parameters<typeof make>[0]) => {
      const { mesh, users, config: made } = make(known);
      if (!file.replace(made)) return;
      output.value({ mesh, users, file: write }, () => `${write} has ${users.length} users now`);
    };
    if (!watch) return replace(await knownUsers(invocation));
    const [{ systemRuntime }, { wait }] = await Promise.all([
      import('../runtime/system-runtime.js'),
      import('../runtime/async.js'),
    ]);
    const runtime = systemRuntime();
    runtime.hold();
    for (;;) {
      // Without the node, the file stays as it is: another list would shut all others out.
      const known = await invocation.call('nats.users').catch(ignoreAbsence);
      if (known) replace(known);
      await wait(runtime, WATCH_MS);
    }
  },
});

function ignoreAbsence(error: unknown): undefined {
  const isAbsent = error instanceof EclipticError && (error.code === 'NO_NODE' || error.code === 'CANCELLED');
  if (!isAbsent) throw error;
}

interface BrokerUser {
  readonly node: string;
  readonly nkey: string;
}

function readUser(given: string): BrokerUser {
  const [, node, nkey] = /^([0-9a-f]{64}):(U[A-Z2-7]{55})$/.exec(given) ?? [];
  if (node === undefined || nkey === undefined) throw usage(`a node is given as NODE:NKEY, not "${given}"`);
  return { node, nkey };
}

/** From the running node; without one, or if it runs without NATS, this node alone. */
async function knownUsers(invocation: Invocation<unknown, unknown>) {
  try {
    return await invocation.call('nats.users');
  } catch (error) {
    const isWithoutBroker =
      error instanceof EclipticError && (error.code === 'NO_NODE' || error.code === 'INVALID_CONFIG');
    if (!isWithoutBroker) throw error;
    return { mesh: 'main', users: [await ownUser(invocation)] };
  }
}

async function ownUser({ dataFolder }: Pick<Invocation, 'dataFolder'>) {
  const [{ Identity }, { BrokerKey }, { systemRuntime }] = await Promise.all([
    import('../network/membership/identity.js'),
    import('../nats/nkey.js'),
    import('../runtime/system-runtime.js'),
  ]);
  const folder = await dataFolder();
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const identity = Identity.keptIn(folder, systemRuntime());
  return { node: identity.key, nkey: new BrokerKey(identity.seed).text };
}

export const verbs = { up, key, allow, config };
