import type { DiscoveryStatus } from '../network/discovery/discovery.js';
import type { NatsConnection } from './connection.js';
import type { Presence } from './presence.js';

const KEY_HINT =
  'its configuration does not name this node: run `ecliptic nats key` here, and `ecliptic nats allow NODE:NKEY` on a member';
const PASSWORD_HINT = 'it refuses the user or the password that the configuration of this node gives';
const AWAY_HINT = 'start the server, or name another with: ecliptic up --nats URL';
const JETSTREAM_HINT = 'start it with `-js`, or with `jetstream {}` in its configuration';

/** What `doctor` says about the broker. `found`: what the discovery knows, once this node is in a mesh. */
export function brokerStatus(
  { connection, presence }: { connection: NatsConnection; presence: Presence },
  found?: { members: number; failure: string | undefined },
): DiscoveryStatus {
  const { info, failure, gaps, servers } = connection;
  if (!info) {
    const hint = !connection.isRefused ? AWAY_HINT : connection.hasPassword ? PASSWORD_HINT : KEY_HINT;
    return { kind: 'nats', working: false, detail: `${servers.join(', ')} cannot be reached: ${failure}; ${hint}` };
  }
  const server = `${connection.core.getServer()} (NATS ${info.version})`;
  const details = [found ? `${server}, other members connected to it: ${found.members}` : server];
  if (presence.doubled) details.push('another process runs with this node’s key');
  if (presence.failure !== undefined) details.push(`its streams cannot be used: ${presence.failure}`);
  if (presence.failure !== undefined && info.jetstream !== true) details.push(JETSTREAM_HINT);
  if (found?.failure !== undefined) details.push(found.failure);
  const working = !presence.doubled && presence.failure === undefined;
  return { kind: 'nats', working, detail: details.join('; '), gaps };
}
