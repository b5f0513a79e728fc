import { pino } from 'pino';
import { OPERATOR } from '../http/auth/caller-auth.js';
import { vacancyForWords } from '../mesh/staffing.js';
import {
  type HttpConfig,
  HttpSchema,
  type NatsConfig,
  NatsSchema,
  type NetworkConfig,
  NetworkSchema,
} from '../node/config/edge-schema.js';
import { type LoadedConfig, loadConfig } from '../node/config/load.js';
import { LOG_LEVELS, type LogLevel } from '../node/config/schema.js';
import { ModelSchema } from '../node/config/worker-schema.js';
import { defaultDataFolder } from '../node/control/data-folder.js';
import type { Host } from '../node/host.js';
import { VERSION } from '../runtime/package.js';
import type { Logger } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { otlpSettings } from '../telemetry/otlp-settings.js';
import { SpanTracer } from '../telemetry/span-tracer.js';
import { knownPort, ownConfig, runInBackground } from './background-up.js';
import { openInBrowser } from './browser.js';
import { SAVE_AFTER_MS, saveCodeCache } from './code-cache.js';
import type { Invocation } from './command.js';
import { humanLog } from './log-line.js';
import { shellWord, usage } from './output.js';

interface UpValues {
  readonly config?: string;
  readonly log?: LogLevel;
  readonly name?: string;
  readonly listen?: string;
  readonly nats?: readonly string[];
  readonly peer?: readonly string[];
  readonly bootstrap?: readonly string[];
  readonly port?: string;
  readonly open?: boolean;
  readonly model?: string;
  readonly otlp?: string;
  readonly background?: boolean;
  readonly stay?: boolean;
  readonly 'no-dht'?: boolean;
  readonly 'no-browser'?: boolean;
}

type UpInvocation = Invocation<unknown, UpValues>;

/** Runs a node in this process until it is stopped. */
export async function up(invocation: UpInvocation): Promise<void> {
  const { values, env } = invocation;
  const file = values.config ?? (env.ECLIPTIC_CONFIG || (values.background ? ownConfig(env) : undefined));
  const loaded = withModel(invocation, loadConfig(file, process.cwd()));
  const level = logLevel(invocation, loaded.config.log);
  // A terminal gets lines for people; a file or a service gets JSON.
  const human = process.stderr.isTTY === true;
  const logger = pino({ level }, human ? humanLog(process.stderr) : pino.destination({ dest: 2, sync: true }));
  // The variables in the environment of a coding agent are meant for the coding agent.
  const otlp = otlpSettings(values.otlp ?? loaded.config.telemetry?.otlp, values.background ? {} : env);
  const runtime = systemRuntime({ logger, tracer: otlp && new SpanTracer(systemRuntime(), otlp) });
  const dataFolder = await invocation.dataFolder();
  let host: Host | undefined;
  stopOnSignals(() => host);
  containModules(logger);
  const network = networkConfig(invocation, loaded.config.network);
  const nats = natsConfig(invocation, loaded.config.nats);
  const http = httpConfig(invocation, loaded.config.http, values.background ? knownPort(dataFolder) : undefined);
  // Most of the program is behind this import, so a usage error above does not load it.
  const hostModule = await import('../node/host.js');
  // A node that is started by hand has the configuration that it is given.
  const base = { runtime, loaded, dataFolder, env, projects: values.background === true };
  const ring = human ? () => void process.stderr.write('\u0007') : undefined;
  host = await hostModule.Host.start({ ...base, network, nats, http, otlp, ring });
  if (values.background)
    runInBackground(host, runtime, dataFolder, { ...loaded.config.background, ...(values.stay && { stay: true }) });
  const { node: started, gateway } = host;
  const about = { node: started.key, agents: started.agents.length, http: gateway.url, data: dataFolder };
  logger.info({ ...about, config: loaded.file ?? null, version: VERSION }, 'node started');
  if (level === 'debug') logMessages(host, logger);
  announce(host, dataFolder, loaded.file, invocation);
  runtime.setTimer(saveCodeCache, SAVE_AFTER_MS);
  await host.stopped;
  logger.info({ node: started.key }, 'node stopped');
  // Timers and sockets of user modules must not keep the process alive.
  process.exit(0);
}

/** The model for all roles without a worker, as URL#NAME: it overrides that of the file. */
function withModel({ values: { model: given } }: UpInvocation, loaded: LoadedConfig): LoadedConfig {
  if (given === undefined) return loaded;
  const at = given.lastIndexOf('#');
  const [baseUrl, model] = at < 0 ? [given, ''] : [given.slice(0, at), given.slice(at + 1)];
  const { credential, apiKey, headers, ...settings } = loaded.config.model ?? {};
  // A key is for the endpoint that the file names.
  const isSame = originOf(loaded.config.model?.baseUrl) === originOf(baseUrl);
  const parsed = ModelSchema.safeParse({ ...settings, ...(isSame && { credential, apiKey, headers }), baseUrl, model });
  if (parsed.success) return { ...loaded, config: { ...loaded.config, model: parsed.data } };
  throw usage(`--model takes URL#NAME, as in http://127.0.0.1:11434/v1#qwen3, not "${given}"`);
}

function originOf(url: string | undefined): string | undefined {
  return url !== undefined && URL.canParse(url) ? new URL(url).origin : undefined;
}

function logLevel({ values, env }: UpInvocation, fromFile: LogLevel | undefined): LogLevel {
  const wanted = values.log ?? (env.ECLIPTIC_LOG || fromFile || 'info');
  const level = LOG_LEVELS.find((known) => known === wanted);
  if (!level) throw usage(`there is no log level "${wanted}"; there are ${LOG_LEVELS.join(', ')}`);
  return level;
}

/** The network settings: the command line overrides the file. */
function networkConfig({ values }: UpInvocation, fromFile: NetworkConfig | undefined): NetworkConfig {
  const { name, listen, peer: peers, bootstrap } = values;
  const given = {
    ...(name !== undefined && { name }),
    ...(listen !== undefined && { listen }),
    ...(peers && { peers }),
    ...(bootstrap && { bootstrap }),
    ...(values['no-dht'] && { dht: false }),
  };
  const parsed = NetworkSchema.safeParse({ ...fromFile, ...given });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw usage(`--${String(issue?.path[0] ?? 'network').replace(/s$/, '')}: ${issue?.message}`);
}

/** The NATS servers: the command line overrides the file. */
function natsConfig({ values }: UpInvocation, fromFile: NatsConfig | undefined): NatsConfig | undefined {
  if (!values.nats) return fromFile;
  const parsed = NatsSchema.safeParse({ ...fromFile, servers: values.nats });
  if (parsed.success) return parsed.data;
  throw usage(`--nats: ${parsed.error.issues[0]?.message}`);
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535;
}

/** The HTTP settings: the command line overrides the environment, which overrides the file. */
function httpConfig(
  { values, env }: UpInvocation,
  fromFile: HttpConfig | undefined,
  known: number | undefined,
): HttpConfig {
  // A background node inherits the environment of a coding agent, whose PORT is meant for the program under development.
  const port = values.port ?? (values.background ? undefined : env.PORT || undefined);
  if (port !== undefined && !isPort(port)) {
    throw usage(`${values.port === undefined ? 'PORT' : '--port'} takes a number from 0 to 65535, not "${port}"`);
  }
  const parsed = HttpSchema.safeParse({
    ...fromFile,
    ...(values.background && fromFile?.port === undefined && { port: known ?? 0 }),
    ...(port !== undefined && { port: Number(port) }),
    ...(env.BIND_HOST && { host: env.BIND_HOST }),
    ...(values.open && { open: true }),
  });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw usage(`--${String(issue?.path[0] ?? 'port')}: ${issue?.message}`);
}

/** The first signal stops the node in order; a second one, or one before the node is up, exits at once. */
function stopOnSignals(host: () => Host | undefined): void {
  let count = 0;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const running = host();
      if (++count > 1 || !running) process.exit(signal === 'SIGINT' ? 130 : 143);
      else void running.stopForOwner();
    });
  }
}

/** An error of one agent's module in a timer or an unawaited promise must not take the others down. */
function containModules(logger: Logger): void {
  process.on('uncaughtException', (err) => logger.error({ err }, 'agent module threw'));
  process.on('unhandledRejection', (err) => logger.error({ err }, 'agent module left a rejection unhandled'));
}

/** Logs each message as delivered or refused, without its payload. */
function logMessages({ node }: Host, logger: Logger): void {
  node.observability.subscribe((event) => {
    if (event.type !== 'routing-decision') return;
    const { envelopeId, sender, recipient, messageType, correlationId: thread, code, reason } = event;
    const about = { envelope: envelopeId, sender, recipient, type: messageType, thread };
    if (event.success === false) logger.debug({ ...about, code, reason }, 'message refused');
    else logger.debug(about, 'message delivered');
  });
}

function announce(
  host: Host,
  dataFolder: string,
  config: string | undefined,
  { output, env, values }: UpInvocation,
): void {
  const { node, control, failures, gateway, dashboard } = host;
  const { url: http, mcpUrl: mcp, takenPort } = gateway;
  const { owners: token } = gateway.tokens;
  const failed = [...failures].map(([agent, { code, message }]) => ({ agent, code, message }));
  const place = { node: node.key, control, data: dataFolder, pid: process.pid };
  // Output of a service or a background node ends in a log, which must not contain the token.
  const shown = process.stdout.isTTY === true;
  const page = shown || output.json ? dashboard.link().url : undefined;
  const moved = takenPort === undefined ? {} : { takenPort };
  const ready = { ...place, http, ...moved, mcp, page, token, agents: node.agents.length, failed };
  // Commands need --data unless this is the default folder.
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
      `  page     ${page ?? 'ecliptic open prints a link'}${page === undefined ? '' : '   (works once, for ten minutes)'}`,
      `  token    ${shown ? token : 'shown on a terminal, and with --json; logs have none'}`,
      '',
      'Try, in another terminal:',
      `  npx ecliptic agents${data}`,
      ...firstWork(host).map((command) => `  npx ecliptic ${command}${data}`),
      `  npx ecliptic tail${data}`,
      `  claude mcp add --transport http ecliptic ${mcp} --header "Authorization: Bearer ${shown ? token : 'TOKEN'}"`,
      '',
      'Ctrl-C stops it.',
    ].join('\n'),
  );
  if (shown && page !== undefined && !output.json && !values['no-browser']) openInBrowser(page, dataFolder, env);
}

/** Something that an agent of this node does at once: an agent that takes any task, or else a tool of the roster. */
function firstWork({ node, failures }: Host): string[] {
  const able = node.agents.filter(({ id }) => !failures.has(id));
  const worker = able.find(({ id, card }) => id !== OPERATOR.address && !vacancyForWords(card));
  if (worker) return [`task send ${worker.id} "Say hello"`];
  return able.some(({ card: { id, status } }) => id === 'uranus' && status?.capabilities)
    ? ['call uranus.outline']
    : [];
}
