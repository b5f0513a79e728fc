/** No program that the repository names runs: neither a hook, nor a monitor, nor a pager, nor another diff. */
const SETTINGS = {
  'core.hooksPath': process.platform === 'win32' ? 'NUL' : '/dev/null',
  'core.fsmonitor': 'false',
  'core.pager': 'cat',
  'core.quotePath': 'false',
  'color.ui': 'false',
  'commit.gpgSign': 'false',
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

/** A question of git for a password would wait for nobody. */
export const GIT_ENVIRONMENT = {
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'true',
  GIT_EDITOR: 'true',
  LC_ALL: 'C',
} as const;
