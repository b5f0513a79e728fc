import { type Mount, orderMounts } from './mounts.js';

interface SeatbeltInit {
  readonly mounts: readonly Mount[];
  /** TCP ports of this machine that the program may connect to: those of its proxy and of the node's MCP endpoint. */
  readonly ports: readonly number[];
}

/** Folders of macOS that every program needs. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/System', '/Library', '/private/etc', '/opt', '/private/var/db', '/dev'];
/** Services that a program without windows needs. */
const SERVICES = [
  'com.apple.system.opendirectoryd.libinfo',
  'com.apple.system.logger',
  'com.apple.system.notification_center',
];

/** The profile for `sandbox-exec -p`. What is not allowed is denied; of several rules for a path the last one counts. */
export function seatbeltProfile({ mounts, ports }: SeatbeltInit): string {
  const lines = [
    '(version 1)',
    '(deny default)',
    '(allow process-fork process-exec)',
    '(allow signal (target same-sandbox))',
    '(allow process-info* (target same-sandbox))',
    '(allow sysctl-read)',
    `(allow mach-lookup ${SERVICES.map((name) => `(global-name ${quoted(name)})`).join(' ')})`,
    // Paths are resolved through their parents.
    '(allow file-read-metadata)',
    '(allow file-read* (literal "/"))',
    `(allow file-read* ${SYSTEM.map(subpath).join(' ')})`,
    '(allow file-write* (literal "/dev/null") (literal "/dev/tty") (literal "/dev/dtracehelper"))',
  ];
  const elsewhere = mounts.flatMap(({ kind, source = [] }) => (kind === 'write' ? source : []));
  for (const mount of orderMounts(mounts)) lines.push(...fileRules(mount));
  for (const source of elsewhere) lines.push(`(allow file-read* file-write* ${subpath(source)})`);
  for (const port of ports) lines.push(`(allow network-outbound (remote ip "localhost:${port}"))`);
  return `${lines.join('\n')}\n`;
}

/** There are no private mounts: what another folder would stand for is denied, and that folder has its own name. */
function fileRules({ path, kind, source }: Mount): string[] {
  const where = subpath(path);
  if (kind === 'empty' || kind === 'masked' || (kind === 'write' && source !== undefined))
    return [`(deny file-read* file-write* ${where})`];
  return [`(allow file-read* ${where})`, `(${kind === 'write' ? 'allow' : 'deny'} file-write* ${where})`];
}

function subpath(path: string): string {
  return `(subpath ${quoted(path)})`;
}

function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, (character) => `\\${character}`)}"`;
}
