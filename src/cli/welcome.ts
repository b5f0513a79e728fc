import { basename, dirname, sep } from 'node:path';
import type { Survey } from '../node/staffing/survey.js';
import { PACKAGE_FOLDER } from '../runtime/package.js';
import { verb } from './command.js';
import { oneLine, shellWord } from './output.js';

const WHAT = [
  'Ecliptic lets AI agents find each other, talk, and share work, files and tools: in one process or across devices.',
  'Delivery is proven by receipts, and rules about who may reach whom hold on every path.',
  'There is no central server, no broker, no account, and no model is required.',
];

/** The first thing to do, for one kind of user. */
interface NextStep {
  readonly who: string;
  readonly command: string;
  readonly effect: string;
}

const show = verb({
  summary: 'what Ecliptic is, what it finds on this machine, and the next step',
  examples: ['', '--json'],
  async run({ env, output, dataFolder }) {
    const [{ survey }, { systemRuntime }, { controlPath }, { thisMachine }] = await Promise.all([
      import('../node/staffing/survey.js'),
      import('../runtime/system-runtime.js'),
      import('../node/control/data-folder.js'),
      import('./this-machine.js'),
    ]);
    const runtime = systemRuntime();
    const control = controlPath(await dataFolder(), env);
    const alive = runtime.hold();
    const found = await survey(runtime, { machine: thisMachine(env), folder: process.cwd(), control }).finally(() =>
      alive.cancel(),
    );
    const next = nextSteps(found);
    output.value({ ...found, next }, () => text(found, next, process.stdout.columns ?? 100));
  },
});

function nextSteps(found: Survey): NextStep[] {
  const unconnected = found.codingAgents.filter(({ connected }) => connected === false);
  return [
    {
      who: 'my coding agents',
      ...(found.codingAgents.length > 0 && unconnected.length === 0
        ? { command: 'npx ecliptic watch', effect: 'shows them on one screen; they are set up' }
        : unconnected.length > 0
          ? { command: 'npx ecliptic setup', effect: 'shows the one line that each needs, and adds it when you agree' }
          : { command: 'npx ecliptic mcp --as alice', effect: 'is the line for the MCP configuration of any client' }),
    },
    { who: 'my own agents in TypeScript', ...libraryStep(PACKAGE_FOLDER, process.cwd()) },
    {
      who: 'my platform',
      ...(found.node
        ? { command: 'npx ecliptic doctor', effect: 'checks the running node; A2A and MCP clients reach it over HTTP' }
        : { command: 'npx ecliptic up', effect: 'starts a node; A2A and MCP clients reach it over HTTP' }),
    },
  ];
}

/** From this very package: it need not be in a registry. */
export function libraryStep(packageFolder: string, folder: string): Pick<NextStep, 'command' | 'effect'> {
  const above = dirname(packageFolder);
  const isInstalled = basename(above) === 'node_modules';
  if (isInstalled && `${folder}${sep}`.startsWith(`${dirname(above)}${sep}`)) {
    return {
      command: 'npx ecliptic new agent greeter',
      effect: 'writes one with its test; the README has a first conversation in code',
    };
  }
  // An installed copy has no build scripts, which npm would run.
  const scripts = isInstalled ? ' --ignore-scripts' : '';
  return {
    command: `npm install${scripts} --install-links ${shellWord(packageFolder)}`,
    effect: 'then: import { createNode } from "ecliptic"; the README has a first conversation',
  };
}

function text(found: Survey, next: readonly NextStep[], width: number): string {
  const { codingAgents, mcpServers, models, scripts, node, config } = found;
  const agents = codingAgents.map(({ title, connected }) => (connected ? `${title} (set up)` : title));
  const rows: readonly (readonly [string, string])[] = [
    ['coding agents', listed(agents)],
    ['MCP servers', listed(mcpServers.map(({ name, clients }) => `${name} (${clients.join(', ')})`))],
    ['models', listed(models.map(({ title, state }) => `${title}: ${state}`))],
    ['scripts', listed(scripts)],
    ['configuration', config ?? 'no ecliptic.json in this folder'],
    ['node', node ? nodeText(node) : 'none is running'],
  ];
  const column = Math.max(...next.map(({ who }) => who.length)) + 2;
  return [
    ...WHAT.flatMap((line) => wrapped(line, width, '')),
    '',
    'On this machine:',
    ...rows
      .flatMap(([name, value]) => wrapped(`${name.padEnd(13)}  ${oneLine(value)}`, width - 2, ' '.repeat(15)))
      .map(indent),
    '',
    'Next, for',
    ...next
      .flatMap(({ who, command, effect }) => [
        `${who.padEnd(column)}${command}`,
        ...wrapped(`${' '.repeat(column)}${effect}`, width - 2, ' '.repeat(column)),
      ])
      .map(indent),
    '',
    'All commands: npx ecliptic help',
  ].join('\n');
}

function nodeText({ pid, version, agents, ready, waiting }: NonNullable<Survey['node']>): string {
  const wait =
    waiting === 0 ? '' : `; ${waiting} ${waiting === 1 ? 'item waits' : 'items wait'} for you: ecliptic waiting`;
  return `process ${pid}, ecliptic ${version}, ${agents} agents, ${ready} of them with a worker${wait}`;
}

/** Names that fit on a few lines; the rest as a number. */
function listed(names: readonly string[], most = 8): string {
  if (names.length === 0) return 'none found';
  const more = names.length > most ? `, and ${names.length - most} more` : '';
  return `${names.slice(0, most).join(', ')}${more}`;
}

function indent(line: string): string {
  return `  ${line}`;
}

/** Broken between words at that width; a word that is longer stays whole. */
function wrapped(line: string, width: number, hanging: string): string[] {
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const at = rest.lastIndexOf(' ', width);
    if (at <= hanging.length) break;
    lines.push(rest.slice(0, at).trimEnd());
    rest = hanging + rest.slice(at + 1).trimStart();
  }
  return [...lines, rest];
}

export const verbs = { show };
