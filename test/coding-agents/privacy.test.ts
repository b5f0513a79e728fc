import { basename } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { inCluster, until } from '../nodes/cluster.js';
import { onlyThroughProxy } from '../nodes/faulty-way.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 60_000 });

describe('an eavesdropper between two nodes', () => {
  it(
    'sees no word, name, task or folder of the agents that write to each other [ON16]',
    inCluster(async (cluster) => {
      const { proxy, called, caller } = await onlyThroughProxy(cluster);
      proxy.keepsBytes = true;
      const a = await cluster.start('quartz-desk', called);
      const b = await cluster.start('velvet-laptop', caller);
      await a.admit(b, { tiers: [0, 1, 2, 3] });
      await until(async () => (await a.connected()) === 1 && (await b.connected()) === 1, 'they are connected');
      const [alice, bob] = await Promise.all([
        CodingAgent.start(cluster, ['--as', 'alice-thimble', '--capability', 'marmalade', '--data', a.data]),
        CodingAgent.start(cluster, ['--as', 'bob-lantern', '--capability', 'periscope', '--data', b.data]),
      ]);
      await bob.call('mesh_peers', { my_summary: 'polishing the walrus' });
      await until(
        async () => (await alice.call('mesh_peers', { match: 'bob' })).includes('bob-lantern@'),
        'they know each other',
      );
      const there = 'the combination is juniper seventeen';
      const back = 'then open the cabinet of saffron';
      await alice.call('mesh_send', { to: 'bob-lantern', text: there, needs: 'reply' });
      const shown = await bob.call('mesh_inbox', { wait_s: 20 });
      expect(bodiesIn(shown)).toEqual([there]);
      await bob.call('mesh_send', { reply_to: idsIn(shown)[0], text: back });
      expect(bodiesIn(await alice.call('mesh_inbox', { wait_s: 20 }))).toEqual([back]);
      await alice.call('mesh_task', { action: 'offer', to: 'bob-lantern', title: 'varnish the gazebo' });

      const seen = proxy.seen.map((parts) => Buffer.concat(parts)).filter((bytes) => bytes.length > 0);
      const carried = seen.map(framesIn);
      // It is the conversation that was captured, and nothing but encryption hides it.
      expect(seen[0]!.toString('latin1')).toMatch(/^GET .*Upgrade: websocket/is);
      for (const bytes of seen) expect(bytes.toString('latin1')).not.toMatch(/^Sec-WebSocket-Extensions:/im);
      expect(Buffer.concat(carried).length).toBeGreaterThan(1_000);
      const names = ['alice-thimble', 'bob-lantern', 'quartz-desk', 'velvet-laptop', 'marmalade', 'periscope'];
      const texts = [there, back, 'polishing the walrus', 'varnish the gazebo', basename(cluster.folder)];
      for (const secret of [...names, ...texts]) {
        for (const bytes of [...seen, ...carried]) {
          for (const form of formsOf(secret)) expect(bytes.includes(form), `${secret} as ${form}`).toBe(false);
        }
      }
    }),
  );
});

/** The text itself, and in the usual encodings at every offset. */
function formsOf(text: string): (string | Buffer)[] {
  const base64 = [0, 1, 2].map((shift) => {
    const shifted = Buffer.from(' '.repeat(shift) + text).toString('base64');
    return shifted.slice(shift === 0 ? 0 : 4, -4);
  });
  return [text, Buffer.from(text).toString('hex'), Buffer.from(text, 'utf16le'), ...base64];
}

/** The unmasked content of the WebSocket frames of one direction. */
function framesIn(bytes: Buffer): Buffer {
  const payloads: Buffer[] = [];
  let at = bytes.indexOf('\r\n\r\n') + 4;
  while (at + 2 <= bytes.length) {
    const masked = (bytes[at + 1]! & 0x80) !== 0;
    let length = bytes[at + 1]! & 0x7f;
    at += 2;
    if (length === 126) {
      length = bytes.readUInt16BE(at);
      at += 2;
    } else if (length === 127) {
      length = Number(bytes.readBigUInt64BE(at));
      at += 8;
    }
    const mask = masked ? bytes.subarray(at, at + 4) : undefined;
    at += masked ? 4 : 0;
    const payload = Buffer.from(bytes.subarray(at, at + length));
    if (mask) for (let n = 0; n < payload.length; n++) payload[n] = payload[n]! ^ mask[n % 4]!;
    payloads.push(payload);
    at += length;
  }
  return Buffer.concat(payloads);
}
