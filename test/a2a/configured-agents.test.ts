import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AgentSkill } from '../../src/a2a/protocol/types.js';
import { createNode } from '../../src/node/compose.js';
import type { Config } from '../../src/node/config/schema.js';
import { Host } from '../../src/node/host.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';

let folder: string;
let host: Host | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-configured-'));
  writeFileSync(
    join(folder, 'worker.mjs'),
    "export const setup = (agent) => agent.onTask(({ text }) => agent.id + ' did ' + text);",
  );
  writeFileSync(
    join(folder, 'tools.mjs'),
    "export const setup = (agent) => agent.tool('count_files', { description: 'Counts.' }, () => 3);",
  );
});

afterEach(async () => {
  await host?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Starts the node of that configuration, in place of the one before. */
async function start(agents: Config['agents']): Promise<void> {
  await host?.stop();
  const loaded = { config: { network: { dht: false }, agents }, file: undefined, folder };
  const dataFolder = join(folder, 'data');
  host = await Host.start({ runtime: systemRuntime(), loaded, dataFolder, env: {}, http: { port: 0, open: true } });
}

async function send(message: string, more: object = {}, url = host!.gateway.url): Promise<string> {
  const answer = await fetch(`${url}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: { messageId: `m-${message}`, role: 'ROLE_USER', parts: [{ text: message }] }, ...more },
    }),
  });
  return answer.text();
}

async function skills(path = '/.well-known/agent-card.json'): Promise<readonly AgentSkill[]> {
  const answer = await fetch(`${host!.gateway.url}${path}`, { headers: { 'A2A-Version': '1.0' } });
  return ((await answer.json()) as { skills: AgentSkill[] }).skills;
}

const worker = { module: './worker.mjs' };

describe('an unaddressed task', () => {
  it('goes to the agent whose project the configuration names, else to its first agent, also in an old folder [T-D7]', async () => {
    await start({});
    expect(await send('early')).toContain('NO_WORKER');
    await start({ coder: worker, reviewer: worker });
    expect(await send('one')).toContain('coder did one');
    await start({ coder: worker, reviewer: { ...worker, project: 'web' } });
    expect(await send('two')).toContain('reviewer did two');
    await start({ coder: { ...worker, project: 'api' }, reviewer: worker });
    expect(await send('three')).toContain('coder did three');
    await start({ toolbox: { module: './tools.mjs', project: 'web' }, reviewer: worker });
    expect(await send('four')).toContain('reviewer did four');
  });
});

describe('an unaddressed task of a program that embeds a node with a store', () => {
  it('goes to the first agent that takes tasks, whichever agent the program made first [T-D7]', async () => {
    const node = await createNode({ store: new MemoryStore() });
    try {
      node.agent({ id: 'sun' }).onNotification(() => {});
      node.agent({ id: 'mars' }).onTask(({ text }) => `mars did ${text}`);
      const { url } = await node.serve({ port: 0, open: true });
      expect(await send('it', {}, url)).toContain('mars did it');
    } finally {
      await node.stop();
    }
  });
});

describe('the skills on A2A cards', () => {
  it('are the tools, and the capabilities of agents that take tasks without tools, but none of agents without a worker [T-D7]', async () => {
    await start({
      coder: {
        ...worker,
        capabilities: ['code.write', { id: 'code.review', name: 'Reviews', description: 'Reads it.' }],
      },
      second: { ...worker, capabilities: ['code.write'] },
      boxed: { ...worker, capabilities: ['code.hidden'], sandbox: 'lab' },
      toolbox: { module: './tools.mjs', capabilities: ['files.count'] },
      idle: { capabilities: ['code.dream'] },
    });
    const all = await skills();
    // The tools of the roster are called over MCP; their capabilities can be asked for.
    const role = /^(atlas|enceladus|jupiter|mercury|neptune|saturn|uranus)\./;
    expect(all.filter(({ id }) => role.test(id)).every(({ tags }) => tags.includes('mcp-only'))).toBe(true);
    const works = ['security.review', 'validation.data', 'testing.unit', 'architecture.review', 'analytics.metrics'];
    expect(all.map(({ id }) => id)).toEqual(expect.arrayContaining([...works, 'enceladus.secrets']));
    const shown = all.filter(({ id }) => !role.test(id) && ![...works, 'research.search'].includes(id));
    expect(shown.map(({ id }) => id).sort()).toEqual([
      'code.review',
      'code.write',
      'sun.describe',
      'sun.discover_agent',
      'sun.invoke_remote_agent',
      'toolbox.count_files',
    ]);
    expect(shown.find(({ id }) => id === 'code.review')).toMatchObject({ name: 'Reviews', description: 'Reads it.' });
    expect(await skills('/api/agents/coder/agent-card')).toMatchObject([{ id: 'code.write' }, { id: 'code.review' }]);
    expect(await skills('/api/agents/idle/agent-card')).toEqual([]);
    expect(await skills('/api/agents/venus/agent-card')).toEqual([]);
    // A skill of a card can be asked for; a tool of an agent that takes no tasks says where it is called instead.
    expect(await send('it', { metadata: { skill: 'code.review' } })).toContain('coder did it');
    expect(shown.find(({ id }) => id === 'toolbox.count_files')).toMatchObject({ tags: ['files', 'mcp-only'] });
    const refused = await send('count', { metadata: { skill: 'toolbox.count_files' } });
    expect(refused).toContain('NO_WORKER');
    expect(refused).toContain('is called over MCP');
  });
});
