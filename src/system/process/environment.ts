/** A process's environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What a program needs to find its way around, and what tells it nothing about this node. */
const POSIX = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'LANG', 'LANGUAGE'];
const WINDOWS = [
  ...['PATH', 'PATHEXT', 'COMSPEC', 'SYSTEMROOT', 'SYSTEMDRIVE', 'PROGRAMFILES', 'PROCESSOR_ARCHITECTURE'],
  ...['USERNAME', 'USERPROFILE', 'HOMEDRIVE', 'HOMEPATH', 'APPDATA', 'LOCALAPPDATA', 'TEMP', 'TMP'],
];

/**
 * The environment of a child: a short list of harmless variables, and what its owner gives it. Nothing else is
 * inherited, because a node's environment may hold tokens that are none of the child's business.
 */
export function childEnvironment(
  inherited: Environment,
  additions: Environment = {},
  platform: NodeJS.Platform = process.platform,
): Record<string, string> {
  const windows = platform === 'win32';
  const names = new Set(windows ? WINDOWS : POSIX);
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(inherited)) {
    const known = windows ? names.has(name.toUpperCase()) : names.has(name) || name.startsWith('LC_');
    if (known && value !== undefined) environment[name] = value;
  }
  for (const [name, value] of Object.entries(additions)) {
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}
