import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { MetricsHistory } from '../../src/telemetry/metrics-history.js';
import { inCluster, until, untilConnected } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';
import { Collector, type ReceivedSpan } from './collector.js';
import { readExposition } from './exposition.js';

vi.setConfig({ testTimeout: 90_000 });

const WORKER = `export const setup = (agent) => agent
  .onTask((task) => ({ did: task.text }))
  .onRequest((message) => ({ got: message.payload }))
  .tool('add', { description: 'Adds.' }, ({ a, b }) => ({ sum: a + b }));`;

/** Passes each request on to venus. */
const MARS = `export const setup = (agent) => agent
  .onRequest(async (message) => ({ by: 'mars', venus: await agent.request('venus', message.payload) }))
  .onNotification(() => {});`;

const VENUS = `export const setup = (agent) => agent.onRequest(() => 'by venus');`;

interface Panel {
  readonly targets: readonly { readonly expr: string }[];
}

describe.concurrent('the telemetry of a node', () => {
  it(
    'is valid Prometheus text with histograms, has every metric of the Grafana dashboard, and a history [FC.40 FC.41 FC.46]',
    inCluster(async (cluster) => {
      const collector = await Collector.start();
      cluster.onEnd(() => collector.stop());
      writeFileSync(join(cluster.folder, 'worker.mjs'), WORKER);
      const node = await cluster.start('desk', {
        args: ['--no-dht', '--otlp', collector.url],
        config: { roster: false, agents: { sun: {}, worker: { module: join(cluster.folder, 'worker.mjs') } } },
      });
      for (let sent = 0; sent < 64; sent++) await node.request('sun', 'worker', { sent });
      await node.json('call', 'worker.add', '{"a":1,"b":2}', '--as', 'sun');
      await node.call('propose', { description: 'build it', to: 'worker', as: 'sun' });
      await node.json('send', '--as', 'sun', '--to', 'worker', '--durable', '{"kept":true}');
      await node.run('send', '--as', 'sun', '--to', 'nowhere', '{}');

      const { http, token } = node.ready;
      const scrape = async () => {
        const answer = await fetch(`${http}/metrics`, { headers: { authorization: `Bearer ${token}` } });
        expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
        return readExposition(await answer.text());
      };
      const families = await scrape();
      const documented = readFileSync(join(ROOT, 'docs/telemetry.md'), 'utf8').matchAll(/^\| `(ecliptic_\w+)` \|/gm);
      expect([...families.keys()].sort()).toEqual([...documented].map(([, name]) => name).sort());
      const value = (name: string, labels: Record<string, string> = {}) => {
        const family = families.get(name.replace(/_(bucket|sum|count)$/, '')) ?? families.get(name);
        const sample = family?.samples.find((one) => {
          return one.name === name && Object.entries(labels).every(([label, text]) => one.labels[label] === text);
        });
        return sample?.value;
      };
      for (const histogram of ['routing_latency', 'delivery_latency', 'tool_duration', 'task_duration']) {
        expect(value(`ecliptic_${histogram}_seconds_count`), histogram).toBeGreaterThan(0);
        expect(value(`ecliptic_${histogram}_seconds_sum`), histogram).toBeGreaterThan(0);
      }
      expect(value('ecliptic_messages_sent_total', { type: 'request' })).toBeGreaterThanOrEqual(64);
      expect(value('ecliptic_errors_total', { code: 'AGENT_NOT_FOUND' })).toBe(1);
      expect(value('ecliptic_tasks_total', { kind: 'proposal', outcome: 'completed' })).toBe(1);
      expect(value('ecliptic_receipts_total', { state: 'stored' })).toBe(1);
      expect(value('ecliptic_store_writable')).toBe(1);
      expect(value('ecliptic_store_rows', { table: 'journal' })).toBeGreaterThan(64);
      expect(value('ecliptic_store_bytes', { kind: 'log' })).toBeGreaterThan(0);
      expect(value('ecliptic_agents', { state: 'ready' })).toBeGreaterThanOrEqual(1);
      expect(value('ecliptic_uptime_seconds')).toBeGreaterThan(0);
      for (const name of families.keys()) expect(name).toMatch(/^ecliptic_[a-z0-9_]+$/);

      const dashboard = JSON.parse(readFileSync(join(ROOT, 'docs/grafana-dashboard.json'), 'utf8')) as {
        panels: Panel[];
      };
      const queried = dashboard.panels.flatMap(({ targets }) =>
        targets.flatMap(({ expr }) => expr.match(/ecliptic_\w+/g)),
      );
      const unknown = queried.filter((name) => {
        const isBucket = families.get(String(name).replace(/_bucket$/, ''))?.type === 'histogram';
        return !families.has(String(name)) && !isBucket;
      });
      expect(unknown).toEqual([]);
      // And the other way around: nothing is measured that the dashboard does not show.
      const shown = new Set(queried.map((name) => String(name).replace(/_bucket$/, '')));
      expect([...families.keys()].filter((name) => !shown.has(name))).toEqual([]);

      const history = await until(async () => {
        const found = await node.call<MetricsHistory>('metrics.history', { points: 10 });
        return found.at.length > 0 ? found : undefined;
      }, 'the first sample is taken');
      expect(history.everyMs).toBe(5_000);
      for (const [name, numbers] of Object.entries(history.series)) {
        expect(numbers.length, name).toBe(history.at.length);
        // A time is null where nothing was timed.
        const isTime = /P(50|99)Ms$/.test(name);
        expect(
          numbers.every((value) => Number.isFinite(value) || (isTime && value === null)),
          name,
        ).toBe(true);
      }
      expect(Math.max(...history.series.routedPerSecond!.map(Number))).toBeGreaterThan(0);
      expect(Math.max(...history.series.refusedPerSecond!.map(Number))).toBeGreaterThan(0);
      expect(history.series.rssBytes!.at(-1)).toBeGreaterThan(1e6);
      expect(history.series.diskFreeBytes!.at(-1)).toBeGreaterThan(0);
    }),
  );

  it(
    'says at /readyz that the node is ready, and that a worker is not, in words that name nobody [FC.42]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { roster: false, agents: { secretagent: { command: { command: '/no/such/program' } } } },
      });
      const { http } = node.ready;
      const read = async (path: string) => {
        const answer = await fetch(`${http}${path}`);
        return { status: answer.status, body: (await answer.json()) as unknown };
      };
      expect(await read('/healthz')).toEqual({ status: 200, body: { status: 'alive' } });
      const unwell = await until(async () => {
        const found = await read('/readyz');
        return JSON.stringify(found.body).includes('failed') ? found : undefined;
      }, 'the worker has failed');
      expect(unwell).toEqual({
        status: 200,
        body: {
          status: 'degraded',
          reasons: [{ part: 'providers', state: 'failed', message: '1 provider is failed' }],
        },
      });
    }),
  );

  it(
    'goes to an OTLP collector: one trace covers the nodes, messages and tools of one request [FC.43 FC.44]',
    inCluster(async (cluster) => {
      const collector = await Collector.start();
      cluster.onEnd(() => collector.stop());
      for (const [name, text] of Object.entries({ mars: MARS, venus: VENUS, worker: WORKER })) {
        writeFileSync(join(cluster.folder, `${name}.mjs`), text);
      }
      const module = (name: string) => ({ module: join(cluster.folder, `${name}.mjs`) });
      const args = ['--no-dht', '--listen', '127.0.0.1:0'];
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=blue%20team',
        OTEL_SERVICE_NAME: 'planets',
      };
      const here = await cluster.start('here', { args, env, config: { roster: false, agents: { sun: {} } } });
      const agents = { mars: module('mars'), venus: module('venus'), worker: module('worker') };
      const there = await cluster.start('there', { args, env, config: { roster: false, agents } });
      await here.admit(there);
      await untilConnected([here, there]);
      const mars = `mars@${there.key}`;
      await until(async () => (await here.agents()).some(({ id }) => id === 'mars'), 'mars is known');
      await until(async () => (await here.call<{ name: string }[]>('tools')).length > 0, 'the tool is known');
      expect(await here.request('sun', mars, { question: 1 })).toEqual({ by: 'mars', venus: 'by venus' });
      await here.call('call', { as: 'sun', tool: 'worker.add', arguments: { a: 1, b: 2 } });
      await here.call('send', { as: 'sun', to: mars, payload: 1, durable: true });

      const spansOf = (name: string, node: { key: string }) =>
        collector.spans.filter((span) => span.name === name && span.service['service.instance.id'] === node.key);
      const traceOf = ({ traceId }: ReceivedSpan) => collector.spans.filter((span) => span.traceId === traceId);

      const asked = await until(
        () => spansOf('send request', here).find((span) => span.attributes['messaging.destination.name'] === mars),
        'the request is exported',
      );
      const trace = await until(() => {
        const found = traceOf(asked);
        return found.length >= 8 ? found : undefined;
      }, 'the trace is complete');
      const ids = new Set(trace.map(({ spanId }) => spanId));
      expect(trace.filter(({ parentSpanId }) => parentSpanId === undefined)).toEqual([asked]);
      expect(trace.filter(({ parentSpanId }) => parentSpanId !== undefined && !ids.has(parentSpanId))).toEqual([]);
      const handled = trace.find((span) => span.name === 'handle request' && span.parentSpanId === asked.spanId)!;
      expect(handled.service).toMatchObject({ 'service.name': 'planets', 'service.instance.id': there.key });
      const onward = trace.find((span) => span.name === 'send request' && span.parentSpanId === handled.spanId)!;
      expect(onward.attributes['messaging.destination.name']).toBe('venus');
      expect(new Set(trace.map(({ service }) => service['service.instance.id'])).size).toBe(2);

      const [called] = await until(() => {
        const found = spansOf('tool add', here);
        return found.length > 0 ? found : undefined;
      }, 'the tool call is exported');
      const served = await until(
        () => traceOf(called!).find(({ parentSpanId }) => parentSpanId === called!.spanId),
        'the tool call is traced on the other node',
      );
      expect(served.service['service.instance.id']).toBe(there.key);

      const durable = await until(() => spansOf('handle notification', there)[0], 'the durable message is handled');
      const sent = await until(
        () => spansOf('send notification', here).find(({ spanId }) => spanId === durable.parentSpanId),
        'the durable message is exported',
      );
      expect(sent.traceId).toBe(durable.traceId);

      await here.stop();
      await there.stop();
      expect(collector.faults).toEqual([]);
      expect(collector.headers.every((headers) => headers['x-tenant'] === 'blue team')).toBe(true);
      // A node that stops exports its metrics once more.
      expect(collector.metrics.get('ecliptic_routing_latency_seconds')).toMatchObject({ unit: 's' });
      expect(collector.spans.some(({ name }) => name.startsWith('chat') || name.includes('gen_ai'))).toBe(false);
    }),
  );
});
