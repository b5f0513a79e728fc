import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ForeignServers } from '../foreign-servers.js';
import { Issuer } from '../issuer.js';
import { said, TaskNode, type WireTask } from './task-node.js';

const servers = new ForeignServers();
let issuer: Issuer;
let served: TaskNode;

beforeAll(async () => {
  issuer = await new Issuer().add('RS256', 'k1').serve(servers);
  served = await TaskNode.start({ jwt: issuer.init });
});

afterAll(async () => {
  await served.stop();
  await servers.close();
});

const as = (claims: object) => ({ Authorization: `Bearer ${issuer.token(claims)}` });

async function ask(method: string, params: object, headers: Record<string, string>) {
  const answer = await served.post('/a2a/rpc', { jsonrpc: '2.0', id: 1, method, params }, headers);
  const { status } = answer;
  const challenge = answer.headers.get('www-authenticate');
  const body = (await answer.json()) as { result?: { task: WireTask }; error?: { code: number } };
  return { status, challenge, ...body };
}

describe('a caller with a JSON Web Token', () => {
  it('has tasks of its own, found with every token of the same subject and no other', async () => {
    const { result } = await ask('SendMessage', said('hello'), as({ sub: 'ann' }));
    const { id } = result!.task;
    expect(await ask('GetTask', { id }, as({ sub: 'ann', jti: '2' }))).toMatchObject({ result: { id } });
    expect((await ask('GetTask', { id }, as({ sub: 'bob' }))).error?.code).toBe(-32001);
    const [record] = await served.gateway.tasks.list({ limit: 1 });
    expect(record?.owner).toMatch(/^jwt-ann-/);
  });

  it('is not the owner of the node, an agent of it or the bearer of a token, whatever its subject is', async () => {
    served.token('alice');
    for (const sub of ['operator', 'guest', 'echo', 'alice']) {
      const { result } = await ask('SendMessage', said('who am I?'), as({ sub }));
      const [record] = (await served.gateway.tasks.list({ limit: 100 })).filter(
        ({ model }) => model.task.id === result!.task.id,
      );
      expect(record?.owner).toMatch(new RegExp(`^jwt-${sub}-`));
    }
    expect(() => served.token('jwt-alice-0123456789abcdef')).toThrow(expect.objectContaining({ code: 'USAGE' }));
  });

  it('is limited to its scopes, like the bearer of a token', async () => {
    const tools = as({ scope: 'tools' });
    const refused = await ask('SendMessage', said('hello'), tools);
    expect([refused.status, refused.challenge]).toEqual([
      403,
      'Bearer realm="ecliptic", error="insufficient_scope", scope="tasks"',
    ]);
    const { token } = served.gateway.tokens.create('narrow', undefined, ['tools']);
    expect((await ask('SendMessage', said('hello'), { Authorization: `Bearer ${token}` })).status).toBe(403);
    expect((await served.get('/mcp', as({ scope: 'tasks' }))).status).toBe(403);
    expect((await served.get('/mcp', tools)).status).not.toBe(403);
    expect(() => served.gateway.tokens.create('odd', undefined, ['all'])).toThrow(
      expect.objectContaining({ code: 'USAGE' }),
    );
  });

  it('is told that its token is not accepted, and can still read public cards', async () => {
    const expired = as({ exp: 1 });
    const answer = await ask('SendMessage', said('hello'), expired);
    expect([answer.status, answer.challenge]).toEqual([401, 'Bearer realm="ecliptic", error="invalid_token"']);
    expect((await served.get('/.well-known/agent-card.json', expired)).status).toBe(200);
  });

  it('finds the issuer by the challenge of the MCP endpoint and the metadata that it names [MC12]', async () => {
    const refused = await served.post('/mcp', {}, { Authorization: '' });
    const [, url = ''] = /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate')!) ?? [];
    expect(url).toBe(`${served.url}/.well-known/oauth-protected-resource/mcp`);
    for (const at of [url, url.replace(/\/mcp$/, '')]) {
      expect(await (await fetch(at)).json()).toEqual({
        resource: `${served.url}/mcp`,
        resource_name: 'Ecliptic',
        authorization_servers: ['https://issuer.example'],
        bearer_methods_supported: ['header'],
        scopes_supported: ['tasks', 'tools'],
      });
    }
  });

  it('finds the issuer of its tokens on the card', async () => {
    const card = await (await served.get('/.well-known/agent-card.json')).json();
    expect(card).toMatchObject({
      securitySchemes: {
        bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
        openId: {
          openIdConnectSecurityScheme: {
            openIdConnectUrl: 'https://issuer.example/.well-known/openid-configuration',
          },
        },
      },
      securityRequirements: [
        { schemes: { bearer: { list: ['tasks'] } } },
        { schemes: { openId: { list: ['tasks'] } } },
      ],
    });
  });
});
