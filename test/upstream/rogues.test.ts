import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findProcesses } from '../../src/system/process/process-table.js';
import { lives, runtime, tool, Upstreaming, until } from './harness.js';

const GOOD = { tools: [tool('echo')] };

/** The common beginning of all programs of these tests: it reads requests and answers them. */
const PRELUDE = `
const out = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const answer = (id, result) => out({ id, result });
const capabilities = { tools: { listChanged: true } };
const hello = { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'rogue', version: '1' } };
const tool = (name) => ({ name, inputSchema: { type: 'object' } });
let tools = [tool('work')];
let call = () => {};
const handle = ({ id, method, params }) => {
  if (method === 'initialize') answer(id, hello);
  else if (method === 'tools/list') answer(id, { tools });
  else if (method === 'tools/call') call(id, params);
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => handle(JSON.parse(line)));
`;

/** Programs that harm, and how they are named. */
const ROGUES: Record<string, { code: string; state: string; says: RegExp }> = {
  'hangs at its start': {
    code: 'process.stdin.resume(); setInterval(() => {}, 1000)',
    state: 'starting|backing-off',
    says: /was not ready within 1000 ms/,
  },
  'ends at its start': {
    code: 'console.error("no licence"); process.exit(7)',
    state: 'backing-off|starting',
    says: /code 7; it said: no licence/,
  },
  'never answers a call': { code: PRELUDE, state: 'running', says: /null/ },
  'floods its output': {
    code: `${PRELUDE} let n = 0; const flood = () => { for (let i = 0; i < 5000; i++) out({ method: 'notifications/message', params: { level: 'info', data: 'x'.repeat(200) } }); setImmediate(flood); }; call = () => {}; setTimeout(flood, 300);`,
    state: 'running',
    says: /floods/,
  },
  'floods its stderr': {
    code: `${PRELUDE} const flood = () => { process.stderr.write('x'.repeat(65536) + '\\n'); setImmediate(flood); }; setTimeout(flood, 300);`,
    state: 'running',
    says: /null/,
  },
  'writes rubbish': {
    code: `${PRELUDE} setTimeout(() => setInterval(() => console.log('not json'.repeat(10)), 0), 300)`,
    state: 'running|backing-off|starting',
    says: /no MCP messages/,
  },
  'lists without end': {
    code: `${PRELUDE} const before = handle; require('readline').createInterface({ input: process.stdin }).on('line', (line) => { const { id, method } = JSON.parse(line); if (method === 'tools/list') answer(id, { tools: Array.from({ length: 100 }, (_, i) => tool('t' + Math.random().toString(36).slice(2) + i)), nextCursor: 'more' }); })`.replace(
      "else if (method === 'tools/list') answer(id, { tools });",
      '',
    ),
    state: 'running',
    says: /tools\/list has more than the 2000 entries that are taken/,
  },
  'writes a line without end': {
    code: `${PRELUDE} const flood = () => process.stdout.write('x'.repeat(1 << 20), flood); setTimeout(flood, 300)`,
    state: 'backing-off|starting|running',
    says: /a line is longer than/,
  },
  'says that its tools change all the time': {
    code: `${PRELUDE} setTimeout(() => setInterval(() => out({ method: 'notifications/tools/list_changed' }), 1), 300)`,
    state: 'running',
    says: /null/,
  },
};

let here: Upstreaming;

beforeEach(async () => {
  here = await Upstreaming.start();
});

afterEach(async () => {
  const folder = here.folder;
  await here.end();
  expect(here.children.size).toBe(0);
  expect(await ours(folder)).toEqual([]);
});

/** Processes whose arguments name the folder. */
async function ours(folder: string): Promise<number[]> {
  const { readdirSync, readFileSync } = await import('node:fs');
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder);
      } catch {
        return false;
      }
    })
    .map(Number);
}

describe.each(Object.entries(ROGUES))('a server that %s [UP3]', (_, { code, state, says }) => {
  it('does not affect others, and is listed with its state', async () => {
    here.addProgram('rogue', code, { restart: { startMs: 1_000 } });
    here.addStdio('good', GOOD);
    await here.running('good');
    // The harm begins some hundred milliseconds after its start.
    for (let n = 0; n < 120; n++) {
      void here.call('rogue.work', {}, { timeoutMs: 200 }).catch(() => {});
      expect(await here.value('good.echo', { n })).toMatchObject({ args: { n } });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(here.log('good').filter((line) => line.startsWith('start'))).toHaveLength(1);
    expect(here.node.providers.get('mcp/good')).toMatchObject({ state: 'healthy', completed: 120, failed: 0 });
    await until(() => {
      const { state: found, reason, problems } = here.status('rogue');
      return new RegExp(state).test(found) && says.test(`${reason} ${problems.join(' ')}`);
    });
    expect(here.tools()).toContain('good.echo');
  });
});

describe('a server', () => {
  it('that dies during a call gives a typed error at once', async () => {
    here.addProgram('rogue', `${PRELUDE} call = () => process.kill(process.pid, 'SIGKILL')`);
    await here.running('rogue');
    const started = Date.now();
    await expect(here.call('rogue.work')).rejects.toMatchObject({
      code: 'PROVIDER_CRASHED',
      details: { agent: 'rogue', outcome: 'unknown' },
    });
    expect(Date.now() - started).toBeLessThan(2_000);
  });

  it('that closes its output is restarted', async () => {
    here.addProgram(
      'rogue',
      `${PRELUDE} let n = 0; call = (id) => (n++ ? require('fs').closeSync(1) : answer(id, { content: [] }))`,
    );
    await here.running('rogue');
    const codes = new Set<string>();
    await until(() => {
      void here.call('rogue.work', {}, { timeoutMs: 5_000 }).then(
        () => codes.add('fine'),
        ({ code }) => codes.add(code),
      );
      return codes.size > 1 && codes.has('fine');
    });
    expect([...codes].filter((code) => !/^PROVIDER_(CRASHED|UNAVAILABLE)$/.test(code))).toEqual(['fine']);
  });

  it('may have a limited number of open calls, so that others are not starved', async () => {
    here.addProgram('rogue', PRELUDE);
    await here.running('rogue');
    const calls = Array.from({ length: 101 }, () => here.call('rogue.work', {}, { timeoutMs: 500 }));
    const codes = (await Promise.allSettled(calls)).map((one) =>
      one.status === 'rejected' ? one.reason.code : 'fine',
    );
    expect(codes.filter((code) => code === 'PROVIDER_CONCURRENCY_EXCEEDED')).toHaveLength(1);
    expect(codes.filter((code) => code === 'REQUEST_TIMEOUT')).toHaveLength(100);
  });

  it('loses one definition that cannot be offered, and not the others [UP6]', async () => {
    const tools = [
      tool('fine'),
      tool('not a name'),
      { name: 'no-schema' },
      tool('hidden', { inputSchema: { type: 'object', properties: { mode: { enum: ['a\u200bb'] } } } }),
      tool('marked', { description: 'be\u202e good\u{e0041}\u{e0042} and\u0007 kind\nalways' }),
    ];
    here.addStdio('up', { tools, templates: [{ uriTemplate: 'x://{?query}', name: 'odd' }] });
    await here.running('up');
    expect(here.tools()).toEqual(['up.fine', 'up.marked']);
    expect(here.node.mcp.catalogue.get('up', 'tool', 'marked')!.definition.description).toBe(
      'be\ufffd good\ufffd and\ufffd kind\nalways',
    );
    const { problems } = here.status('up');
    expect(problems).toHaveLength(4);
    expect(problems.join('\n')).toMatch(
      /"not a name" is left out.*\n.*"no-schema".*\n.*"odd".*\n.*hidden characters in inputSchema.properties.mode.enum.0/,
    );
  });

  it('and its descendants are gone when it is stopped', async () => {
    const inner = `require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' })`;
    here.addProgram(
      'parent',
      `${PRELUDE} const child = ${inner}; call = (id) => answer(id, { content: [{ type: 'text', text: JSON.stringify([process.pid, child.pid]) }] })`,
    );
    await here.running('parent');
    const pids: number[] = await here.value('parent.work');
    expect(pids.every(lives)).toBe(true);
    await here.upstreams.close();
    await until(() => !pids.some(lives));
    expect(await findProcesses(runtime, { groups: pids })).toEqual([]);
  });
});

describe('starting and stopping servers [UP7]', () => {
  const cycles = process.env.ECLIPTIC_SOAK === '1' ? 1_000 : 25;

  it(`${cycles} times under load leaves no process behind`, async () => {
    here.addStdio('steady', GOOD);
    await here.running('steady');
    let busy = true;
    let calls = 0;
    const load = (async () => {
      while (busy) {
        await here.call('steady.echo', { n: calls++ });
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    })();
    const pids: number[] = [];
    const noting = `${PRELUDE} call = (id) => answer(id, { content: [{ type: 'text', text: String(process.pid) }] });`;
    for (let cycle = 0; cycle < cycles; cycle++) {
      const other = await Upstreaming.start();
      other.addProgram('brief', noting);
      // Some are stopped before they are ready, others in the middle of a call.
      if (cycle % 3 !== 0) {
        await other.running('brief');
        pids.push(await other.value('brief.work'));
      } else if (cycle % 2 === 0) await new Promise((resolve) => setTimeout(resolve, (cycle * 7) % 60));
      await other.end();
      expect(other.children.size).toBe(0);
    }
    busy = false;
    await load;
    expect(calls).toBeGreaterThan(cycles);
    expect(pids.filter(lives)).toEqual([]);
  });
});
