import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import type { Git } from '../../system/git/git.js';

export interface Repository {
  /** The same in every checkout. */
  readonly id: string;
  readonly name: string;
  /** The folder that paths are relative to. */
  readonly root: string;
  /** The id that earlier versions gave it, if that was another one. */
  readonly formerId?: string;
}

export type Identify = (folder: string) => Promise<Repository>;

const GIT_MS = 10_000;
const MAX_KNOWN = 1_000;

/**
 * Identifies a repository by the URL of its remote, which a shallow clone has too. A path says less: the same one may be
 * another repository on another device, so the first commit counts too there, and where there is no remote. A folder
 * without git is its own repository.
 */
export function gitIdentity(git: Git, nodeKey: string): Identify {
  const known = new Map<string, Promise<Repository>>();
  return (folder) => {
    let found = known.get(folder);
    if (!found) {
      if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value!);
      found = identify(git, nodeKey, folder);
      known.set(folder, found);
      found.catch(() => known.delete(folder));
    }
    return found;
  };
}

async function identify(using: Git, nodeKey: string, folder: string): Promise<Repository> {
  const git = (...args: string[]) => run(using, folder, args);
  const root = (await git('rev-parse', '--show-toplevel'))?.[0];
  if (!root) return plainFolder(nodeKey, folder);
  const remotes = (await git('remote')) ?? [];
  const remote = remotes.includes('origin') ? 'origin' : remotes[0];
  const origin = remote === undefined ? '' : ((await git('remote', 'get-url', remote))?.[0] ?? '');
  const url = normalRemote(origin);
  const first = await firstCommit(git);
  // Without commit and remote there is nothing that another checkout would share.
  if (first === '' && url === '') return plainFolder(nodeKey, root);
  const about = { name: basename(url || root), root: real(root) };
  const formerId = digest(`git\n${first}\n${url}`);
  if (isOnHost(origin)) {
    const id = digest(`git\n\n${url}`);
    return id === formerId ? { id, ...about } : { id, ...about, formerId };
  }
  const isShallow = (await git('rev-parse', '--is-shallow-repository'))?.[0] === 'true';
  if (!isShallow || origin === '') return { id: formerId, ...about };
  // The oldest commit that a shallow clone has is not the first one, which its origin on this machine knows.
  const at = resolve(root, origin.replace(/^file:\/\//, ''));
  const known = await firstCommit((...args) => run(using, at, args));
  return { id: known === '' ? formerId : digest(`git\n${known}\n${url}`), ...about };
}

async function firstCommit(git: (...args: string[]) => Promise<string[] | undefined>): Promise<string> {
  return (await git('rev-list', '--max-parents=0', 'HEAD'))?.at(-1) ?? '';
}

/** Does the URL of a remote name a host, and not a path? One letter before a colon is a drive. */
function isOnHost(url: string): boolean {
  return /^(?!file:)[a-z][a-z\d+.-]*:\/\//i.test(url) || /^[^/:]{2,}:(?!\/\/)/.test(url);
}

export function plainFolder(nodeKey: string, folder: string): Repository {
  const root = real(folder);
  return { id: digest(`folder\n${nodeKey}\n${root}`), name: basename(root), root };
}

/** A remote URL as `host/owner/name`, without protocol and credentials. */
export function normalRemote(url: string): string {
  const text = url
    .trim()
    .toLowerCase()
    .replace(/\/+$/, '')
    .replace(/\.git$/, '');
  const short = /^(?:[^@/:]+@)?([^/:]+):(?!\/\/)(.+)$/.exec(text);
  const long = /^[a-z+]+:\/\/(?:[^@/]*@)?([^/:]*)(?::\d+)?\/(.+)$/.exec(text);
  const found = long ?? (/^[a-z]:/.test(text) ? null : short);
  return found ? `${found[1]}/${found[2]!.replace(/^\/+/, '')}` : text;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function real(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return resolve(folder);
  }
}

/** The lines that git prints; undefined when git fails or is missing. */
async function run(git: Git, folder: string, args: readonly string[]): Promise<string[] | undefined> {
  try {
    const { code, stdout } = await git.result({ folder }, args, { timeoutMs: GIT_MS });
    return code === 0 ? stdout.split(/\r?\n/).filter((line) => line !== '') : undefined;
  } catch (error) {
    if (error instanceof EclipticError && error.code === 'GIT_REQUIRED') return undefined;
    throw error;
  }
}
