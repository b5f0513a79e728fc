import type { AgentTier } from '../../mesh/schemas.js';
import type { DiscoveryStatus } from '../discovery/discovery.js';
import { isOwners } from '../membership/certificate.js';
import type { Membership } from '../membership/membership.js';
import { permits } from '../membership/signed-cards.js';
import type { MemberExchange } from './member-exchange.js';
import type { Peer } from './peer.js';
import type { PeerStatus } from './peer-state.js';
import type { ExchangeComponents } from './peers.js';

/** A row of the peers' table. */
export interface PeerRow {
  readonly node: string;
  readonly name: string;
  readonly state: PeerStatus;
  /** Why it is not connected. */
  readonly reason: string | null;
  /** When a node that is not connected was last heard of, directly or through the directory. */
  readonly lastHeard: number | null;
  readonly link: string | null;
  readonly since: number;
  readonly agents: number;
  readonly tiers: readonly AgentTier[];
  readonly sandboxes: readonly string[] | null;
  /** Is it a device of the owner's? */
  readonly owner: boolean;
  readonly roundTripMs: number | null;
  readonly clockSkewMs: number | null;
  readonly software: string | null;
  readonly expiresAt: number | null;
}

export interface Finding {
  readonly level: 'ok' | 'warning' | 'problem';
  readonly text: string;
}

const SKEW_MS = 5_000;
const EXPIRES_SOON_MS = 30 * 86_400_000;

export function peerRows({ peers, registry, membership }: ExchangeComponents): PeerRow[] {
  return peers.all.map((peer) => ({
    node: peer.node,
    name: peer.name,
    state: peer.status,
    reason: whyAway(peer, membership),
    lastHeard: peer.status === 'connected' ? null : (peers.seenAt(peer.node) ?? null),
    link: peer.linkKind ?? null,
    since: peer.since,
    agents: registry.countOf(peer.node),
    tiers: peer.grant?.tiers ?? [],
    sandboxes: peer.grant?.sandboxes ?? null,
    owner: peer.chain !== undefined && isOwners(peer.chain[0]!),
    roundTripMs: peer.roundTripMs ?? null,
    clockSkewMs: peer.clockSkewMs ?? null,
    software: peer.software || null,
    expiresAt: peer.chain?.[0]?.expiresAt ?? null,
  }));
}

function whyAway({ status, chain, reason }: Peer, membership: Membership): string | null {
  const lapsed = status !== 'connected' && chain ? membership.lapsed(chain) : undefined;
  return (lapsed ?? reason) || null;
}

interface Diagnosed extends ExchangeComponents {
  discoveries: readonly DiscoveryStatus[];
  doubled: MemberExchange['doubled'];
  /** This release. */
  software: string;
}

/** The findings of `doctor` about this node's membership, its discoveries and its peers. */
export function findings(about: Diagnosed): Finding[] {
  const { membership, peers, discoveries, doubled } = about;
  if (!membership.joined) {
    const alone: Finding = { level: 'ok', text: 'in no mesh: nothing is announced, and no node can connect' };
    // It is needed to join as well.
    return [alone, ...ways(discoveries.filter(({ kind }) => kind === 'nats'))];
  }
  const found = [...ownFindings(about), ...ways(discoveries)];
  if (doubled) {
    const text = `another process runs with this node’s key, says node ${doubled.by.slice(0, 12)}; stop one of the two`;
    found.push({ level: 'problem', text });
  }
  for (const row of peerRows(about)) found.push(...peerFindings(row, about));
  if (peers.all.length === 0) found.push({ level: 'warning', text: 'no other node has been met yet' });
  return found;
}

function ways(discoveries: readonly DiscoveryStatus[]): Finding[] {
  return discoveries.flatMap(({ kind, working, detail, gaps = [] }) => [
    { level: working ? 'ok' : 'problem', text: `${kind}: ${detail}` } as const,
    ...gaps.map((gap) => ({ level: 'warning', text: `${kind}: ${gap}` }) as const),
  ]);
}

/** A removed node gets no proof of its removal: it hears of it when a link ends or is refused. */
function saysRemoved({ status, reason }: Peer, own: string): boolean {
  const isRefused = reason.includes(own) && reason.endsWith('the node was removed from the mesh');
  return status !== 'connected' && (isRefused || reason.endsWith('this node was removed from the mesh'));
}

function ownFindings({ membership, peers, runtime, registry }: Diagnosed): Finding[] {
  const own = membership.chain[0]!;
  const member = `member of mesh ${membership.mesh} as ${JSON.stringify(own.name)}`;
  const removedBy = peers.all.find((peer) => saysRemoved(peer, own.node));
  const found: Finding[] = [{ level: 'ok', text: member }];
  if (removedBy) {
    const said = `node ${removedBy.node.slice(0, 12)} says that this node was removed`;
    found[0] = {
      level: 'problem',
      text: `${member}, but ${said}; to come back: ecliptic leave, and ecliptic join CODE`,
    };
  }
  if (own.expiresAt - runtime.now() < EXPIRES_SOON_MS) {
    const day = new Date(own.expiresAt).toISOString().slice(0, 10);
    found.push({ level: 'warning', text: `this node’s certificate ends ${day}; its issuer renews it on contact` });
  }
  const silent = registry.getLocalCards().filter((card) => !permits(own.grant, card));
  if (silent.length > 0) {
    const ids = silent.map(({ id }) => id).join(', ');
    found.push({ level: 'warning', text: `not announced, because this node’s certificate does not allow it: ${ids}` });
  }
  return found;
}

function peerFindings(row: PeerRow, { peers, software }: Diagnosed): Finding[] {
  // Names are chosen by other nodes: they must not look like a line of this report.
  const who = `${JSON.stringify(row.name || 'a node').slice(1, -1)} (${row.node.slice(0, 12)})`;
  const found: Finding[] = [];
  if (row.state === 'connected') {
    const time = row.roundTripMs === null ? '' : `, round trip ${row.roundTripMs.toFixed(1)} ms`;
    found.push({ level: 'ok', text: `${who}: connected over ${row.link}${time}` });
  } else if (row.state === 'idle') {
    found.push({ level: 'ok', text: `${who}: there, a link is opened when something is sent` });
  } else {
    found.push({ level: 'problem', text: `${who}: ${row.state}${row.reason ? `, ${row.reason}` : ''}` });
  }
  if (peers.get(row.node)?.doubledAt !== undefined) {
    found.push({ level: 'problem', text: `${who}: two processes run with its key; stop one of them` });
  }
  if (row.clockSkewMs !== null && Math.abs(row.clockSkewMs) > SKEW_MS) {
    const direction = row.clockSkewMs > 0 ? 'ahead' : 'behind';
    const seconds = Math.round(Math.abs(row.clockSkewMs) / 1_000);
    found.push({
      level: 'warning',
      text: `${who}: its clock is ${seconds} s ${direction}; messages may expire too early or too late`,
    });
  }
  if (row.software !== null && row.software !== software) {
    found.push({ level: 'warning', text: `${who}: runs ${row.software}, this node ${software}` });
  }
  return found;
}
