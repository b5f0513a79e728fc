import { describe, expect, it } from 'vitest';
import { childEnvironment } from './environment.js';

describe('a child’s environment', () => {
  it('has the variables that programs need, and no others of the node', () => {
    const inherited = {
      ...{ PATH: '/bin', HOME: '/home/me', USER: 'me', SHELL: '/bin/sh', TMPDIR: '/tmp', TERM: 'xterm', TZ: 'UTC' },
      ...{ LANG: 'C.UTF-8', LC_ALL: 'C', LC_TIME: 'de_DE' },
    };
    const secrets = { ECLIPTIC_TOKEN: 's', AWS_SECRET_ACCESS_KEY: 's', NODE_OPTIONS: '--inspect', HTTP_PROXY: 'u:p@h' };
    expect(childEnvironment({ ...inherited, ...secrets, path: 'x' }, {}, 'linux')).toEqual(inherited);
  });

  it('has the owner’s additions in place of inherited values', () => {
    const given = { API_KEY: 'k', PATH: '/opt/bin', EMPTY: '', MISSING: undefined };
    expect(childEnvironment({ PATH: '/bin', API_KEY: 'other' }, given, 'linux')).toEqual({
      ...{ PATH: '/opt/bin', API_KEY: 'k', EMPTY: '' },
    });
  });

  it('matches names in any case on Windows', () => {
    const inherited = { Path: 'C:\\bin', SystemRoot: 'C:\\Windows', Token: 's', HOME: 'x' };
    expect(childEnvironment(inherited, {}, 'win32')).toEqual({ Path: 'C:\\bin', SystemRoot: 'C:\\Windows' });
  });
});
