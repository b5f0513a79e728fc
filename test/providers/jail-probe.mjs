import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** Tries to leave its jail, and answers in the way of `exec`, of `command` or of an MCP server. */
const [mode, wanted] = process.argv.slice(2);
const { write, read, sockets, ports, pid } = JSON.parse(wanted);

function attempt(work) {
  try {
    work();
    return 'done';
  } catch ({ code }) {
    return code;
  }
}

function reach(where) {
  return new Promise((resolve) => {
    const socket = connect(where, () => {
      socket.destroy();
      resolve('done');
    });
    socket.on('error', ({ code }) => resolve(code));
  });
}

const all = async (list, work) =>
  Object.fromEntries(await Promise.all(list.map(async (one) => [one, await work(one)])));

async function report() {
  return {
    write: await all(write, (path) => attempt(() => writeFileSync(path, 'written by the probe'))),
    read: await all(read, (path) => attempt(() => readFileSync(path))),
    sockets: await all(sockets, reach),
    ports: await all(ports, (port) => reach({ host: '127.0.0.1', port })),
    signal: attempt(() => process.kill(pid, 0)),
    processes: readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length,
  };
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const modes = {
  exec: async () => console.log(JSON.stringify(await report())),
  command: () =>
    createInterface({ input: process.stdin }).on('line', async (line) => {
      const { type, id } = JSON.parse(line);
      if (type === 'hello') say({ type: 'ready', protocol: 1, name: 'probe', heartbeat: true });
      else if (type === 'health') say({ type: 'health', id, state: 'healthy' });
      else if (type === 'execute') say({ type: 'result', id, result: await report() });
    }),
  mcp: () =>
    createInterface({ input: process.stdin }).on('line', async (line) => {
      const { id, method } = JSON.parse(line);
      if (id === undefined) return;
      const results = {
        initialize: () => ({
          ...{ protocolVersion: '2025-11-25', capabilities: { tools: {} } },
          serverInfo: { name: 'probe', version: '1' },
        }),
        'tools/list': () => ({ tools: [{ name: 'probe', inputSchema: { type: 'object' } }] }),
        'tools/call': async () => ({ content: [{ type: 'text', text: JSON.stringify(await report()) }] }),
      };
      say({ jsonrpc: '2.0', id, result: (await results[method]?.()) ?? {} });
    }),
};

await modes[mode]();
