import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ALL_TOOLS } from '../../src/coding-agents/tools/tool-list.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, type ProcessNode } from '../nodes/cluster.js';
import { CLIENT_IDS, RealClient } from './coding-clients.js';
import { type Received, ScriptedModel } from './scripted-model.js';

const LETTER = 'The parser breaks on empty input; see src/parse.ts.';
const NOTE = 'I have pushed the fix to main.';
/** What each client puts before the name of a tool; Codex names the server apart. */
const PREFIXES: Readonly<Record<string, string>> = {
  'claude-code': 'mcp__ecliptic__',
  gemini: 'mcp_ecliptic_',
  opencode: 'ecliptic_',
};

describe.each(CLIENT_IDS)('the model of %s', (id) => {
  it(
    'receives the whole text of every mesh tool’s answer, and a message counts as read after its next call [T-A1 T-A7 T-A16]',
    inCluster(async (cluster) => {
      const { node, bob } = await desk(cluster);
      const model = await modelIn(cluster);
      const receipt = async (letter: string) => (await node.call<{ state: string }>('receipt', { id: letter })).state;
      await away(cluster, node, 'alice');
      const [question] = idsIn(await bob.call('mesh_send', { to: 'alice', text: LETTER, needs: 'reply' }));
      const [note] = idsIn(await bob.call('mesh_send', { to: 'alice', text: NOTE }));
      const states: string[] = [];
      let task = '';
      const url = model.converse('alice', [
        { tool: 'mesh_inbox', input: {} },
        async () => {
          // The model has the texts now, and has done nothing yet.
          states.push(await receipt(question!), await receipt(note!));
          return { tool: 'mesh_peers', input: { my_summary: 'parsing' } };
        },
        async () => {
          states.push(await receipt(question!), await receipt(note!));
          return { tool: 'mesh_send', input: { reply_to: question, text: 'On it.' } };
        },
        { tool: 'mesh_lookup', input: { id: question } },
        async () => {
          const said = await bob.call('mesh_task', {
            action: 'offer',
            to: 'alice',
            title: 'Fix it',
            detail: 'by noon',
          });
          task = /Task (\S+) offered/.exec(said)![1]!;
          // Offered means stored; it reaches alice a moment later, which ends her wait.
          return { tool: 'mesh_inbox', input: { wait_s: 25 } };
        },
        { tool: 'mesh_task', input: { action: 'list' } },
        { tool: 'mesh_state', input: { action: 'set', key: 'plan.step', value: 'review' } },
        { tool: 'mesh_state', input: { action: 'get', key: 'plan.step' } },
        { tool: 'mesh_lease', input: { action: 'take', paths: ['src/parse.ts'] } },
        { tool: 'mesh_call', input: { peer: 'mars', tool: 'weigh', args: { what: 'stone' } } },
        { tool: 'mesh_send', input: { to: 'nobody-here', text: 'hello' } },
        { tool: 'mesh_state', input: { action: 'get', kee: 'plan.step' } },
        { text: 'finished' },
      ]);
      const client = new RealClient(cluster, { id, as: 'alice', data: node.data, model: url });
      const { code, stderr } = await client.run();
      expect({ code, faults: model.faults }, stderr).toEqual({ code: 0, faults: [] });
      const { results } = model.of('alice');
      if (process.env.ECLIPTIC_SHOW) console.log(JSON.stringify(results, null, 1));
      const [inbox, peers, sent, lookup, news, tasks, set, get, lease, called, failed, misspelt] =
        results as Received[];
      const { offers, found } = model.of('alice');
      const names = new Set([...offers.flat(), ...(JSON.stringify(found).match(/mesh_\w+/g) ?? [])]);
      for (const { name } of ALL_TOOLS) expect(names, name).toContain(id === 'codex' ? name : `${PREFIXES[id]}${name}`);
      // Each text once, and in a fence.
      expect(bodiesIn(inbox!.text)).toEqual([LETTER, NOTE]);
      expect(inbox!.text.split(LETTER)).toHaveLength(2);
      expect(inbox!.text.split(NOTE)).toHaveLength(2);
      expect(inbox!.text).toContain(question);
      expect(peers!.text).toContain('You are alice');
      expect(peers!.text).toContain('bob');
      expect(sent!.text).toMatch(/to bob: (?:stored|arrived|surfaced)/);
      expect(bodiesIn(lookup!.text)).toContain(LETTER);
      expect(lookup!.text.split(LETTER)).toHaveLength(2);
      expect(news!.text).toContain(task);
      expect(tasks!.text).toContain(task);
      expect(tasks!.text).toMatch(/from bob \(waits for your answer\): Fix it[\s\S]*by noon/);
      expect(set!.text).toContain('set done');
      expect(get!.text).toContain('review');
      expect(lease!.text).toContain('Taken: src/parse.ts');
      expect(called!.text).toContain('Weighed with care.');
      expect(called!.text).toContain('12.5');
      expect(bodiesIn(tasks!.text)).toEqual(['by noon']);
      expect(failed!.text).toContain('Error AGENT_NOT_FOUND:');
      expect(misspelt!.text).toMatch(/kee/);
      // Codex and opencode show their model no flag: only the words say that it is an error.
      const isMarked = id === 'claude-code' || id === 'gemini';
      expect([failed!.isError, misspelt!.isError]).toEqual([isMarked, isMarked]);
      // Codex describes no MCP tool before it was searched for.
      if (id !== 'codex') expect(model.of('alice').searches).toEqual([]);
      expect(states).toEqual(['surfaced', 'surfaced', 'read', 'done']);
      expect(await receipt(question!)).toBe('replied');
    }),
  );
});

describe.each(CLIENT_IDS)('a long message to the model of %s', (id) => {
  it(
    'arrives whole, and counts as read only then [T-A1]',
    inCluster(async (cluster) => {
      const { node, bob } = await desk(cluster);
      const model = await modelIn(cluster);
      await away(cluster, node, 'alice');
      const lines = Array.from(
        { length: 2_000 },
        (_, n) => `line ${String(n).padStart(5, '0')} of a long report, which is long`,
      );
      const [letter] = idsIn(await bob.call('mesh_send', { to: 'alice', text: lines.join('\n') }));
      const states: string[] = [];
      const look = async (seen: string) => {
        const { state } = await node.call<{ state: string }>('receipt', { id: letter });
        states.push(`${state} with ${lines.filter((line) => seen.includes(line)).length}`);
        // Gemini CLI ends a turn that makes the same call again and again.
        return { tool: 'mesh_inbox', input: { limit: states.length } };
      };
      const url = model.converse('alice', [...Array.from({ length: 12 }, () => look), { text: 'finished' }]);
      const client = new RealClient(cluster, { id, as: 'alice', data: node.data, model: url });
      const { code, stderr } = await client.run();
      expect({ code, faults: model.faults }, stderr).toEqual({ code: 0, faults: [] });
      if (process.env.ECLIPTIC_SHOW)
        console.log(
          id,
          states,
          model.of('alice').results.map(({ text }) => `${text.length} ${text.slice(0, 300)} ... ${text.slice(-300)}`),
        );
      const partly = states.filter((state) => /^(?:read|done) with /.test(state) && !state.endsWith(' 2000'));
      expect(partly).toEqual([]);
      expect(states.at(-1)).toBe('done with 2000');
    }),
  );
});

describe('the tool search of codex', () => {
  it(
    'brings the mesh tool that a model looks for in its own words [T-A16]',
    inCluster(async (cluster) => {
      const { node } = await desk(cluster);
      const model = await modelIn(cluster);
      const searches = [
        ['which other agents are there', 'mesh_peers'],
        ['send a message to another agent', 'mesh_send'],
        ['read my mail', 'mesh_inbox'],
        ['read my messages', 'mesh_inbox'],
        ['delegate a task to another agent', 'mesh_task'],
        ['hand over a task', 'mesh_task'],
        ['lock files before editing', 'mesh_lease'],
        ['shared notes', 'mesh_state'],
        ['ask the person who runs this', 'mesh_send'],
      ] as const;
      const steps = searches.map(([query]) => ({ tool: 'tool_search', input: { query } }));
      const url = model.converse('alice', [...steps, { text: 'finished' }]);
      const client = new RealClient(cluster, { id: 'codex', as: 'alice', data: node.data, model: url });
      const { code, stderr } = await client.run();
      expect({ code, faults: model.faults }, stderr).toEqual({ code: 0, faults: [] });
      // The best match of each server comes first.
      const best = model.of('alice').found.map(({ raw }) => {
        const servers = raw as readonly { name: string; tools?: readonly { name: string }[] }[];
        return servers.find(({ name }) => name === 'mcp__ecliptic')?.tools?.[0]?.name;
      });
      expect(searches.map(([query], index) => [query, best[index]])).toEqual(searches);
    }),
  );
});

async function modelIn(cluster: Cluster): Promise<ScriptedModel> {
  const model = await ScriptedModel.start();
  cluster.onEnd(() => model.close());
  return model;
}

/** A name has a mailbox once a process had it. */
async function away(cluster: Cluster, node: ProcessNode, as: string): Promise<void> {
  const agent = await CodingAgent.start(cluster, ['--as', as, '--data', node.data]);
  await agent.call('mesh_peers');
  await agent.leave();
}

/** A node with an agent that has a tool, and a coding agent called bob. */
async function desk(cluster: Cluster): Promise<{ node: ProcessNode; bob: CodingAgent }> {
  const file = join(cluster.folder, 'mars.mjs');
  writeFileSync(file, MARS);
  const config = { roster: false, agents: { mars: { module: file } } };
  const node = await cluster.start('desk', { args: ['--no-dht'], config });
  const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--data', node.data]);
  await bob.call('mesh_peers');
  return { node, bob };
}

const MARS = `
  export function setup(agent) {
    agent.tool('weigh', {}, () => ({
      content: [{ type: 'text', text: 'Weighed with care.' }],
      structuredContent: { kilograms: 12.5 },
    }));
  }`;
