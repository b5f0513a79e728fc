import { pino } from 'pino';
import { loadConfig } from '../node/config/load.js';
import {
  type HttpConfig,
  HttpSchema,
  LOG_LEVELS,
  type LogLevel,
  type NetworkConfig,
  NetworkSchema,
} from '../node/config/schema.js';
import { defaultDataFolder } from '../node/control/data-folder.js';
import type { Host } from '../node/host.js';
import { VERSION } from '../runtime/package.js';
import type { Logger, Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command, Invocation } from './command.js';
import { usage } from './output.js';
import { listed } from './payload.js';

/** How long a process that is told to end at once waits for its store's thread. */
const STORE_END_MS = 1_000;
/** Set once there may be a store. */
let hostModule: Promise<typeof import('../node/host.js')> | undefined;

export const command: Command = {
  summary: 'start a node with the 21 Planetary agents and your own',
  usage: 'up [--data DIR] [--config FILE] [--log LEVEL] [--listen ADDRESS] [--peer LIST] [--bootstrap LIST] [--json]',
  options: {
    config: { type: 'string' },
    log: { type: 'string' },
    name: { type: 'string' },
    listen: { type: 'string' },
    peer: { type: 'string' },
    bootstrap: { type: 'string' },
    'no-dht': { type: 'boolean' },
    port: { type: 'string' },
    open: { type: 'boolean' },
    background: { type: 'boolean' },
  },
  optionHelp: [
    ['--config FILE', 'configuration (or ECLIPTIC_CONFIG; default: ecliptic.json if it is there)'],
    ['--log LEVEL', `${LOG_LEVELS.join(', ')} (or ECLIPTIC_LOG; default: info)`],
    ['--name NAME', 'what other nodes call this one (default: the machine’s name)'],
    ['--listen ADDRESS', 'take WebSocket links at host:port, or at a port of 127.0.0.1'],
    ['--peer LIST', 'ws:// addresses of nodes to call, separated by commas'],
    ['--bootstrap LIST', 'host:port of a private DHT’s nodes (default: the mesh’s, else the public DHT)'],
    ['--port PORT', 'where HTTP is served (or PORT; default: 3000); the next free one if it is taken'],
    ['--open', 'let callers on this machine in without a token, as guests'],
    [
      '--background',
      'take a free port unless --port or the configuration names one; `ecliptic mcp` starts its node so',
    ],
    ['--no-dht', 'meet nobody on a DHT, for networks without UDP'],
  ],
  examples: [
    'ecliptic up',
    'ecliptic up --data ./state --log debug',
    'ecliptic up --listen 0.0.0.0:7070 --no-dht',
    'ecliptic up --json   # one line when ready',
  ],
  async run(invocation) {
    const { values, env } = invocation;
    const file = typeof values.config === 'string' ? values.config : env.ECLIPTIC_CONFIG || undefined;
    const loaded = loadConfig(file, process.cwd());
    const level = logLevel(invocation, loaded.config.log);
    const logger = pino({ level }, pino.destination({ dest: 2, sync: true }));
    const runtime = systemRuntime({ logger });
    const dataFolder = await invocation.dataFolder();
    let host: Host | undefined;
    stopOnSignals(runtime, () => host);
    containModules(logger);
    const network = networkConfig(invocation, loaded.config.network);
    const http = httpConfig(invocation, loaded.config.http);
    // Most of the program is behind this: whoever wants help, or made a mistake, does not wait for it.
    hostModule = import('../node/host.js');
    const node = await hostModule;
    host = await node.Host.start({ runtime, loaded, dataFolder, env, network, http });
    const { node: started, gateway } = host;
    const about = { node: started.key, agents: started.agents.length, http: gateway.url, data: dataFolder };
    logger.info({ ...about, config: loaded.file ?? null, version: VERSION }, 'node started');
    if (level === 'debug') logMessages(host, logger);
    announce(host, dataFolder, loaded.file, invocation);
    await host.stopped;
    logger.info({ node: started.key }, 'node stopped');
    // Whatever a user's module left running ends with the node.
    process.exit(0);
  },
};

function logLevel({ values, env }: Invocation, fromFile: LogLevel | undefined): LogLevel {
  const wanted = values.log ?? (env.ECLIPTIC_LOG || fromFile || 'info');
  const level = LOG_LEVELS.find((known) => known === wanted);
  if (!level) throw usage(`there is no log level "${wanted}"; take one of ${LOG_LEVELS.join(', ')}`);
  return level;
}

/** What the command line says of the network, before what the file says. */
function networkConfig({ values }: Invocation, fromFile: NetworkConfig | undefined): NetworkConfig {
  const { name, listen } = values;
  const given = {
    ...(name !== undefined && { name }),
    ...(listen !== undefined && { listen }),
    ...(values.peer !== undefined && { peers: listed(values, 'peer') }),
    ...(values.bootstrap !== undefined && { bootstrap: listed(values, 'bootstrap') }),
    ...(values['no-dht'] && { dht: false }),
  };
  const parsed = NetworkSchema.safeParse({ ...fromFile, ...given });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw usage(`--${String(issue?.path[0] ?? 'network').replace(/s$/, '')}: ${issue?.message}`);
}

/** What the command line says of HTTP, before the environment, before the file. */
function httpConfig({ values, env }: Invocation, fromFile: HttpConfig | undefined): HttpConfig {
  // The environment of a background node is that of a coding agent: its PORT is meant for the program under development.
  const port = values.port ?? (values.background ? undefined : env.PORT || undefined);
  const parsed = HttpSchema.safeParse({
    ...fromFile,
    ...(values.background && fromFile?.port === undefined && { port: 0 }),
    ...(port !== undefined && { port: port === '' ? Number.NaN : Number(port) }),
    ...(env.BIND_HOST && { host: env.BIND_HOST }),
    ...(values.open && { open: true }),
  });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw usage(`--${String(issue?.path[0] ?? 'port')}: ${issue?.message}`);
}

/** Exits without waiting for anything but the store's thread, and for that not for long. */
async function exitAtOnce(runtime: Runtime, code: number): Promise<void> {
  runtime.setTimer(() => process.exit(code), STORE_END_MS);
  if (hostModule) {
    await hostModule.catch(() => {});
    const { endStores } = await import('../store/sqlite-store.js');
    await endStores();
  }
  process.exit(code);
}

/** The first signal stops in good order; a second one, or one before the node is up, at once. */
function stopOnSignals(runtime: Runtime, host: () => Host | undefined): void {
  let count = 0;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const running = host();
      if (++count > 1 || !running) void exitAtOnce(runtime, signal === 'SIGINT' ? 130 : 143);
      else void running.stopForOwner();
    });
  }
}

/** A mistake in one agent's module, made in a timer or a promise that nobody awaits, must not take the others down. */
function containModules(logger: Logger): void {
  process.on('uncaughtException', (err) => logger.error({ err }, 'an agent’s module threw'));
  process.on('unhandledRejection', (err) => logger.error({ err }, 'an agent’s module left a rejection unhandled'));
}

/** A line for each message: what was delivered, and what was refused and why. Payloads are not logged. */
function logMessages({ node }: Host, logger: Logger): void {
  node.observability.subscribe((event) => {
    if (event.type !== 'routing-decision') return;
    const { envelopeId, sender, recipient, messageType, correlationId: thread, code, reason } = event;
    const about = { envelope: envelopeId, sender, recipient, type: messageType, thread };
    if (event.success === false) logger.debug({ ...about, code, reason }, 'message refused');
    else logger.debug(about, 'message delivered');
  });
}

function announce(host: Host, dataFolder: string, config: string | undefined, { output, env }: Invocation): void {
  const { node, control, failures, gateway } = host;
  const { url: http, mcpUrl: mcp, takenPort } = gateway;
  const { owners: token } = gateway.tokens;
  const failed = [...failures].map(([agent, { code, message }]) => ({ agent, code, message }));
  const place = { node: node.key, control, data: dataFolder, pid: process.pid };
  // Output that goes to no terminal ends in a log, as a service's or a background node's does.
  const shown = process.stdout.isTTY === true;
  const moved = takenPort === undefined ? {} : { takenPort };
  const ready = { ...place, http, ...moved, mcp, token, agents: node.agents.length, failed };
  // Commands without --data look in the default folder, or where the configuration of their own folder says.
  const data = dataFolder === defaultDataFolder(env) ? '' : ` --data ${shellWord(dataFolder)}`;
  output.value(ready, () =>
    [
      `Ecliptic ${VERSION}: node ${node.key} is up with ${node.agents.length} agents (process ${process.pid})`,
      ...failed.map(({ agent, message }) => `  ${agent} failed: ${message}`),
      `  data     ${dataFolder}`,
      `  config   ${config ?? `defaults; there is no ecliptic.json in ${process.cwd()}`}`,
      `  control  ${control}`,
      ...(takenPort === undefined
        ? []
        : [`  port     ${takenPort} is taken by another program; HTTP is served at ${http}`]),
      `  card     ${http}/.well-known/agent-card.json`,
      `  mcp      ${mcp}`,
      `  token    ${shown ? token : 'shown on a terminal, and with --json; logs have none'}`,
      '',
      'Try, in another terminal:',
      `  npx ecliptic agents${data}`,
      ...conversation(host).map(
        ({ from, to }) => `  npx ecliptic send --as ${from} --to ${to} '{"hello":"${to}"}'${data}`,
      ),
      `  npx ecliptic tail${data}`,
      `  claude mcp add --transport http ecliptic ${mcp} --header "Authorization: Bearer ${shown ? token : 'TOKEN'}"`,
      '',
      'Ctrl-C stops it.',
    ].join('\n'),
  );
}

/** Two agents of this node of which the first may write to the second; none where there are none. */
function conversation({ node, failures }: Host): { from: string; to: string }[] {
  const ids = node.agents.map(({ id }) => id).filter((id) => !failures.has(id));
  const preferred = ['sun', 'mars'].filter((id) => ids.includes(id));
  const ordered = [...preferred, ...ids.filter((id) => !preferred.includes(id))];
  for (const from of ordered) {
    const to = ordered.find((id) => id !== from && node.router.explain(from, id, 'notification').allowed);
    if (to !== undefined) return [{ from, to }];
  }
  return [];
}

/** As a shell takes it for one word. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
