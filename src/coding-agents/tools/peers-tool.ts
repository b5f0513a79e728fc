import { z } from 'zod';
import { joinAddress } from '../../mesh/address.js';
import type { AgentCard, AgentStatus } from '../../mesh/schemas.js';
import { oneLine } from '../mailbox/fence.js';
import type { MeshTool } from '../mailbox/member-context.js';
import { hasHandler, seesMailOf } from '../mailbox/sees-mail.js';
import { read } from './arguments.js';

const Arguments = z.strictObject({ match: z.string().max(200).optional(), my_summary: z.string().max(120).optional() });

/** Peers in one answer. */
const MAX_PEERS = 50;
const MAX_UNSTAFFED = 30;
const SUMMARY_CHARS = 120;

interface PeerRow {
  readonly name: string;
  readonly state: 'present' | 'away' | Exclude<AgentStatus['state'], 'ready'>;
  readonly sees_mail: string;
  readonly summary: string;
  readonly capabilities: readonly string[];
  /** Does a handler answer for it, not a coding agent or a person? */
  readonly handled: boolean;
}

export const peersTool: MeshTool = async (member, args) => {
  const { match, my_summary } = read(Arguments, args);
  if (my_summary !== undefined) member.describe(my_summary);
  const wanted = match?.toLowerCase();
  const present = member.registry
    .listAll(member.name)
    .filter(({ id, node }) => node !== undefined || id !== member.name);
  const rows = [
    ...present.map((card) => presentRow(card, member.names.display(joinAddress(card.id, card.node)))),
    ...member.names.away(member.name).map((address) => awayRow(member.names.display(address))),
  ];
  const matching = rows.filter((row) => wanted === undefined || JSON.stringify(row).toLowerCase().includes(wanted));
  const found = matching.filter(({ state }) => state !== 'unstaffed').sort((a, b) => rankOf(a) - rankOf(b));
  const unstaffed = matching.filter(({ state }) => state === 'unstaffed').map(({ name }) => name);
  const shown = found.slice(0, MAX_PEERS);
  const you = { name: member.name, key: member.names.keyOf(member.name), sees_mail: member.seesMail };
  const lines = shown.map((row) => {
    const { name, summary, capabilities } = row;
    const can = capabilities.length > 0 ? ` (can: ${capabilities.join(', ')})` : '';
    return `${name} [${markOf(row)}]${can}${summary && `: ${summary}`}`;
  });
  const more = found.length > shown.length ? [`${found.length - shown.length} more; narrow it with match`] : [];
  const vacant = unstaffed.length === 0 ? [] : [vacancies(unstaffed)];
  const text = [`You are ${you.name} (key ${you.key}, ${you.sees_mail}).`, ...lines, ...more, ...vacant].join('\n');
  return { text: matching.length === 0 ? `${text}\nNobody else${wanted ? ' like that' : ''}.` : text };
};

function presentRow(card: AgentCard, name: string): PeerRow {
  return {
    name,
    state: card.status === undefined || card.status.state === 'ready' ? 'present' : card.status.state,
    sees_mail: seesMailOf(card),
    summary: oneLine(card.description, SUMMARY_CHARS),
    capabilities: card.capabilities.map(({ id }) => oneLine(id, 60)),
    handled: hasHandler(card),
  };
}

function awayRow(name: string): PeerRow {
  return { name, state: 'away', sees_mail: 'offline', summary: '', capabilities: [], handled: false };
}

/** Coding agents and people come first, then agents that a handler or program answers for, then those that cannot work. */
function rankOf({ state, sees_mail, handled }: PeerRow): number {
  if (state === 'away' || sees_mail === 'offline') return 3;
  if (state !== 'present') return 2;
  return handled ? 1 : 0;
}

function markOf({ state, sees_mail }: PeerRow): string {
  return state === 'present' || state === 'away' ? sees_mail : state === 'tools' ? 'tools only' : state;
}

/** One line for all of them: there is nothing to ask of any. */
function vacancies(names: readonly string[]): string {
  const shown = names.slice(0, MAX_UNSTAFFED);
  const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : '';
  return `Unstaffed, no worker behind the name, refuse requests and tasks: ${shown.join(', ')}${more}.`;
}
