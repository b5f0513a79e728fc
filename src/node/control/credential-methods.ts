import { DEFAULT_CREDENTIAL, DEFAULT_WORKSPACE } from '../../system/secrets/credential-source.js';
import type { Credentials } from '../../system/secrets/credentials.js';
import type { Place } from '../../system/secrets/sealing.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** The owner's operations on credentials. Values go in, and never come out. */
export function credentialMethods(credentials: Credentials): Readonly<Record<string, ControlMethod>> {
  return {
    'credentials.set'(params) {
      const read = new Params(params);
      return credentials.set(placeIn(read), read.string('value'));
    },
    'credentials.rotate'(params) {
      const read = new Params(params);
      const { graceMs } = read.optional({ graceMs: 'number' });
      return credentials.rotate(placeIn(read), read.string('value'), graceMs);
    },
    'credentials.revoke'(params) {
      return credentials.revoke(placeIn(new Params(params)));
    },
    'credentials.list'(params) {
      const { provider, workspace } = new Params(params).optional({ provider: 'string', workspace: 'string' });
      return credentials.list(provider, workspace);
    },
  };
}

function placeIn(read: Params): Place {
  const { name = DEFAULT_CREDENTIAL, workspace = DEFAULT_WORKSPACE } = read.optional({
    name: 'string',
    workspace: 'string',
  });
  return { provider: read.string('provider'), workspace, name };
}
