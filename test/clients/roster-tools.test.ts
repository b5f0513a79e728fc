import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { inCluster } from '../nodes/cluster.js';
import { FIXTURE, SECRETS } from '../review/repository.js';
import { RealClient } from './coding-clients.js';
import { type Received, ScriptedModel } from './scripted-model.js';

it(
  'the model of claude-code finds a tool of the roster, calls it, and gets the findings of its checkout as text [RT.8]',
  inCluster(async (cluster) => {
    const node = await cluster.start('desk', { args: ['--no-dht'] });
    const model = await ScriptedModel.start();
    cluster.onEnd(() => model.close());
    const url = model.converse('alice', [
      { tool: 'mesh_call', input: { peer: 'enceladus' } },
      { tool: 'mesh_call', input: { peer: 'enceladus', tool: 'secrets' } },
      { tool: 'mesh_call', input: { peer: 'uranus', tool: 'search', args: { pattern: 'const token' } } },
      { text: 'finished' },
    ]);
    const client = new RealClient(cluster, { id: 'claude-code', as: 'alice', data: node.data, model: url });
    mkdirSync(join(client.home, 'src'), { recursive: true });
    writeFileSync(join(client.home, 'src', 'keys.js'), FIXTURE['src/keys.js']!);
    const { code, stderr } = await client.run();
    expect({ code, faults: model.faults }, stderr).toEqual({ code: 0, faults: [] });
    const [list, secrets, hits] = model.of('alice').results as Received[];
    expect(list!.text).toMatch(/^secrets: Finds keys, tokens and passwords/m);
    expect(secrets!.text).toContain('src/keys.js:1: critical: a token of GitHub');
    expect(secrets!.text).not.toContain(SECRETS.github);
    expect(hits!.text).toContain('src/keys.js:1: export const token');
  }),
);
