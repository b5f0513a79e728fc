import { pino } from 'pino';
import { loadConfig } from '../config/load.js';
import { LOG_LEVELS, type LogLevel } from '../config/schema.js';
import { Host } from '../host.js';
import type { Logger } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { VERSION } from '../version.js';
import type { Command, Invocation } from './command.js';
import { type Output, usage } from './output.js';

export const command: Command = {
  summary: 'start a node with the 21 Planetary agents and your own',
  usage: 'up [--data DIR] [--config FILE] [--log LEVEL] [--json]',
  options: { config: { type: 'string' }, log: { type: 'string' } },
  optionHelp: [
    ['--config FILE', 'configuration (or ECLIPTIC_CONFIG; default: ecliptic.json if it is there)'],
    ['--log LEVEL', `${LOG_LEVELS.join(', ')} (or ECLIPTIC_LOG; default: info)`],
  ],
  examples: ['ecliptic up', 'ecliptic up --data ./state --log debug', 'ecliptic up --json   # one line when ready'],
  async run(invocation) {
    const { values, env, output } = invocation;
    const file = typeof values.config === 'string' ? values.config : env.ECLIPTIC_CONFIG || undefined;
    const loaded = loadConfig(file, process.cwd());
    const logger = pino({ level: logLevel(invocation, loaded.config.log) }, pino.destination({ dest: 2, sync: true }));
    const runtime = systemRuntime({ logger });
    const dataFolder = await invocation.dataFolder();
    let host: Host | undefined;
    stopOnSignals(() => host);
    containModules(logger);
    host = await Host.start({ runtime, loaded, dataFolder, env });
    announce(host, dataFolder, output);
    await host.stopped;
    logger.info({}, 'stopped');
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

/** The first signal stops in good order; a second one, or one before the node is up, at once. */
function stopOnSignals(host: () => Host | undefined): void {
  let count = 0;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const running = host();
      if (++count > 1 || !running) process.exit(signal === 'SIGINT' ? 130 : 143);
      void running.stop();
    });
  }
}

/** A mistake in one agent's module, made in a timer or a promise that nobody awaits, must not take the others down. */
function containModules(logger: Logger): void {
  process.on('uncaughtException', (err) => logger.error({ err }, 'an agent’s module threw'));
  process.on('unhandledRejection', (err) => logger.error({ err }, 'an agent’s module left a rejection unhandled'));
}

function announce(host: Host, dataFolder: string, output: Output): void {
  const { node, control, failures } = host;
  const failed = [...failures].map(([agent, { code, message }]) => ({ agent, code, message }));
  const ready = { node: node.key, control, data: dataFolder, pid: process.pid, agents: node.agents.length, failed };
  output.value(ready, () =>
    [
      `Ecliptic ${VERSION}: node ${node.key} is up with ${node.agents.length} agents (process ${process.pid})`,
      ...failed.map(({ agent, message }) => `  ${agent} failed: ${message}`),
      `  data     ${dataFolder}`,
      `  control  ${control}`,
      '',
      'Try, in another terminal:',
      '  npx ecliptic agents',
      `  npx ecliptic request --as sun --to mars '{"hello":"mars"}'`,
      '  npx ecliptic tail',
      '',
      'Ctrl-C stops it.',
    ].join('\n'),
  );
}
