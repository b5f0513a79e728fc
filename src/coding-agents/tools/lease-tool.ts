import { isAbsolute, relative } from 'node:path';
import { z } from 'zod';
import { oneLine } from '../../mcp/fence.js';
import { normalGlob, overlaps } from '../leases/glob.js';
import { type Conflict, type Lease, MAX_GLOBS, type Operation } from '../leases/lease-wire.js';
import type { LeaseLabel } from '../leases/leases.js';
import type { Repository } from '../leases/repository.js';
import type { Member } from '../mailbox/member.js';
import { pathsText, placeText } from '../radar/notices.js';
import { invalid, type MeshTool, read } from './tool.js';

const Arguments = z.strictObject({
  action: z.enum(['take', 'renew', 'release', 'check']),
  paths: z.array(z.string().min(1)).min(1).max(MAX_GLOBS).optional(),
  ttl_s: z.int().min(0).max(86_400).optional(),
  why: z.string().max(200).optional(),
});

const DEFAULT_TTL_S = 1_800;
const LEAST_TTL_S = 10;
const MAX_CHANGED = 5;

const MEANING: Readonly<Record<LeaseLabel, string>> = {
  guarded: 'guarded: every agent’s edits there are checked; shell commands are not',
  advisory: 'advisory: not every agent’s edits are checked',
  unconfirmed:
    'unconfirmed: the device that decides about it cannot be reached; another agent may hold it too, and you will be told',
};

export const leaseTool: MeshTool = async (member, given) => {
  const { action, paths, ttl_s = DEFAULT_TTL_S, why = '' } = read(Arguments, given);
  const repository = await member.leases.repositoryOf(member.name);
  const globs = paths && [...new Set(paths.map((path) => globIn(repository, path)))];
  if (!globs && action === 'check') return own(member, repository);
  if (!globs && action === 'take') throw invalid('give paths; nothing was taken');
  const holder = member.leases.address(member.name);
  const ttlMs = Math.max(LEAST_TTL_S, ttl_s) * 1_000;
  const wanted = globs?.map((glob) => ({ id: member.runtime.id(), glob })) ?? [];
  const operations = {
    take: { kind: 'take', holder, wanted, ttlMs, why: oneLine(why, 200) },
    check: { kind: 'check', holder, wanted, ttlMs, why: '' },
    renew: { kind: 'renew', holder, ttlMs, globs },
    release: { kind: 'release', holder, globs },
  } satisfies Record<typeof action, Operation>;
  const { outcome, confirmed } = await member.leases.operate(repository.id, operations[action]);
  const { leases, conflicts, reclaimed } = outcome;
  const label = member.leases.label(repository.id, confirmed);
  if (conflicts.length > 0) {
    const lines = conflicts.map((conflict) => described(member, conflict));
    const first = action === 'take' ? 'Nothing was taken. Held by others:' : 'Held by others:';
    const last = 'Work elsewhere, ask the holder with mesh_send, or try again when it ends.';
    return { text: [first, ...lines, last].join('\n') };
  }
  const changed = globs ? changedElsewhere(member, repository, globs) : [];
  if (action === 'check') return { text: [checked(member, repository, globs!, label), ...changed].join('\n') };
  if (leases.length === 0) {
    const mine = ownLeases(member, repository).map(({ glob }) => glob);
    return { text: `You hold no lease on that. You hold: ${mine.join(', ') || 'nothing'}.` };
  }
  const named = leases.map(({ glob }) => glob).join(', ');
  if (action === 'release') return { text: `Released: ${named}.` };
  const token = Math.max(...leases.map((lease) => lease.token)) || null;
  const expires_at = new Date(member.runtime.now() + ttlMs).toISOString();
  const from = reclaimed.map(({ glob, holder: other }) => `${glob} of ${nameFor(member, other)}`);
  const text = [
    `${action === 'take' ? 'Taken' : 'Renewed'}: ${named} until ${expires_at}${token === null ? '' : `, token ${token}`}.`,
    ...(from.length > 0 ? [`Reclaimed, because its holder is gone: ${from.join(', ')}.`] : []),
    `It is ${MEANING[label]}.`,
    ...(action === 'take' ? changed : []),
  ];
  return { text: text.join('\n') };
};

function own(member: Member, repository: Repository) {
  const lines = ownLeases(member, repository).map(({ glob, label, expiresAt }) => {
    return `${glob} until ${time(expiresAt)} (${label})`;
  });
  return { text: lines.length === 0 ? 'You hold no leases here.' : ['You hold:', ...lines].join('\n') };
}

function ownLeases(member: Member, repository: Repository) {
  const holder = member.leases.address(member.name);
  return member.leases.held.filter((lease) => lease.holder === holder && lease.repository === repository.id);
}

/** Says of paths that no other agent holds which of them this member holds. */
function checked(member: Member, repository: Repository, globs: readonly string[], label: LeaseLabel): string {
  const mine = ownLeases(member, repository);
  const lines = globs.map((glob) => {
    const held = mine.filter((lease) => overlaps(lease.glob, glob));
    const until = held.map((lease) => `${lease.glob} until ${time(lease.expiresAt)} (${lease.label})`);
    return until.length === 0 ? `${glob}: free (${label})` : `${glob}: yours, ${until.join(', ')}`;
  });
  return lines.join('\n');
}

/** Files there that others have changed and not committed, as far as the radar knows. */
function changedElsewhere(member: Member, { id, root }: Repository, globs: readonly string[]): string[] {
  const own = { folder: root, agents: [member.leases.address(member.name)] };
  const found = member.radar?.changedBy(id, globs, own) ?? [];
  if (found.length === 0) return [];
  const isSandboxed = member.registry.entry(member.name)?.sandboxId !== undefined;
  const lines = found.slice(0, MAX_CHANGED).map(({ place, paths }) => {
    const who = isSandboxed ? 'by others' : placeText(place, (address) => member.names.display(address));
    return `${pathsText(paths)}: changed ${who}, not committed`;
  });
  const more = found.length > lines.length ? [`and in ${found.length - lines.length} more folders`] : [];
  return ['Changed elsewhere, so agree before you edit:', ...lines, ...more];
}

/** A path or glob relative to the repository. */
function globIn({ root }: Repository, path: string): string {
  return normalGlob(isAbsolute(path) ? relative(root, path) : path);
}

function described(member: Member, { glob, lease }: Conflict): string {
  const holder = nameFor(member, lease.holder);
  const until = time(lease.expiresAt);
  const reason = lease.why === '' ? '' : ` (${oneLine(lease.why, 120)})`;
  return `${glob}: ${holder} holds ${oneLine(lease.glob, 200)} until ${until}${reason}`;
}

/** A sandboxed agent does not learn the names of others. */
function nameFor(member: Member, holder: Lease['holder']): string {
  if (member.registry.entry(member.name)?.sandboxId !== undefined) return 'another agent';
  return member.names.display(holder);
}

function time(at: number): string {
  return new Date(at).toISOString();
}
