import { type Mount, orderMounts } from './mounts.js';

/** What the kernel lets bubblewrap do. */
export interface BwrapAbilities {
  /** A /proc of the jail's own. A container may refuse it; the jail then has none. */
  readonly proc: boolean;
  /** No further user namespaces within the jail. */
  readonly noNestedUsers: boolean;
}

interface BwrapInit {
  readonly abilities: BwrapAbilities;
  readonly mounts: readonly Mount[];
  /** Links of the system's root, such as /bin to usr/bin. */
  readonly links: ReadonlyMap<string, string>;
  readonly folder: string;
}

/**
 * Own namespaces for users, processes, IPC, names and network; no capabilities. Bubblewrap itself sets `no_new_privs`, and
 * mounts everything without setuid programs and devices.
 */
const NAMESPACES = [
  ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-net', '--unshare-cgroup-try'],
  ...['--die-with-parent', '--cap-drop', 'ALL', '--hostname', 'jail'],
];

/** Arguments of bubblewrap; the program follows. */
export function bwrapArgs({ abilities, mounts, links, folder }: BwrapInit): string[] {
  const args = [...NAMESPACES];
  if (abilities.noNestedUsers) args.push('--disable-userns');
  for (const [path, target] of links) args.push('--symlink', target, path);
  args.push('--dev', '/dev');
  // A program of root may write settings of the kernel there, also without capabilities.
  if (abilities.proc) args.push('--proc', '/proc', '--remount-ro', '/proc');
  for (const mount of orderMounts(mounts)) args.push(...mountArgs(mount));
  // The root folder itself is a private one.
  args.push('--remount-ro', '/', '--chdir', folder, '--');
  return args;
}

function mountArgs({ path, kind, source = path }: Mount): string[] {
  switch (kind) {
    case 'empty':
      return ['--tmpfs', path];
    case 'masked':
      return ['--ro-bind', '/dev/null', path];
    case 'read':
      return ['--ro-bind', source, path];
    case 'write':
      return ['--bind', source, path];
  }
}
