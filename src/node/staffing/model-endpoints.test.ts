import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { findModels } from './model-endpoints.js';

const runtime = systemRuntime();
const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
});

/** An endpoint that lists these models, or answers as it is told; returns its base URL. */
async function endpoint(answer: readonly unknown[] | RequestListener, asked: IncomingMessage[] = []): Promise<string> {
  const server = createServer((request, response) => {
    asked.push(request);
    if (typeof answer === 'function') return answer(request, response);
    response.end(JSON.stringify({ object: 'list', data: answer.map((id) => ({ id })) }));
  });
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

const look = (baseUrl: string, model?: string) => findModels(runtime, {}, { endpoints: [baseUrl], model });

describe('models', () => {
  it('are found by their list, the first that converses [WK.S2]', async () => {
    const asked: IncomingMessage[] = [];
    const baseUrl = await endpoint(['nomic-embed-text', 'qwen3:8b', 'llama3.2', 'whisper-1'], asked);
    const { workers, unusable } = await look(`${baseUrl}/`);
    expect(unusable).toEqual([]);
    expect(workers).toMatchObject([
      { kind: 'model', why: 'answers; 1 more, choose with --model', config: { model: { baseUrl, model: 'qwen3:8b' } } },
    ]);
    expect(asked.map(({ url, headers }) => [url, headers.authorization])).toEqual([['/v1/models', undefined]]);
    expect((await look(baseUrl, 'llama3.2')).workers).toMatchObject([{ config: { model: { model: 'llama3.2' } } }]);
    expect((await look(baseUrl, 'gpt')).unusable).toMatchObject([
      { reason: 'it has no model "gpt"; it has qwen3:8b, llama3.2', fix: 'ecliptic staff --model qwen3:8b' },
    ]);
  });

  it('of the environment get its key, which is written as a reference only [WK.S2]', async () => {
    const asked: IncomingMessage[] = [];
    const baseUrl = await endpoint(['a', 'b'], asked);
    const local: IncomingMessage[] = [];
    const env = { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'sk-secret', OPENAI_MODEL: 'b' };
    const found = await findModels(runtime, env, { endpoints: [await endpoint(['c'], local), baseUrl] });
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to the environment
    const config = { model: { baseUrl, model: 'b', apiKey: '${OPENAI_API_KEY}', cwd: '.' } };
    expect(found.workers.map((worker) => worker.config)).toEqual([
      config,
      { model: expect.objectContaining({ model: 'c' }) },
    ]);
    expect(asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer sk-secret']);
    expect(local.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    expect(JSON.stringify(found)).not.toContain('sk-secret');
  });

  it('are not asked for at a vendor that only a key hints at [WK.S2]', async () => {
    const { workers, unusable } = await findModels(runtime, { OPENAI_API_KEY: 'sk-secret' }, { endpoints: [] });
    expect(workers).toEqual([]);
    expect(unusable).toMatchObject([
      { title: 'OPENAI_API_KEY', fix: expect.stringContaining('OPENAI_BASE_URL=https://') },
    ]);
    expect(JSON.stringify(unusable)).not.toContain('sk-secret');
  });

  it.each<[string, readonly unknown[] | RequestListener, string]>([
    ['no model', [], 'it has no model'],
    ['null for a list', (_, response) => response.end('{"data":null}'), 'it has no model'],
    ['models that do not converse', ['bge-m3', 'text-embedding-3'], 'it has no model that converses'],
    ['names that are no names', [1, '', null, 'x'.repeat(300), 'a\u001b[2J'], 'it has no model'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a name that would be replaced by a secret
    ['a name that refers to the environment', ['${AWS_SECRET_ACCESS_KEY}'], 'it has no model'],
    ['a page', (_, response) => response.end('<html>'), 'it answers 200 without a list of models'],
    ['another object', (_, response) => response.end('{"data":{}}'), 'it answers 200 without a list of models'],
    ['an error', (_, response) => response.writeHead(500).end(), 'it answers 500 without a list of models'],
    ['a refusal', (_, response) => response.writeHead(401).end('{"error":{}}'), 'it wants a key'],
    ['nothing', () => {}, 'it accepts connections, but did not answer in time'],
  ])('are not usable at an endpoint with %s [WK.S2]', async (_, answer, reason) => {
    const { workers, unusable } = await look(await endpoint(answer));
    expect(workers).toEqual([]);
    expect(unusable).toMatchObject([{ kind: 'model', reason, fix: expect.stringMatching(/./) }]);
  });

  it('are not looked for behind a redirect, in endless answers or at a closed port [WK.S2]', async () => {
    const asked: IncomingMessage[] = [];
    const elsewhere = await endpoint(['a'], asked);
    const redirect: RequestListener = (_, response) => {
      response.writeHead(302, { location: `${elsewhere}/models` }).end();
    };
    const endless: RequestListener = (_, response) => {
      const more = () => {
        while (response.write('x'.repeat(65_536)));
        response.once('drain', more);
      };
      more();
    };
    const closed = await endpoint([]);
    servers.at(-1)!.close();
    for (const baseUrl of [await endpoint(redirect), await endpoint(endless), closed]) {
      const { workers, unusable } = await look(baseUrl);
      expect(workers).toEqual([]);
      expect(unusable).toHaveLength(1);
    }
    expect(asked).toEqual([]);
  });

  it.each(['nonsense', 'ftp://127.0.0.1/v1', 'http://me:secret@127.0.0.1:1/v1'])(
    'are not looked for at %s',
    async (url) => {
      const { workers, unusable } = await look(url);
      expect(workers).toEqual([]);
      expect(unusable).toHaveLength(1);
      expect(JSON.stringify(unusable)).not.toContain('secret@');
    },
  );
});
