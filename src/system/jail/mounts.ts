import { sep } from 'node:path';

/** One path of the file system in a jail. */
export interface Mount {
  readonly path: string;
  /** `empty`: a private folder that ends with the jail. `masked`: a file that cannot be read. */
  readonly kind: 'empty' | 'masked' | 'read' | 'write';
  /** What is shown at the path. Default: the same path of the machine. */
  readonly source?: string;
}

const RANK = { masked: 0, empty: 1, read: 2, write: 3 } as const;

/** In the order of mounting: a deeper path comes later and wins; of the same path the more generous one. */
export function orderMounts(mounts: readonly Mount[]): Mount[] {
  const byPath = new Map<string, Mount>();
  for (const mount of mounts) {
    const other = byPath.get(mount.path);
    if (!other || RANK[mount.kind] > RANK[other.kind]) byPath.set(mount.path, mount);
  }
  const depth = ({ path }: Mount) => path.split(sep).length;
  return [...byPath.values()].sort((a, b) => depth(a) - depth(b));
}

/** Is `path` the folder, or inside it? */
export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** Paths to hide: only those that another mount would show. */
export function hiddenMounts(hidden: readonly string[], shown: readonly Mount[]): Mount[] {
  const isShown = (path: string) =>
    shown.some((mount) => (mount.kind === 'read' || mount.kind === 'write') && isWithin(path, mount.path));
  return hidden.filter(isShown).map((path) => ({ path, kind: 'empty' }));
}
