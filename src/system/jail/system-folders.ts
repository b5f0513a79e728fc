import { lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Mount } from './mounts.js';

const CANDIDATES = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/etc', '/opt', '/nix', '/gnu'];
const MASK_DEPTH = 3;

export interface SystemFolders {
  readonly mounts: readonly Mount[];
  readonly links: ReadonlyMap<string, string>;
  /** Both, without what is masked in them. */
  readonly paths: readonly string[];
}

/**
 * The programs and settings of a Linux system. Files of /etc that are not for everybody are masked: a program of root
 * keeps the right to read them.
 */
export function systemFolders(): SystemFolders {
  const mounts: Mount[] = [];
  const links = new Map<string, string>();
  for (const path of CANDIDATES) {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat?.isSymbolicLink()) links.set(path, readlinkSync(path));
    else if (stat?.isDirectory()) mounts.push({ path, kind: 'read' });
  }
  const paths = [...links.keys(), ...mounts.map(({ path }) => path)];
  return { mounts: [...mounts, ...masks('/etc', MASK_DEPTH)], links, paths };
}

function masks(folder: string, depth: number): Mount[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names.flatMap((name): Mount[] => {
    const path = join(folder, name);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat || stat.isSymbolicLink()) return [];
    const mask = stat.isDirectory() ? 0o005 : 0o004;
    if ((stat.mode & mask) !== mask) return [{ path, kind: stat.isDirectory() ? 'empty' : 'masked' }];
    return stat.isDirectory() && depth > 1 ? masks(path, depth - 1) : [];
  });
}
