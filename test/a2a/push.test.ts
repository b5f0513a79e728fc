import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/node/tables.js';
import { ForeignServers } from '../foreign-servers.js';
import { kindOf, said, TaskNode, type WireEvent } from './task-node.js';

interface Call {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

const servers = new ForeignServers();
const nodes: TaskNode[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
  await servers.close();
});

/** A webhook that answers with one status after the other, and then with the last. */
async function webhook(...statuses: number[]) {
  const calls: Call[] = [];
  const { place, origin } = await servers.http((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      calls.push({ headers: request.headers, body, at: performance.now() });
      response.statusCode = (statuses.length > 1 ? statuses.shift() : statuses[0]) ?? 200;
      response.end();
    });
  });
  const node = await TaskNode.start({ allowPrivate: [place] });
  nodes.push(node);
  return { node, calls, statuses, url: `${origin}/hook` };
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2_000 && !condition(); tries++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(condition()).toBe(true);
}

const kinds = (calls: readonly Call[]) =>
  calls.map(({ body }) => kindOf({ id: undefined, data: JSON.parse(body) as WireEvent['data'] }));

describe('a webhook', () => {
  it('that is given with a send receives all events, in order, signed and with its credentials', async () => {
    const { node, calls, url } = await webhook(200);
    const config = { url, token: 'secret', authentication: { scheme: 'Bearer', credentials: 'abc' } };
    const { task } = await node.result('SendMessage', {
      ...said('x'),
      tenant: 'writer',
      configuration: { taskPushNotificationConfig: config },
    });
    expect(task.status.state).toBe('TASK_STATE_COMPLETED');
    await until(() => calls.length === 5);
    expect(kinds(calls)).toEqual(['working', 'artifact', 'artifact', 'artifact', 'completed']);
    for (const { headers, body } of calls) {
      expect(headers).toMatchObject({
        'content-type': 'application/a2a+json',
        authorization: 'Bearer abc',
        'x-a2a-notification-token': 'secret',
        'ecliptic-signature': `sha256=${createHmac('sha256', 'secret').update(body).digest('hex')}`,
      });
    }
    expect(calls.map(({ headers }) => headers['ecliptic-event-id'])).toEqual(
      [2, 3, 4, 5, 6].map((n) => `${task.id}:${n}`),
    );
  });

  it('that fails is called again, later each time, before the next event [A2A-2.5.7]', async () => {
    const { node, calls, url } = await webhook(503, 429, 200);
    const id = await node.hold('retry');
    await node.result('CreateTaskPushNotificationConfig', { taskId: id, url });
    const { task, finish } = node.held.get('retry')!;
    task.progress('one');
    finish();
    await until(() => calls.length === 4);
    expect(kinds(calls)).toEqual(['working', 'working', 'working', 'completed']);
    expect(calls[1]!.at - calls[0]!.at).toBeGreaterThan(900);
    expect(calls[2]!.at - calls[1]!.at).toBeGreaterThan(1_800);
    expect(new Set(calls.slice(0, 3).map(({ headers }) => headers['ecliptic-event-id'])).size).toBe(1);
  });

  it('that is deleted gets no more events, and an event that it answers with 404 is not sent again', async () => {
    const { node, calls, url } = await webhook(404);
    const id = await node.hold('deleted');
    const made = await node.result<{ id: string }>('CreateTaskPushNotificationConfig', { taskId: id, url });
    const { task, finish } = node.held.get('deleted')!;
    task.progress('one');
    await until(() => calls.length === 1);
    await node.result('DeleteTaskPushNotificationConfig', { taskId: id, id: made.id });
    task.progress('two');
    finish();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(calls).toHaveLength(1);
  });

  it.each([
    'http://127.0.0.1:9/',
    'http://localhost:9/',
    'http://169.254.169.254/latest/meta-data',
    'http://[::1]:9/',
    'http://[::ffff:10.0.0.1]/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://10.1.2.3/',
    'ftp://example.com/',
    'not a url',
  ])('at %s is refused, and nothing is begun for it [A2A-2.5.7]', async (url) => {
    const node = await TaskNode.start();
    nodes.push(node);
    const id = await node.hold('refused');
    expect(await node.rpc('CreateTaskPushNotificationConfig', { taskId: id, url })).toHaveProperty('error');
    const configuration = { returnImmediately: true, taskPushNotificationConfig: { url } };
    expect(await node.rpc('SendMessage', { ...said('not begun'), tenant: 'slow', configuration })).toHaveProperty(
      'error',
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(node.held.has('not begun')).toBe(false);
    expect((await node.result<{ totalSize: number }>('ListTasks', {})).totalSize).toBe(1);
  });

  it('whose name does not resolve is refused like one with a private address [T-D13]', async () => {
    const node = await TaskNode.start();
    nodes.push(node);
    const id = await node.hold('probing');
    const errors = await Promise.all(
      ['http://no-such-host.invalid/', 'http://localhost/', 'http://10.1.2.3/', 'http://printer.local/'].map(
        async (url) => (await node.rpc('CreateTaskPushNotificationConfig', { taskId: id, url })).error,
      ),
    );
    expect(errors[0]).toMatchObject({ code: -32602, data: [{ reason: 'INVALID_PARAMS' }, {}] });
    for (const error of errors) expect(error).toEqual(errors[0]);
  });

  it('receives after a restart the events that were pending at the stop [T-D8]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-push-'));
    const down = await webhook(503);
    await down.node.stop();
    const place = new URL(down.url).host;
    const start = async () => TaskNode.start({ allowPrivate: [place] }, { store: await openStore(folder) });
    const first = await start();
    try {
      const [ended, open] = [await first.hold('ended'), await first.hold('open')];
      for (const taskId of [ended, open]) {
        await first.result('CreateTaskPushNotificationConfig', { taskId, url: down.url, id: 'hook', token: 't' });
      }
      first.held.get('ended')!.finish('result');
      first.held.get('open')!.task.progress('half');
      await until(() => down.calls.length >= 2);
      await first.stop();
      down.statuses[0] = 200;
      down.calls.length = 0;

      const second = await start();
      const of = (id: string) =>
        down.calls.filter(({ headers }) => String(headers['ecliptic-event-id']).startsWith(`${id}:`));
      try {
        await until(() => of(ended).length === 2 && of(open).length === 2);
        expect(kinds(of(ended))).toEqual(['artifact', 'completed']);
        // Its agent was not resumable.
        expect(kinds(of(open))).toEqual(['working', 'failed']);
        const list = { configs: [{ id: 'hook', url: down.url, token: 't', taskId: ended }] };
        expect(await second.result('ListTaskPushNotificationConfigs', { taskId: ended })).toEqual(list);
      } finally {
        await second.stop();
      }
      // No event is sent a third time.
      down.calls.length = 0;
      const third = await start();
      nodes.push(third);
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(down.calls).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('is not followed to the target of a redirect', async () => {
    const { node, calls, url } = await webhook(200);
    const { origin, place } = await servers.http((_, response) => {
      response.writeHead(307, { Location: url });
      response.end();
    });
    const other = await TaskNode.start({ allowPrivate: [place] });
    nodes.push(other);
    const id = await other.hold('redirected');
    await other.result('CreateTaskPushNotificationConfig', { taskId: id, url: `${origin}/` });
    other.held.get('redirected')!.finish();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(calls).toEqual([]);
    expect(node.held.size).toBe(0);
  });

  it('is refused when the task already has 32', async () => {
    const { node, url } = await webhook(200);
    const id = await node.hold('many hooks');
    for (let i = 0; i < 32; i++)
      await node.result('CreateTaskPushNotificationConfig', { taskId: id, url, id: `h${i}` });
    expect(await node.rpc('CreateTaskPushNotificationConfig', { taskId: id, url })).toHaveProperty('error');
    await node.result('CreateTaskPushNotificationConfig', { taskId: id, url, id: 'h3' });
  });
});
