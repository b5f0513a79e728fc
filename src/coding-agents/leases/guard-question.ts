import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { literalGlob } from './glob.js';
import type { Leases } from './leases.js';

/** A guard asks whether somebody else holds the files that its client is about to write. */
export interface GuardQuestion {
  readonly client: string;
  readonly folder: string;
  readonly paths: readonly string[];
  /** The guard's process and those that it came from, the nearest first. */
  readonly ancestors: readonly number[];
  /** Is it part of the client's own work? A commit may be anybody's. */
  readonly proves: boolean;
}

export interface Denial {
  readonly path: string;
  readonly holder: string;
  readonly glob: string;
  readonly until: string;
  readonly why: string;
}

/** Who else holds these files. */
export async function askGuard(leases: Leases, { paths, proves, ...from }: GuardQuestion): Promise<Denial[]> {
  const checkout = real(from.folder);
  const { names, certain } = leases.participants.spokenForBy({ ...from, checkout });
  if (proves && certain) leases.proveGuard(names[0]!);
  const own = new Set(names.map((name) => leases.address(name)));
  const wanted = new Map<string, { id: string; glob: string; path: string }[]>();
  for (const path of paths) {
    const file = real(resolve(from.folder, path));
    const repository = await leases.repositoryAt(existing(dirname(file)));
    const within = relative(repository.root, file);
    if (within === '' || within === '..' || within.startsWith(`..${sep}`)) continue;
    const one = { id: path, glob: literalGlob(within), path };
    wanted.set(repository.id, [...(wanted.get(repository.id) ?? []), one]);
  }
  const denials: Denial[] = [];
  for (const [repository, files] of wanted) {
    const holder = [...own][0] ?? leases.address('');
    const check = { kind: 'check', holder, wanted: files, ttlMs: 1, why: '' } as const;
    const { outcome } = await leases.operate(repository, check);
    for (const { glob, lease } of outcome.conflicts) {
      if (own.has(lease.holder)) continue;
      const path = files.find((file) => file.glob === glob)!.path;
      const until = new Date(lease.expiresAt).toISOString();
      denials.push({ path, holder: lease.holder, glob: lease.glob, until, why: lease.why });
    }
  }
  return denials;
}

/** What a model, or a person, reads when a guard says no. */
export function reasonFor(denials: readonly Denial[]): string {
  const lines = denials.slice(0, 10).map(({ path, holder, glob, until, why }) => {
    return `${path}: ${holder} holds ${glob} until ${until}${why && ` (${why})`}`;
  });
  const more = denials.length > lines.length ? [`and ${denials.length - lines.length} more`] : [];
  const advice =
    'Do not change it in another way. Work elsewhere, ask the holder with mesh_send, or take it with mesh_lease when it is free.';
  return ['Reserved by another agent:', ...lines, ...more, advice].join('\n');
}

/** The path without links, also of a file that is not there yet. */
function real(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(path);
  return folder === path ? path : join(real(folder), basename(path));
}

function existing(folder: string): string {
  const above = dirname(folder);
  return existsSync(folder) || above === folder ? folder : existing(above);
}
