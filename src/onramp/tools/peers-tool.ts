import { z } from 'zod';
import { joinAddress } from '../../a2a/address.js';
import type { AgentCard } from '../../a2a/schemas.js';
import { oneLine } from '../fence.js';
import type { MeshTool } from '../member-context.js';
import { seesMailOf } from '../sees-mail.js';
import { read } from './arguments.js';

const Arguments = z.strictObject({ match: z.string().max(200).optional(), my_summary: z.string().max(120).optional() });

/** Peers in one answer. */
const MAX_PEERS = 50;
const SUMMARY_CHARS = 120;

interface PeerRow {
  readonly name: string;
  readonly state: 'present' | 'away';
  readonly sees_mail: string;
  readonly summary: string;
  readonly capabilities: readonly string[];
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
  const found = rows.filter((row) => wanted === undefined || JSON.stringify(row).toLowerCase().includes(wanted));
  const shown = found.slice(0, MAX_PEERS);
  const you = { name: member.name, key: member.names.keyOf(member.name), sees_mail: member.seesMail };
  const lines = shown.map(({ name, sees_mail, summary, capabilities }) => {
    const can = capabilities.length > 0 ? ` (can: ${capabilities.join(', ')})` : '';
    return `${name} [${sees_mail}]${can}${summary && `: ${summary}`}`;
  });
  const more = found.length > shown.length ? [`${found.length - shown.length} more; narrow it with match`] : [];
  const text = [`You are ${you.name} (key ${you.key}, ${you.sees_mail}).`, ...lines, ...more].join('\n');
  return { text: found.length === 0 ? `${text}\nNobody else${wanted ? ' like that' : ''}.` : text };
};

function presentRow(card: AgentCard, name: string): PeerRow {
  return {
    name,
    state: 'present',
    sees_mail: seesMailOf(card),
    summary: oneLine(card.description, SUMMARY_CHARS),
    capabilities: card.capabilities.map(({ id }) => oneLine(id, 60)),
  };
}

function awayRow(name: string): PeerRow {
  return { name, state: 'away', sees_mail: 'offline', summary: '', capabilities: [] };
}
