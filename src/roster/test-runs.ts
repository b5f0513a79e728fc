import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Children } from '../system/process/children.js';
import type { TestRuns } from './roster-tools.js';
import type { ToolProcesses } from './tools/tool-processes.js';
import type { ToolReport } from './tools/tool-report.js';

export interface TestRunnerComponents {
  runtime: Runtime;
  children: Children;
  processes: ToolProcesses;
  /** Throws unless the owner lets the caller run the command in the folder. */
  permit: (command: string, folder: string, caller: string, signal: AbortSignal | undefined) => Promise<void>;
}

const RUN_MS = 600_000;
const MAX_OUTPUT_CHARS = 8 * 1_048_576;

/** SATURN: runs the tests of a workspace, which executes code of the repository, and reads what they print. */
export class TestRunner implements TestRuns {
  readonly #components: TestRunnerComponents;

  constructor(components: TestRunnerComponents) {
    this.#components = components;
  }

  async run(
    folder: string,
    { caller, signal }: { caller: string; signal?: AbortSignal | undefined },
  ): Promise<ToolReport> {
    const { runtime, children, processes, permit } = this.#components;
    const [command, ...args] = testCommand(folder);
    const shown = [command, ...args].join(' ');
    await permit(shown, folder, caller, signal);
    const output: string[] = [];
    let chars = 0;
    const hear = (text: string) => {
      chars += text.length;
      // The end has the summary.
      output.push(text);
      while (chars > MAX_OUTPUT_CHARS && output.length > 1) chars -= output.shift()!.length;
    };
    const env = { CI: 'true', NO_COLOR: '1', FORCE_COLOR: '0' };
    const onStderr = (lines: readonly string[]) => hear(`${lines.join('\n')}\n`);
    const child = await children.start({ command: command!, args, cwd: folder, env, name: 'tests', onStderr });
    let failure: EclipticError | undefined;
    const end = (error: EclipticError) => {
      failure ??= error;
      void child.stop({ graceMs: 0 });
    };
    const late = runtime.setTimer(() => {
      end(new EclipticError('REQUEST_TIMEOUT', `${shown} did not end within ${RUN_MS / 60_000} minutes`));
    }, RUN_MS);
    const cancel = () => end(new EclipticError('CANCELLED', `${shown} was cancelled`));
    signal?.addEventListener('abort', cancel, { once: true });
    if (signal?.aborted) cancel();
    try {
      child.endInput();
      child.stdout.setEncoding('utf8').on('data', hear);
      const exit = await child.exited;
      await child.stop({ graceMs: 0 });
      if (failure) throw failure;
      const code = exit.kind === 'code' ? exit.code : -1;
      const call = { tool: 'saturn.output', folder, args: { output: output.join(''), code, command: shown } };
      return await processes.run(call, signal);
    } finally {
      late.cancel();
      signal?.removeEventListener('abort', cancel);
    }
  }
}

/** The command that runs the tests, by the files of the folder. */
function testCommand(folder: string): string[] {
  const has = (file: string) => existsSync(join(folder, file));
  if (has('package.json') && scriptsOf(folder).test !== undefined) return ['npm', 'test', '--silent'];
  if (['pytest.ini', 'pyproject.toml', 'tox.ini', 'setup.cfg'].some(has))
    return ['python3', '-m', 'pytest', '-q', '-rfE'];
  if (has('go.mod')) return ['go', 'test', '-json', './...'];
  if (has('Cargo.toml')) return ['cargo', 'test'];
  const message = `${folder} has no tests that are known: a "test" script in package.json, pytest, go.mod or Cargo.toml`;
  throw new EclipticError('INVALID_ARGUMENTS', message, { folder });
}

function scriptsOf(folder: string): { test?: unknown } {
  try {
    return (
      (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { scripts?: { test?: unknown } }).scripts ?? {}
    );
  } catch {
    return {};
  }
}
