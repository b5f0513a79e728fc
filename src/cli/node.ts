import type { A2ALogEvent } from '../mesh/schemas.js';
import type { Finding } from '../network/peers/network.js';
import type { LogLevel } from '../node/config/schema.js';
import type { TailEvent } from '../node/control/api.js';
import { VERSION } from '../runtime/package.js';
import { choice, duration, flag, type Invocation, list, text, verb, whole } from './command.js';
import { clockText, messageLine } from './message-line.js';
import { oneLine, printable, shortAddress, usage } from './output.js';

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const satisfies readonly LogLevel[];

const start = verb({
  summary: 'start a node with the 21 Planetary agents and your own',
  options: {
    config: text('FILE', 'configuration (or ECLIPTIC_CONFIG; default: ecliptic.json if it exists)'),
    log: choice(LOG_LEVELS, 'log level (or ECLIPTIC_LOG; default: info)'),
    name: text('NAME', 'this node’s name on the mesh (default: the machine’s name)'),
    listen: text('ADDRESS', 'accept WebSocket links at host:port, or at a port of 127.0.0.1'),
    nats: list('LIST', 'connect to other nodes over these NATS servers, as in nats://127.0.0.1:4222'),
    peer: list('LIST', 'ws:// addresses of nodes to call, separated by commas'),
    bootstrap: list('LIST', 'host:port of a private DHT’s nodes (default: the mesh’s, else the public DHT)'),
    port: text('PORT', 'the port of HTTP (or PORT; default: 3000); the next free one if it is taken'),
    otlp: text('URL', 'export traces and metrics to this OTLP/HTTP collector (or OTEL_EXPORTER_OTLP_ENDPOINT)'),
    model: text(
      'URL#NAME',
      'the model that works for every role without a worker (default: `model` in the configuration)',
    ),
    open: flag('accept callers on this machine without a token, as guests'),
    background: flag(
      'take a free port, the same each time, and exit when no client has used the node for long; used by `ecliptic mcp`',
    ),
    stay: flag('with --background: do not exit'),
    'no-dht': flag('use no DHT, for networks without UDP'),
    'no-browser': flag('do not open the dashboard in a browser'),
  },
  examples: [
    '',
    '--model http://127.0.0.1:11434/v1#qwen3',
    '--data ./state --log debug',
    '--listen 0.0.0.0:7070 --no-dht',
    '--nats nats://127.0.0.1:4222',
    '--json   # one line when ready',
  ],
  async run(invocation) {
    await (await import('./up.js')).up(invocation);
  },
});

const stop = verb({
  summary: 'stop the running node',
  async run({ connect, output }) {
    const client = await connect();
    const { pid, node } = client.server;
    await client.call('down');
    await client.closed;
    output.value({ stopped: true, node, pid }, () => `The node of process ${pid} has stopped.`);
  },
});

const MARKS = { ok: 'ok      ', warning: 'warning ', problem: 'problem ' } as const;

const doctor = verb({
  summary: 'check what is reachable and why not; exits with 1 when there is a problem',
  args: ['NAME...'],
  argHelp: [['NAME', 'with --wake: only these coding agents']],
  options: {
    wake: flag('wake each coding agent with a test message, and check that it reads it'),
    fix: flag(
      'repair what can be repaired, each after a question: files that others may open, a node that is away, failed workers',
    ),
    yes: flag('with --fix: repair without questions'),
    within: duration('how long a wake test may take (default: onramp.wake.testWithinS, or 60s)', 's'),
  },
  examples: ['', '--fix', '--json', '--wake reviewer'],
  async run(invocation) {
    const { connect, output, values, words } = invocation;
    if (values.wake) return testWakes(invocation);
    if (words.length > 0) throw usage(`"${words[0]}" is one word too many: names need --wake`);
    if (values.yes && !values.fix) throw usage('--yes needs --fix');
    const repairs = values.fix ? await (await import('./repairs.js')).repair(invocation) : [];
    const client = await connect();
    const { version, node, pid } = client.server;
    const outdated: Finding[] =
      version === VERSION
        ? []
        : [{ level: 'warning', text: `this command is ${VERSION}, the running node ${version}: restart it` }];
    const show = (finding: Finding) => {
      if (!output.json) output.line(printable(`  ${MARKS[finding.level]}${finding.text}`));
    };
    if (!output.json) output.line(`node ${node}, ecliptic ${version}, process ${pid}`);
    for (const finding of outdated) show(finding);
    // Probes of coding agents may take half a minute, so each finding is shown as it is made.
    const diagnosis = await client.call('doctor', {}, (event) => {
      if (!('probing' in event)) show(event);
      else if (!output.json) {
        const agents = event.probing === 1 ? 'a coding agent' : `${event.probing} coding agents`;
        process.stderr.write(`probing ${agents} of this machine …\n`);
      }
    });
    if (output.json) {
      const findings = [...outdated, ...diagnosis.findings];
      output.line(JSON.stringify({ node, pid, version, ...diagnosis, findings, ...(values.fix ? { repairs } : {}) }));
    }
    if (!diagnosis.healthy) output.exitCode = 1;
  },
});

/** Wakes each coding agent with a test message; a test passes when the agent has read it. */
async function testWakes({
  call,
  output,
  values,
  words,
}: Invocation<string[], { readonly within?: number }>): Promise<void> {
  const names = words.length > 0 ? words : undefined;
  const rows = await call('wake.test', { names, withinMs: values.within });
  output.rows(rows, 'No coding agent is connected.', ({ name, client, version, way, test, seesMail }) => ({
    AGENT: name,
    CLIENT: `${client} ${version ?? ''}`.trim(),
    WAY: way,
    TEST: way === null ? '-' : test.passed ? `passed in ${(test.tookMs / 1_000).toFixed(1)} s` : 'failed',
    'SEES MAIL': seesMail,
    WHY: test.reason,
  }));
  if (!output.json && rows.some(({ test }) => test.passed)) {
    output.line('The result holds for these sessions. To test each new one: onramp.wake.selfTest in ecliptic.json');
  }
}

const metrics = verb({
  summary: 'show the node’s counters',
  options: { prometheus: flag('in Prometheus’ text format, as the node serves it at /metrics') },
  examples: ['', '--prometheus'],
  async run({ call, values, output }) {
    if (values.prometheus) return output.line((await call('metrics.text')).trimEnd());
    const counters = await call('metrics');
    output.value(counters, () =>
      [
        `sent      ${counters.totalMessagesSent}${breakdown(counters.messagesSentByType)}`,
        `received  ${counters.totalMessagesReceived}`,
        `latency   ${counters.averageRoutingLatencyMs.toFixed(3)} ms on average`,
        `errors    ${counters.errorCount}${breakdown(counters.errorsByCode)}`,
        `tools     ${counters.totalToolInvocations === 1 ? '1 call' : `${counters.totalToolInvocations} calls`}, ${counters.toolErrorCount} failed`,
      ].join('\n'),
    );
  },
});

function breakdown(counts: Readonly<Record<string, number | undefined>>): string {
  const parts = Object.entries(counts).filter(([, count]) => count);
  return parts.length === 0 ? '' : `  (${parts.map(([name, count]) => `${name} ${count}`).join(', ')})`;
}

const tail = verb({
  summary: 'follow the messages, refusals and other events of the node, one line each',
  options: {
    type: text('T', 'only such events: message-sent, security, error, provider, provider.health.changed, …'),
    agent: text('A', 'only events of messages from or to that agent'),
    all: flag('every event: a message is then sent, routed, audited and received'),
    raw: flag('every event as the node records it, one JSON object a line'),
  },
  examples: ['', '--type security', '--agent mars --json', '--raw'],
  async run({ follow, values: { type, agent, all, raw }, output }) {
    const messages = type === undefined && !all && !raw;
    await follow('tail', { type, agent, messages }, (event) => {
      if (raw) output.line(JSON.stringify(event));
      else output.value(event, () => describe(event, messages));
    });
  },
});

const watch = verb({
  summary: 'show what waits for you, the agents, and messages and refusals as they happen, on one screen',
  options: { once: flag('show it once and exit') },
  examples: ['', '--once', '--json   # one event a line'],
  async run(invocation) {
    await (await import('./watch.js')).watch(invocation);
  },
});

const logs = verb({
  summary: 'show the log of the node that runs in the background',
  options: {
    follow: flag('go on with what is added, until Ctrl-C'),
    lines: whole('the latest N lines (default: 100)'),
    level: choice(['debug', 'info', 'warn', 'error'], 'this level and above'),
  },
  examples: ['', '--follow', '--level warn --lines 20', '--json   # as it is in the file'],
  async run(invocation) {
    await (await import('./logs.js')).showLog(invocation);
  },
});

function describe(event: TailEvent, messages: boolean): string {
  if (event.type === 'provider') return describeProvider(event);
  if (event.type === 'radar') return describeRadar(event);
  // A message is shown with its own type; every other event with the event's type.
  if (messages && event.type === 'routing-decision') return messageLine(event);
  const ends = event.sender ? `${event.sender} → ${event.recipient ?? ''}` : (event.toolName ?? '');
  const words = [
    clockText(event.timestamp),
    event.type.padEnd(16),
    ends.padEnd(24),
    (event.messageType ?? '').padEnd(13),
  ];
  return oneLine([...words, outcomeOf(event)].join('  ').trimEnd());
}

function outcomeOf(event: TailEvent): string {
  const { code, reason, broadcast, routingPath } = event;
  if (code !== undefined) return `${code}: ${reason ?? ''}`;
  if (broadcast) return `delivered to ${broadcast.delivered} of ${broadcast.recipients} agents`;
  const state = event.channelStatus ?? event.peerStatus ?? event.receiptState;
  return state ?? event.proposalStatus ?? event.swarmStatus ?? event.topic ?? routingPath ?? '';
}

function describeProvider({ timestamp, topic = '', provider = '', code, reason, details }: A2ALogEvent): string {
  const said = [code, reason].filter((part) => part !== undefined).join(': ') || JSON.stringify(details ?? {});
  return oneLine([clockText(timestamp), topic.padEnd(32), provider.padEnd(24), said].join('  ').trimEnd());
}

function describeRadar({ timestamp, topic = '', details = {} }: A2ALogEvent): string {
  const { repository, paths, places, lease } = details as {
    readonly repository: string;
    readonly paths: readonly string[];
    readonly places: readonly { readonly agents: readonly string[]; readonly folder: string }[];
    readonly lease?: { readonly holder: string };
  };
  const all = [...places.map(({ agents, folder }) => agents[0] ?? folder), ...(lease ? [lease.holder] : [])];
  const who = all.map(shortAddress).join(', ');
  return oneLine([clockText(timestamp), topic.padEnd(14), repository, paths.join(', '), who].join('  '));
}

export const verbs = { start, stop, doctor, metrics, tail, watch, logs };
