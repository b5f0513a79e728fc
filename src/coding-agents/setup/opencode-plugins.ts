import { type Entry, invalid, type ServerCommand } from './entries.js';

const OURS = '// Made by: ecliptic setup';

/** A plugin file for opencode that lets mail wake its sessions. */
export const wakePluginEntry: Entry = pluginEntry(wakePlugin);
/** A plugin file for opencode that asks before a tool writes files. */
export const guardPluginEntry: Entry = pluginEntry(guardPlugin);

function pluginEntry(write: (server: ServerCommand) => string): Entry {
  return {
    set(text, server) {
      if (text !== undefined && text.trim() !== '' && !text.startsWith(OURS)) {
        throw invalid('there is another plugin of that name; rename it first');
      }
      return write(server);
    },
    remove: () => undefined,
  };
}

/**
 * opencode itself listens only when its user chose a port, so the plugin listens for it, behind a password that only
 * the node gets. Sessions that an agent opened for a part of its work (`parts`) are not woken.
 */
function wakePlugin({ command, args }: ServerCommand): string {
  const [program, ...rest] = args;
  const words = [program, 'hook', '--client', 'opencode', '--event', 'session', ...rest];
  return `${OURS} --hooks
// It tells the Ecliptic node of this machine where a session is reached, so that mail can wake it.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

export const Ecliptic = async ({ client, directory }) => {
  const parts = new Set();
  const password = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex');
  const authorization = \`Basic \${Buffer.from(\`opencode:\${password}\`).toString('base64')}\`;
  let version;
  const answer = async (method, url, body) => {
    const [, id, action] = /^\\/session\\/([\\w-]{1,100})(\\/prompt_async)?$/.exec(url) ?? [];
    if (method === 'GET' && url === '/global/health') return [200, { version }];
    if (method === 'GET' && id && !action) return [(await client.session.get({ path: { id } })).data ? 200 : 404, {}];
    if (method !== 'POST' || !action) return [404, {}];
    const { error } = await client.session.promptAsync({ path: { id }, body: JSON.parse(body) });
    return [error ? 502 : 204];
  };
  const server = createServer(async (request, response) => {
    const end = (status, value) => response.writeHead(status).end(value && JSON.stringify(value));
    if (request.headers.authorization !== authorization) return end(401);
    try {
      let body = '';
      for await (const chunk of request) if ((body += chunk).length > 65536) return end(413);
      end(...(await answer(request.method, request.url, body)));
    } catch {
      end(500);
    }
  });
  server.on('error', () => {});
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  server.unref();
  const tell = async (sessionID) => {
    const { data } = await client.session.get({ path: { id: sessionID } });
    version = data?.version;
    const env = { ...process.env, OPENCODE_SERVER_USERNAME: 'opencode', OPENCODE_SERVER_PASSWORD: password };
    const child = spawn(${JSON.stringify(command)}, ${JSON.stringify(words)}, { stdio: ['pipe', 'ignore', 'ignore'], env });
    child.on('error', () => {});
    child.stdin.on('error', () => {});
    const serverUrl = \`http://127.0.0.1:\${server.address().port}\`;
    child.stdin.end(JSON.stringify({ sessionID, serverUrl, cwd: directory }));
  };
  return {
    event: async ({ event }) => {
      const { info, sessionID } = event.properties ?? {};
      if (event.type === 'session.created' && info?.parentID) parts.add(info.id);
      else if (event.type === 'session.created' && info) await tell(info.id);
      else if (event.type === 'session.deleted' && info) parts.delete(info.id);
      else if (event.type === 'session.idle' && !parts.has(sessionID)) await tell(sessionID);
    },
  };
};
`;
}

/** The guard's exit code 2 denies, and its standard error says why. Any other end allows. */
function guardPlugin({ command, args }: ServerCommand): string {
  const [program, ...rest] = args;
  const words = [program, 'guard', '--client', 'opencode', ...rest];
  return `${OURS} --guard
// It asks the Ecliptic node of this machine before a tool writes files or runs git, where another agent may be at work.
import { spawn } from 'node:child_process';

const ASKS = ['edit', 'write', 'multiedit', 'patch', 'apply_patch', 'bash'];

export const EclipticGuard = async ({ directory }) => ({
  'tool.execute.before': async ({ tool }, { args }) => {
    if (!ASKS.includes(tool)) return;
    if (tool === 'bash' && !/\\bgit\\b/.test(args.command)) return;
    const reason = await new Promise((resolve) => {
      const child = spawn(${JSON.stringify(command)}, ${JSON.stringify(words)}, { stdio: ['pipe', 'ignore', 'pipe'], timeout: 5000 });
      let said = '';
      child.stderr.on('data', (chunk) => { said += chunk; });
      child.stdin.on('error', () => {});
      child.on('error', () => resolve());
      child.on('close', (code) => resolve(code === 2 ? said : undefined));
      child.stdin.end(JSON.stringify({ tool_name: tool, tool_input: args, cwd: directory }));
    });
    if (reason !== undefined) throw Error(reason);
  },
});
`;
}
