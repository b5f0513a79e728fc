import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Gateway } from '../../http/gateway.js';
import type { Upstreams } from '../../mcp/upstream/upstreams.js';
import type { AgentCard } from '../../mesh/schemas.js';
import type { Finding } from '../../network/peers/network.js';
import { KNOWN_AGENTS, type ProbeResult, probeAgent } from '../../providers/acp/probe.js';
import type { Lanes } from '../../providers/host/lanes.js';
import type { ProviderRegistry } from '../../providers/registry/registry.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Jails } from '../../system/jail/jails.js';
import type { Children } from '../../system/process/children.js';
import { descriptorLimit, openDescriptors } from '../../system/process/descriptors.js';
import type { Readiness } from '../../telemetry/readiness.js';

/** Starts a probe of each coding agent that is installed on this machine and could join. */
export function agentFindings({
  runtime,
  children,
  env,
}: {
  runtime: Runtime;
  children: Children;
  env: Readonly<Record<string, string | undefined>>;
}): Promise<Finding>[] {
  const installed = KNOWN_AGENTS.filter(({ command }) => isInstalled(command, env.PATH ?? ''));
  return installed.map(async ({ name, command, args }) => {
    const program = { command, args, name: command, env: { PATH: env.PATH } };
    const result = await probeAgent(runtime, children, program);
    return probeFinding(`${name} (${[command, ...args].join(' ')})`, result);
  });
}

function probeFinding(agent: string, result: ProbeResult): Finding {
  if (result.state === 'failed') return { level: 'warning', text: `${agent} does not answer: ${result.reason}` };
  const { version, protocol, authMethods } = result.description;
  const about = `${agent}${version === null ? '' : ` ${version}`} speaks the Agent Client Protocol ${protocol}`;
  if (result.state === 'ready') return { level: 'ok', text: `${about} and is ready` };
  const ways = authMethods.map(({ id }) => id).join(', ');
  return { level: 'ok', text: `${about} and wants you to log in first${ways === '' ? '' : ` (${ways})`}` };
}

/** The jail of this machine, and the providers that do without one. */
export async function jailFinding(jails: Jails, lanes: Lanes): Promise<Finding> {
  const state = await jails.state();
  const hosts = lanes.rows.flatMap(({ providers }) => providers);
  const bare = hosts.filter(({ jail }) => jail?.startsWith('none')).map(({ provider }) => `"${provider}"`);
  if (state.kind !== 'none') {
    const gaps = state.gaps.length === 0 ? '' : `, ${state.gaps.join(', ')}`;
    return {
      level: gaps === '' ? 'ok' : 'warning',
      text: `programs can be jailed: ${state.kind} ${state.version}${gaps}`,
    };
  }
  const about = `${state.reason}; ${state.remedy}`;
  if (bare.length === 0) return { level: 'ok', text: `programs cannot be jailed, and none asks for it: ${about}` };
  return { level: 'problem', text: `not jailed: ${bare.join(', ')}: ${about}` };
}

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

/** A store that takes no writes: durable work is refused until it does. */
export function storeFindings({ reasons }: Readiness): Finding[] {
  return reasons
    .filter(({ part }) => part === 'store')
    .map(({ message }) => ({
      level: 'problem',
      text: `${message}; durable messages, tasks and changes are refused meanwhile: free space on the disk of the data folder, and see the log`,
    }));
}

/** From this share of the limit on, the next connection or program may fail. */
const NEARLY_ALL = 0.9;

export function connectionFindings({ most, refused }: Gateway['connections']): Finding[] {
  const findings: Finding[] = [];
  const limit = descriptorLimit();
  const open = openDescriptors();
  if (open === undefined || open >= limit * NEARLY_ALL) {
    const text = `${open ?? 'all'} of ${limit} file descriptors are in use; raise the limit (ulimit -n), or close connections`;
    findings.push({ level: 'problem', text });
  }
  if (refused > 0) {
    const text = `${refused} HTTP connections were refused since the start: ${most} may be open at once`;
    findings.push({ level: 'warning', text });
  }
  return findings;
}

/** Agents of this node whose modules failed, and the number of agents without a worker. */
export function staffingFindings(cards: readonly AgentCard[], providers: ProviderRegistry): Finding[] {
  const provided = new Set(providers.list().map(({ id }) => id));
  const unwell = cards.filter(({ id, status }) => !provided.has(id) && status?.state === 'unavailable');
  const unstaffed = cards.filter(({ status }) => status?.state === 'unstaffed').length;
  return [
    ...unwell.map(({ id, status }): Finding => ({ level: 'problem', text: `agent "${id}": ${status!.reason}` })),
    ...(unstaffed === 0 ? [] : [{ level: 'ok', text: unstaffedText(unstaffed) } as const]),
  ];
}

function unstaffedText(count: number): string {
  const remedy = 'find workers with: ecliptic staff';
  if (count === 1) return `1 agent is unstaffed: it refuses requests and tasks; ${remedy}`;
  return `${count} agents are unstaffed: they refuse requests and tasks; ${remedy}`;
}

export function providerFindings(providers: ProviderRegistry): Finding[] {
  return providers.list().map(({ id, type, state, phase, message }): Finding => {
    const provider = `provider "${id}" (${type})`;
    if (state === 'starting') return { level: 'warning', text: `${provider} is starting` };
    if (state === 'healthy')
      return {
        level: phase === 'ready' ? 'ok' : 'problem',
        text: `${provider} is ${phase === 'ready' ? 'healthy' : phase}`,
      };
    return { level: 'problem', text: `${provider} is ${state}${message === null ? '' : `: ${message}`}` };
  });
}

export function upstreamFindings(upstreams: Upstreams): Finding[] {
  return upstreams.statuses.flatMap(({ name, state, reason, offered, quarantined, problems }): Finding[] => {
    const server = `MCP server "${name}"`;
    const count = Object.values(offered).reduce((sum, one) => sum + one, 0);
    const findings: Finding[] = [];
    if (state === 'running') findings.push({ level: 'ok', text: `${server} runs and offers ${count} things` });
    else if (state === 'needs-login') findings.push({ level: 'warning', text: reason ?? `${server} needs a login` });
    else if (state === 'disabled') findings.push({ level: 'ok', text: `${server} is switched off` });
    else findings.push({ level: 'problem', text: `${server} is ${state}${reason === null ? '' : `: ${reason}`}` });
    if (quarantined > 0) {
      const text = `${server} changed ${quarantined} of its definitions; see: ecliptic tool pins`;
      findings.push({ level: 'warning', text });
    }
    return [...findings, ...problems.map((text): Finding => ({ level: 'warning', text: `${server}: ${text}` }))];
  });
}
