import { dirname, relative, resolve } from 'node:path';
import type { FoundWorkers, UnusableWorker } from '../node/staffing/found.js';
import { WORKER_KINDS } from '../node/staffing/found.js';
import type { Assignment, StaffProposal } from '../node/staffing/proposal.js';
import { EclipticError } from '../runtime/errors.js';
import { choice, flag, type Invocation, list, many, text, verb } from './command.js';
import { asks } from './input.js';
import { type Output, oneLine, printable } from './output.js';

/** A new ecliptic.json holds no secrets, only references to them. */
const FILE_MODE = 0o644;

const assign = verb({
  summary: 'find workers on this machine, and give them to roles in ecliptic.json',
  options: {
    roles: list('LIST', 'the roles to staff, or "all" (default: sun, mercury, mars, venus, pluto, saturn)'),
    only: choice(WORKER_KINDS, 'look for coding agents (acp), models or scripts (exec) only'),
    model: text('NAME', 'the model to use, where an endpoint has several'),
    endpoint: many('URL', 'an OpenAI-compatible endpoint to try instead of the usual ports; may be repeated'),
    config: text('FILE', 'the configuration (default: ECLIPTIC_CONFIG, or ecliptic.json here)'),
    yes: flag('write it without asking'),
    'dry-run': flag('show the proposal and write nothing'),
  },
  examples: ['', '--roles mars,callisto --yes', '--only model --endpoint http://127.0.0.1:9000/v1', '--dry-run --json'],
  async run(invocation) {
    const { values, env, output } = invocation;
    const [
      { readStaffedConfig, staffedText },
      { findWorkers },
      { proposeStaff },
      { systemRuntime },
      files,
      { parseConfig },
    ] = await Promise.all([
      import('../node/staffing/config-text.js'),
      import('../node/staffing/find-workers.js'),
      import('../node/staffing/proposal.js'),
      import('../runtime/system-runtime.js'),
      import('../system/files/text-file.js'),
      import('../node/config/load.js'),
    ]);
    const file = resolve(values.config ?? (env.ECLIPTIC_CONFIG || 'ecliptic.json'));
    const before = naming(file, () => files.readUtf8(file));
    const config = naming(file, () => readStaffedConfig(before));
    // A node could not start with it, however many workers it names.
    if (before !== undefined && before.trim() !== '') parseConfig(before, file);
    // Unknown roles are refused before anything is started or contacted.
    proposeStaff({ workers: [], unusable: [] }, config, values.roles);
    const { only, model, endpoint: endpoints } = values;
    const runtime = systemRuntime();
    // Coding agents take seconds to start.
    if (!output.json && process.stderr.isTTY) process.stderr.write('Looking for workers on this machine …\n');
    const alive = runtime.hold();
    let found: FoundWorkers;
    try {
      found = await findWorkers(runtime, { folder: dirname(file), env, only, model, endpoints });
    } finally {
      alive.cancel();
    }
    const proposal = proposeStaff(found, config, values.roles);
    const { assignments } = proposal;
    const after = assignments.length === 0 ? undefined : naming(file, () => staffedText(before, assignments));
    const shown = relative(process.cwd(), file) || file;
    if (!output.json) show(output, proposal, found);
    const isWritten = after !== undefined && (await consents(invocation, `Write this into ${shown}?`));
    if (isWritten) {
      if (files.readUtf8(file) !== before) {
        throw new EclipticError('INVALID_CONFIG', `${file} has changed meanwhile; nothing was written`, { file });
      }
      files.replaceText(file, after, FILE_MODE);
    }
    const next = isWritten ? await nextCommand(invocation) : null;
    const isNothing = found.workers.length === 0 && proposal.staffed.length === 0;
    if (isNothing || (assignments.length === 0 && proposal.vacant.length > 0)) output.exitCode = 1;
    const result = {
      file,
      written: isWritten,
      assignments: assignments.map(({ role, workers }) => ({
        role,
        workers: workers.map(({ kind, title, why, config: written }) => ({ kind, title, why, config: written })),
      })),
      staffed: proposal.staffed,
      vacant: proposal.vacant,
      unusable: found.unusable,
      next,
    };
    output.value(result, () => ending(invocation, proposal, { shown, isWritten, isNothing, next }));
  },
});

type StaffInvocation = Invocation<readonly string[], { readonly yes?: boolean; readonly 'dry-run'?: boolean }>;

async function consents({ values, output }: StaffInvocation, question: string): Promise<boolean> {
  if (values['dry-run']) return false;
  return values.yes === true || (!output.json && (await asks(question, false)));
}

/** A running node reads the configuration when it starts. */
async function nextCommand({ connect }: StaffInvocation): Promise<string> {
  try {
    (await connect()).close();
    return 'ecliptic down && ecliptic up';
  } catch {
    return 'ecliptic up';
  }
}

function show(output: Output, { assignments, vacant, staffed, spare }: StaffProposal, found: FoundWorkers): void {
  if (assignments.length > 0) {
    output.rows(assignments.flatMap(rowsOf), '', ({ role, worker, why }) => ({ ROLE: role, WORKER: worker, WHY: why }));
  }
  if (staffed.length > 0) output.line(`\nHave a worker and stay as they are: ${printable(staffed.join(', '))}`);
  if (spare.length > 0) output.line(`\nAlso found: ${printable(spare.map(({ title }) => title).join(', '))}`);
  if (vacant.length > 0) output.line('\nStay without a worker:');
  for (const reason of new Set(vacant.map((one) => one.reason))) {
    const roles = vacant.filter((one) => one.reason === reason).map(({ role }) => role);
    output.line(`  ${oneLine(roles.join(', '))}: ${oneLine(reason)}`);
  }
  if (found.unusable.length > 0) output.line('\nFound, but not usable:');
  for (const one of found.unusable) output.line(unusableLines(one));
  output.line('');
}

function rowsOf({ role, workers }: Assignment) {
  return workers.map(({ title, why }, at) => ({
    role,
    worker: title,
    why: at === 0 ? why : `${why}; used while ${workers[at - 1]!.title} is down`,
  }));
}

function unusableLines({ title, reason, fix }: UnusableWorker): string {
  return `  ${oneLine(title)}: ${oneLine(reason)}\n    to fix it: ${oneLine(fix)}`;
}

interface Ending {
  readonly shown: string;
  readonly isWritten: boolean;
  readonly isNothing: boolean;
  readonly next: string | null;
}

function ending(
  { values }: StaffInvocation,
  { assignments, vacant }: StaffProposal,
  { shown, isWritten, isNothing, next }: Ending,
): string {
  if (isWritten) {
    const roles = assignments.map(({ role }) => role).join(', ');
    return `${shown}: ${assignments.length === 1 ? '1 role has' : `${assignments.length} roles have`} a worker now: ${roles}.\nNext: ${next}`;
  }
  if (isNothing) return NOTHING;
  if (assignments.length > 0) {
    return values['dry-run']
      ? `Nothing was written. ${shown} would change; write it with: ecliptic staff --yes`
      : 'Nothing was written. Write it with: ecliptic staff --yes';
  }
  if (vacant.length > 0) return NOTHING;
  return 'Nothing to do: each of these roles has a worker. For others: ecliptic staff --roles LIST';
}

const NOTHING = `No worker was found that can be used. One of these is enough, then run ecliptic staff again:
  a local model     ollama pull qwen3 && ollama serve            (https://ollama.com)
  a hosted model    export OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=…, then: ecliptic staff --model NAME
  a coding agent    npm install -g @google/gemini-cli && gemini   (or opencode-ai, @agentclientprotocol/codex-acp)
  a script          npm pkg set scripts.test="node --test"
Or give a role a module of yours in ecliptic.json: { "agents": { "mars": { "module": "./mars.js" } } }`;

/** A fault of the file is reported with its name. */
function naming<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    throw new EclipticError(error.code, `${file}: ${error.message}`, { ...error.details, file }, error);
  }
}

export const verbs = { assign };
