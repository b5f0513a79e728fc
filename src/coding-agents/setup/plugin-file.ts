import { EclipticError } from '../../runtime/errors.js';
import type { Entry, ServerCommand } from './client.js';

const OURS = '// Made by: ecliptic setup --hooks';

/** A plugin for opencode, a file of its own: it tells the node where each session is reached, so that mail can wake it. */
export const opencodePlugin: Entry = {
  set(text, server) {
    if (text !== undefined && text.trim() !== '' && !text.startsWith(OURS)) {
      throw new EclipticError('INVALID_CONFIG', 'there is another plugin of that name; rename it first');
    }
    return plugin(server);
  },
  remove: () => undefined,
};

/** Sessions that an agent opened for a part of its work are nobody's to wake. */
function plugin({ command, args }: ServerCommand): string {
  const [program, ...rest] = args;
  const words = [program, 'hook', '--client', 'opencode', '--event', 'session', ...rest];
  return `${OURS}
// It tells the Ecliptic node of this machine where a session is reached, so that mail can wake it.
import { spawn } from 'node:child_process';

export const Ecliptic = async (context) => {
  const parts = new Set();
  const tell = (sessionID) => {
    const child = spawn(${JSON.stringify(command)}, ${JSON.stringify(words)}, {
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    child.on('error', () => {});
    child.stdin.on('error', () => {});
    child.stdin.end(JSON.stringify({ sessionID, serverUrl: String(context.serverUrl), cwd: context.directory }));
  };
  return {
    event: async ({ event }) => {
      const { info, sessionID } = event.properties ?? {};
      if (event.type === 'session.created' && info?.parentID) parts.add(info.id);
      else if (event.type === 'session.created' && info) tell(info.id);
      else if (event.type === 'session.deleted' && info) parts.delete(info.id);
      else if (event.type === 'session.idle' && !parts.has(sessionID)) tell(sessionID);
    },
  };
};
`;
}
