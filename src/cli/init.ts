import { basename, dirname, isAbsolute, resolve } from 'node:path';
import type { Machine } from '../coding-agents/setup/clients.js';
import type { Addition } from '../node/staffing/first-config.js';
import { EclipticError } from '../runtime/errors.js';
import { flag, type Invocation, text, verb } from './command.js';
import { asks } from './input.js';
import { oneLine, printable } from './output.js';

interface InitValues {
  readonly yes?: boolean;
  readonly 'dry-run'?: boolean;
  readonly config?: string;
}

const write = verb({
  summary: 'write an ecliptic.json for this folder, from what is found on this machine',
  options: {
    yes: flag('take everything that was found, without questions'),
    'dry-run': flag('show the file and write nothing'),
    config: text('FILE', 'the file to write (default: ECLIPTIC_CONFIG, or ecliptic.json here)'),
  },
  examples: ['', '--yes', '--dry-run'],
  async run(invocation) {
    const { values, env, output } = invocation;
    const [
      staffing,
      { findWorkers },
      { proposeStaff },
      { knownServers },
      { systemRuntime },
      { parseConfig },
      files,
      machine,
      setup,
    ] = await Promise.all([
      import('../node/staffing/first-config.js'),
      import('../node/staffing/find-workers.js'),
      import('../node/staffing/proposal.js'),
      import('../coding-agents/setup/known-servers.js'),
      import('../runtime/system-runtime.js'),
      import('../node/config/load.js'),
      import('../system/files/text-file.js'),
      import('./this-machine.js'),
      import('./setup.js'),
    ]);
    const file = resolve(values.config ?? (env.ECLIPTIC_CONFIG || 'ecliptic.json'));
    if (!values['dry-run'] && files.readUtf8(file) !== undefined) {
      const more = 'add workers to it with: ecliptic staff';
      throw new EclipticError('INVALID_CONFIG', `${file} exists already and stays as it is; ${more}`, { file });
    }
    if (!output.json && process.stderr.isTTY) process.stderr.write('Looking for workers on this machine …\n');
    const runtime = systemRuntime();
    const alive = runtime.hold();
    const folder = dirname(file);
    const here = machine.thisMachine(env);
    const found = await findWorkers(runtime, { folder, env }).finally(() => alive.cancel());
    const additions: Addition[] = [
      ...proposeStaff(found, {}).assignments.map((assignment) => ({ kind: 'agent' as const, assignment })),
      ...knownServers(here, folder).map((server) => ({ kind: 'server' as const, server })),
    ];
    const unique = additions.filter(
      (one, at) => at === additions.findIndex((other) => isSame(one, other, staffing.keyOf)),
    );
    const taken = new Set<Addition>();
    for (const addition of unique)
      if (missingOf(addition, env, here).length === 0 && (await consents(invocation, questionOf(addition, staffing))))
        taken.add(addition);
    const content = staffing.firstConfigText(unique, taken);
    // What is written is what a node can start with.
    parseConfig(content, file);
    if (!values['dry-run']) files.replaceText(file, content, 0o644);
    const lines = await setup.setupLines(invocation);
    const rows = unique.map((one) => ({
      ...{
        kind: one.kind,
        name: staffing.keyOf(one),
        source: staffing.sourceOf(one),
        taken: taken.has(one),
        missing: missingOf(one, env, here),
      },
    }));
    output.value({ file, written: !values['dry-run'], found: rows, text: content, clients: lines }, () =>
      [
        ...(values['dry-run'] ? [content] : [`${basename(file)} is written.`]),
        ...(taken.size === unique.length ? [] : ['What you did not take is there as comments.']),
        ...(lines.length === 0
          ? []
          : ['\nTo connect the coding agents here (ecliptic setup applies it):\n', ...lines.map(printable)]),
        'Next: npx ecliptic up',
      ].join('\n'),
    );
  },
});

/** What a node needs to start with this server and does not have here. */
function missingOf(addition: Addition, env: Invocation['env'], { has, exists }: Machine): readonly string[] {
  if (addition.kind === 'agent') return [];
  const { variables, config } = addition.server;
  const { command } = config;
  const isHere = command === undefined || (isAbsolute(command) ? exists(command) : has(command));
  return [
    ...variables.filter((name) => env[name] === undefined).map((name) => `the variable ${name}`),
    ...(isHere ? [] : [`the program ${command}`]),
  ];
}

function isSame(one: Addition, other: Addition, keyOf: (addition: Addition) => string): boolean {
  return one.kind === other.kind && keyOf(one) === keyOf(other);
}

function questionOf(
  addition: Addition,
  { keyOf, sourceOf }: typeof import('../node/staffing/first-config.js'),
): string {
  const [key, source] = [oneLine(keyOf(addition)), oneLine(sourceOf(addition))];
  return addition.kind === 'agent' ? `Let ${source} work for ${key}?` : `Add the MCP server ${key} of ${source}?`;
}

/** Without a terminal and without `--yes`, what was found stays a comment. */
async function consents(
  { values, output }: Invocation<readonly string[], InitValues>,
  question: string,
): Promise<boolean> {
  return values.yes === true || (!output.json && !values['dry-run'] && (await asks(question, false)));
}

export const verbs = { write };
