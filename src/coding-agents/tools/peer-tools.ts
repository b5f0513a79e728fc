import { z } from 'zod';
import { oneLine } from '../../mcp/fence.js';
import { asContent, textsOf } from '../../mcp/result-text.js';
import { joinAddress } from '../../mesh/address.js';
import type { AgentCard, AgentStatus } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import { hasHandler, type Member, seesMailOf } from '../mailbox/member.js';
import { pathsText } from '../radar/notices.js';
import { type MeshTool, read } from './tool.js';

const PeersArguments = z.strictObject({
  match: z.string().max(200).optional(),
  my_summary: z.string().max(120).optional(),
});
const CallArguments = z.strictObject({
  peer: z.string().min(1).max(200),
  tool: z.string().min(1).max(200).optional(),
  args: z.record(z.string(), z.unknown()).optional(),
});

/** Peers in one answer. */
const MAX_PEERS = 50;
const MAX_UNSTAFFED = 30;
const SUMMARY_CHARS = 120;
const MAX_FOLDERS = 3;
const CALL_MS = 25_000;

interface PeerRow {
  readonly name: string;
  readonly state: 'present' | 'away' | Exclude<AgentStatus['state'], 'ready'>;
  readonly sees_mail: string;
  readonly summary: string;
  readonly capabilities: readonly string[];
  /** What it has changed and not committed, as far as the radar knows. */
  readonly changed: string;
  /** A handler answers for it, not a coding agent or a person. */
  readonly handled: boolean;
}

export const peersTool: MeshTool = async (member, args) => {
  const { match, my_summary } = read(PeersArguments, args);
  if (my_summary !== undefined) member.describe(my_summary);
  const { registry, names } = member;
  const wanted = match?.toLowerCase();
  const present = registry.listAll(member.name).filter(({ id, node }) => node !== undefined || id !== member.name);
  const rows = [
    ...present.map((card) => {
      const address = joinAddress(card.id, card.node ?? registry.nodeKey);
      return presentRow(card, names.display(address), changedBy(member, address));
    }),
    ...names.away(member.name).map((address) => awayRow(names.display(address))),
  ];
  const matching = rows.filter((row) => wanted === undefined || JSON.stringify(row).toLowerCase().includes(wanted));
  const found = matching.filter(({ state }) => state !== 'unstaffed').sort((a, b) => rankOf(a) - rankOf(b));
  const unstaffed = matching.filter(({ state }) => state === 'unstaffed').map(({ name }) => name);
  const shown = found.slice(0, MAX_PEERS);
  const more = found.length > shown.length ? [`${found.length - shown.length} more; narrow it with match`] : [];
  const text = [
    `You are ${member.name} (key ${names.keyOf(member.name)}, ${member.seesMail}).`,
    ...shown.map(peerLine),
    ...more,
    ...(unstaffed.length === 0 ? [] : [unstaffedLine(unstaffed)]),
  ].join('\n');
  return { text: matching.length === 0 ? `${text}\nNo other agents${wanted ? ' match' : ''}.` : text };
};

/** Only agents whose card the member sees are asked about. */
function changedBy({ radar, leases }: Member, address: string): string {
  const places = radar?.places.filter(({ agents, files }) => files.length > 0 && agents.includes(address)) ?? [];
  return places
    .slice(0, MAX_FOLDERS)
    .map(({ files, branch, repository }) => {
      const where = branch === undefined ? '' : `, branch ${oneLine(branch, 60)}`;
      return `${pathsText(files)} (${oneLine(leases.nameOf(repository), 60)}${where})`;
    })
    .join('; ');
}

function presentRow(card: AgentCard, name: string, changed: string): PeerRow {
  return {
    name,
    state: card.status === undefined || card.status.state === 'ready' ? 'present' : card.status.state,
    sees_mail: card.status?.state === 'unstaffed' ? 'offline' : seesMailOf(card),
    summary: oneLine(card.description, SUMMARY_CHARS),
    capabilities: card.capabilities.map(({ id }) => oneLine(id, 60)),
    changed,
    handled: hasHandler(card),
  };
}

function awayRow(name: string): PeerRow {
  return { name, state: 'away', sees_mail: 'offline', summary: '', capabilities: [], changed: '', handled: false };
}

/** Coding agents and people first, then agents that a handler or program answers for, then those that cannot work. */
function rankOf({ state, sees_mail, handled }: PeerRow): number {
  if (state === 'away' || sees_mail === 'offline') return 3;
  if (state !== 'present') return 2;
  return handled ? 1 : 0;
}

function peerLine({ name, state, sees_mail, summary, capabilities, changed }: PeerRow): string {
  const mark = state === 'present' || state === 'away' ? sees_mail : state === 'tools' ? 'tools only' : state;
  const can = capabilities.length > 0 ? ` (can: ${capabilities.join(', ')})` : '';
  return `${name} [${mark}]${can}${summary && `: ${summary}`}${changed && `; has changed ${changed}`}`;
}

/** One line for all of them: they can do nothing. */
function unstaffedLine(names: readonly string[]): string {
  const shown = names.slice(0, MAX_UNSTAFFED);
  const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : '';
  return `Unstaffed (no worker, refuse requests and tasks): ${shown.join(', ')}${more}.`;
}

export const callTool: MeshTool = async (member, given, { signal }) => {
  const { peer, tool, args = {} } = read(CallArguments, given);
  const address = member.names.resolve(peer, member.name);
  const offered = member.agent.mcp.tools.filter(({ agent }) => agent === address);
  if (tool === undefined) {
    const lines = offered.map(({ name, description, inputSchema }) => {
      return `${ownName(name)}: ${oneLine(description ?? '', 200)} ${JSON.stringify(inputSchema)}`;
    });
    return { text: lines.length === 0 ? `${peer} offers no tools that you may use.` : lines.join('\n') };
  }
  const found = offered.find(({ name }) => ownName(name) === tool || name === tool);
  if (!found && offered.length > 0) {
    const names = offered.map(({ name }) => ownName(name)).join(', ');
    throw new EclipticError('TOOL_NOT_FOUND', `${peer} has no tool "${tool}"; it has: ${names}`, { tool });
  }
  const result = await member.agent.mcp.call(found?.name ?? `${address}.${tool}`, args, { timeoutMs: CALL_MS, signal });
  const { content, isError = false } = asContent(result);
  return { text: textsOf(content).join('\n') || 'Done; the tool returned nothing.', isError };
};

function ownName(fullName: string): string {
  return fullName.slice(fullName.indexOf('.') + 1);
}
