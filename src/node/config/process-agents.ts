import { resolve } from 'node:path';
import type { ProcessAgentInit } from '../../providers/process-agents.js';
import type { AgentConfig, ProcessAgentConfig } from './schema.js';
import { Variables } from './variables.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The program that an agent is, if it is one; paths are relative to `folder`. */
export function readProcessAgent(
  { command, acp, lane }: AgentConfig,
  env: Environment,
  folder: string,
): ProcessAgentInit | undefined {
  const common = { ...(lane !== undefined && { lane }) };
  if (acp !== undefined) {
    const { auth, mode, fs, cwd, ...program } = acp;
    const where = cwd === undefined ? undefined : resolve(folder, new Variables(env).expand(cwd));
    const { config, ...rest } = readProgram(program, env, folder, where);
    return { type: 'acp', ...common, ...rest, config: { ...config, auth, mode, fs } };
  }
  if (command === undefined) return undefined;
  const program = typeof command === 'string' ? { command } : command;
  const where = resolve(folder, new Variables(env).expand(program.cwd ?? '.'));
  return { type: 'command', ...common, ...readProgram(program, env, folder, where) };
}

function readProgram(
  { command, args = [], env: settings, concurrency, healthMs, limits }: ProcessAgentConfig,
  env: Environment,
  folder: string,
  cwd: string | undefined,
): Pick<ProcessAgentInit, 'config' | 'concurrency' | 'healthMs'> {
  const variables = new Variables(env);
  const name = variables.expand(command);
  const config = {
    // A path is one from this file; a mere name is looked up as a shell would.
    command: /[\\/]/.test(name) ? resolve(folder, name) : name,
    args: args.map((arg) => variables.expand(arg)),
    env: variables.expandAll(settings),
    cwd,
    secrets: [...variables.secrets],
    limits,
  };
  return {
    config,
    ...(concurrency !== undefined && { concurrency }),
    ...(healthMs !== undefined && { healthMs }),
  };
}
