/** Where a jailed program's proxy listens, within the jail. */
export const INSIDE_SOCKET = '/run/ecliptic/proxy.sock';
const INSIDE_PORT = 3128;

/** A port of the jail's own loopback, and what a connection to it means. */
export interface InsidePort {
  readonly port: number;
  /** The address that the proxy is asked for; without one, the connection is given to the proxy as it is. */
  readonly target?: string;
}

/**
 * Runs in the jail, which has a network of its own: passes connections to ports of its loopback on to the proxy's socket,
 * then starts the program, and ends as the program does. Signals of the group reach the program itself.
 */
const SCRIPT = `
const net = require('node:net'), { spawn } = require('node:child_process');
const [socket, ports, command, ...args] = process.argv.slice(1);
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => {});
const pass = (target) => (inside) => {
  const outside = net.connect(socket);
  for (const [one, other] of [[inside, outside], [outside, inside]]) one.on('error', () => other.destroy()).on('close', () => other.destroy());
  const join = () => { inside.pipe(outside); outside.pipe(inside); };
  if (!target) return join();
  outside.write('CONNECT ' + target + ' HTTP/1.1\\r\\nhost: ' + target + '\\r\\n\\r\\n');
  let head = '';
  const read = (chunk) => {
    head += chunk.toString('latin1');
    const end = head.indexOf('\\r\\n\\r\\n');
    if (end < 0) return;
    outside.off('data', read);
    if (!head.startsWith('HTTP/1.1 200')) return inside.destroy();
    inside.write(Buffer.from(head.slice(end + 4), 'latin1'));
    join();
  };
  outside.on('data', read);
};
const listen = (port, target) => new Promise((done) => {
  const server = net.createServer({ allowHalfOpen: true }, pass(target));
  server.once('error', (error) => { console.error('jail: port ' + port + ': ' + error.message); done(); });
  server.listen(port, '127.0.0.1', done);
});
Promise.all(JSON.parse(ports).map(({ port, target }) => listen(port, target))).then(() => {
  const child = spawn(command, args, { stdio: 'inherit' });
  child.on('error', (error) => { console.error('jail: ' + command + ': ' + error.message); process.exit(127); });
  child.on('exit', (code, signal) => process.exit(signal ? 128 + require('node:os').constants.signals[signal] : code));
});
`;

/** The command that runs a program behind the forwarder. */
export function forwarderCommand(ports: readonly InsidePort[], program: readonly string[]): string[] {
  const all = [{ port: INSIDE_PORT }, ...ports.filter(({ port }) => port !== INSIDE_PORT)];
  return [process.execPath, '-e', SCRIPT, '--', INSIDE_SOCKET, JSON.stringify(all), ...program];
}

/** How programs learn of their proxy. Addresses of the jail's own loopback are reached directly. */
export function proxyVariables(port = INSIDE_PORT): Record<string, string> {
  const url = `http://127.0.0.1:${port}`;
  const direct = 'localhost,127.0.0.1,::1';
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'].map((name) => [name, url]);
  // Node's own `fetch` asks for it.
  return { ...Object.fromEntries(names), NO_PROXY: direct, no_proxy: direct, NODE_USE_ENV_PROXY: '1' };
}
