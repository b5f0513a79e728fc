import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Finding } from '../../network/peers/network.js';
import { KNOWN_AGENTS, type ProbeResult, probeAgent } from '../../providers/acp/probe.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Children } from '../../system/process/children.js';

export interface AgentFindingsComponents {
  runtime: Runtime;
  children: Children;
  env: Readonly<Record<string, string | undefined>>;
}

/** What a diagnosis says of coding agents that are installed here and could join: each is greeted for a moment. */
export function agentFindings({ runtime, children, env }: AgentFindingsComponents): Promise<Finding>[] {
  const installed = KNOWN_AGENTS.filter(({ command }) => isInstalled(command, env.PATH ?? ''));
  return installed.map(async ({ name, command, args }) => {
    const program = { command, args, name: command, env: { PATH: env.PATH } };
    const result = await probeAgent(runtime, children, program);
    return finding(`${name} (${[command, ...args].join(' ')})`, result);
  });
}

function finding(agent: string, result: ProbeResult): Finding {
  if (result.state === 'failed') return { level: 'warning', text: `${agent} does not answer: ${result.reason}` };
  const { version, protocol, authMethods } = result.description;
  const about = `${agent}${version === null ? '' : ` ${version}`} speaks the Agent Client Protocol ${protocol}`;
  if (result.state === 'ready') return { level: 'ok', text: `${about} and is ready` };
  const ways = authMethods.map(({ id }) => id).join(', ');
  return { level: 'ok', text: `${about} and wants you to log in first${ways === '' ? '' : ` (${ways})`}` };
}

/** Would a shell find it? */
function isInstalled(command: string, path: string): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      const file = join(folder, command);
      accessSync(file, constants.X_OK);
      return statSync(file).isFile();
    } catch {
      return false;
    }
  });
}
