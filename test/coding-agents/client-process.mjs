// A scripted client as a process of its own: it starts `ecliptic mcp` and hooks as its children, as real ones do.
// Each line of its input is a command, each line of its output the result.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const [bin, data, name, client] = process.argv.slice(2);
const server = spawn(process.execPath, [bin, 'mcp', '--as', name, '--no-start', '--data', data], {
  stdio: ['pipe', 'pipe', 'ignore'],
});
const waiting = new Map();
let id = 0;
createInterface({ input: server.stdout }).on('line', (line) => {
  const response = JSON.parse(line);
  waiting.get(response.id)?.(response);
});
const ask = (method, params) =>
  new Promise((resolve) => {
    waiting.set(++id, resolve);
    server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
  });

const ACTIONS = {
  async call({ tool, args }) {
    const { result } = await ask('tools/call', { name: tool, arguments: args });
    return result.content.map(({ text }) => text).join('\n');
  },
  run({ args, input, shell }) {
    const words = [bin, ...args, '--data', data];
    // Clients run hooks in a shell.
    const child = shell
      ? spawn('sh', ['-c', `"$0" "$@"; exit $?`, process.execPath, ...words])
      : spawn(process.execPath, words);
    const out = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr']) child[stream].on('data', (text) => (out[stream] += text));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    return new Promise((resolve) => child.on('close', (code) => resolve({ ...out, code })));
  },
};

await ask('initialize', { protocolVersion: '2025-11-25', clientInfo: { name: client, version: '1' } });
createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const { n, action, ...rest } = JSON.parse(line);
    process.stdout.write(`${JSON.stringify({ n, result: await ACTIONS[action](rest) })}\n`);
  })
  .on('close', () => process.exit(0));
