/**
 * No hook, monitor or pager that the repository names runs, and no program that checks signatures. Programs with names of
 * their own, such as filters, are the matter of repository-settings.ts.
 */
const SETTINGS = {
  'core.hooksPath': process.platform === 'win32' ? 'NUL' : '/dev/null',
  'core.fsmonitor': 'false',
  'core.pager': 'cat',
  'core.quotePath': 'false',
  'color.ui': 'false',
  'commit.gpgSign': 'false',
  'log.showSignature': 'false',
  'merge.verifySignatures': 'false',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'submodule.recurse': 'false',
  'diff.ignoreSubmodules': 'all',
  'advice.detachedHead': 'false',
};
export const GIT_FLAGS: readonly string[] = Object.entries(SETTINGS).flatMap(([name, value]) => [
  '-c',
  `${name}=${value}`,
]);

/** Git must not ask for a password, which no one could answer, nor fetch the objects that a partial clone lacks. */
export const GIT_ENVIRONMENT = {
  GIT_ALLOW_PROTOCOL: 'none',
  GIT_NO_LAZY_FETCH: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'true',
  GIT_EDITOR: 'true',
  LC_ALL: 'C',
} as const;
