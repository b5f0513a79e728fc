import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createNode } from '../../src/node/compose.js';
import { said, TaskNode } from './task-node.js';

const NEEDED = 'urn:example:needed';
const HOOK = { url: 'http://127.0.0.1:9/hook' };
const NAMED = { 'A2A-Extensions': NEEDED };

let offered: TaskNode;
let usual: TaskNode;

beforeAll(async () => {
  const a2a = {
    streaming: false,
    pushNotifications: false,
    extensions: [{ uri: NEEDED, required: true }],
    inputModes: ['text/*', 'application/json'],
  };
  [offered, usual] = await Promise.all([TaskNode.start({ a2a }), TaskNode.start()]);
});

afterAll(() => Promise.all([offered.stop(), usual.stop()]));

interface Card {
  readonly capabilities: { readonly extensions: readonly { uri: string; required?: boolean }[] };
  readonly defaultInputModes: readonly string[];
}

const cardOf = async (node: TaskNode) => (await (await node.get('/.well-known/agent-card.json')).json()) as Card;

/** The reason and the number of the error that a method is refused with. */
async function refusal(node: TaskNode, method: string, params: object, headers: Record<string, string> = NAMED) {
  const { error } = await node.rpc(method, params, headers);
  return [error?.code, error?.data?.[0]?.reason];
}

/** A message with one part of that media type. */
function typed(mediaType: string): object {
  const { message } = said('typed') as { message: object };
  return { message: { ...message, parts: [{ raw: 'AAAA', mediaType }] }, tenant: 'plain' };
}

describe('a node whose A2A offer is configured', () => {
  it('says so on its cards, and keeps the extensions of its own that still apply [T-D14]', async () => {
    const { capabilities, defaultInputModes } = await cardOf(offered);
    expect(capabilities).toMatchObject({ streaming: false, pushNotifications: false });
    expect(capabilities.extensions.find(({ uri }) => uri === NEEDED)).toEqual({ uri: NEEDED, required: true });
    expect(capabilities.extensions.map(({ uri }) => uri)).not.toContain('urn:ecliptic:a2a:resume:1');
    expect(defaultInputModes).toEqual(['text/*', 'application/json']);
  });

  it('refuses methods behind a capability that is off, with the errors of the specification [T-D14]', async () => {
    const streaming = [-32004, 'UNSUPPORTED_OPERATION'];
    const push = [-32003, 'PUSH_NOTIFICATION_NOT_SUPPORTED'];
    expect(await refusal(offered, 'SendStreamingMessage', said('x'))).toEqual(streaming);
    expect(await refusal(offered, 'SubscribeToTask', { id: 'x' })).toEqual(streaming);
    for (const method of ['Create', 'Get', 'List', 'Delete']) {
      const name = `${method}TaskPushNotificationConfig${method === 'List' ? 's' : ''}`;
      expect(await refusal(offered, name, { taskId: 'x', id: 'y', ...HOOK }), name).toEqual(push);
    }
    const hooked = { ...said('x'), configuration: { taskPushNotificationConfig: HOOK } };
    expect(await refusal(offered, 'SendMessage', hooked)).toEqual(push);
    const overHttp = await offered.post('/a2a/v1/message:stream', said('x'), NAMED);
    expect([overHttp.status, await overHttp.text()]).toEqual([400, expect.stringContaining('UNSUPPORTED_OPERATION')]);
  });

  it('refuses requests that do not name a required extension [T-D14]', async () => {
    expect(await refusal(offered, 'SendMessage', said('x'), {})).toEqual([-32008, 'EXTENSION_SUPPORT_REQUIRED']);
    expect(await refusal(offered, 'SendMessage', { ...said('x'), tenant: 'plain' })).toEqual([undefined, undefined]);
    const simple = (headers: Record<string, string>) => offered.post('/a2a/tasks/send', { message: 'x' }, headers);
    expect([(await simple({})).status, (await simple(NAMED)).status]).toEqual([400, 200]);
  });

  it('refuses parts of other media types than its card names, and takes the others [T-D12]', async () => {
    const refused = [-32005, 'CONTENT_TYPE_NOT_SUPPORTED'];
    expect(await refusal(offered, 'SendMessage', typed('image/png'))).toEqual(refused);
    for (const type of ['text/markdown', 'Application/JSON; charset=utf-8']) {
      expect(await refusal(offered, 'SendMessage', typed(type)), type).toEqual([undefined, undefined]);
    }
  });

  it('is refused when a mode is not a media type or an extension has no URI [T-D14]', async () => {
    const node = await createNode({});
    try {
      for (const a2a of [{ inputModes: ['png'] }, { inputModes: [] }, { extensions: [{ uri: '' }] }]) {
        await expect(node.serve({ port: 0, a2a })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
      }
    } finally {
      await node.stop();
    }
  });
});

describe('a node without such a configuration', () => {
  it('takes parts of every media type, and its card says so [T-D12]', async () => {
    expect((await cardOf(usual)).defaultInputModes).toContain('*/*');
    expect(await refusal(usual, 'SendMessage', typed('image/png'), {})).toEqual([undefined, undefined]);
  });
});

describe('agents of one node with offers of their own', () => {
  const OWN = 'urn:example:own';
  let mixed: TaskNode;

  beforeAll(async () => {
    const agents = {
      plain: { streaming: false, pushNotifications: false, extendedAgentCard: false, inputModes: ['text/plain'] },
      keen: { extensions: [{ uri: OWN, required: true }] },
    };
    mixed = await TaskNode.start({ a2a: { extensions: [{ uri: 'urn:example:all' }], agents } });
    mixed.node.agent({ id: 'keen', capabilities: ['keenness'] }).onTask(() => 'done');
  });

  afterAll(() => mixed.stop());

  const refused = (method: string, params: object, headers = {}) => refusal(mixed, method, params, headers);

  it('say so on their own cards, and not on the node’s [T-D14]', async () => {
    const card = async (id: string) => (await (await mixed.get(`/api/agents/${id}/agent-card`)).json()) as Card;
    expect((await card('plain')).capabilities).toMatchObject({
      streaming: false,
      pushNotifications: false,
      extendedAgentCard: false,
    });
    expect((await card('plain')).defaultInputModes).toEqual(['text/plain']);
    const uris = ({ capabilities }: Card) => capabilities.extensions.map(({ uri }) => uri);
    expect(uris(await card('keen'))).toEqual(expect.arrayContaining(['urn:example:all', OWN]));
    expect(uris(await cardOf(mixed))).not.toContain(OWN);
    expect((await cardOf(mixed)).capabilities).toMatchObject({ streaming: true, extendedAgentCard: true });
  });

  it('are asked for no more than their card promises, by name, by skill and by task [T-D14]', async () => {
    const toPlain = { ...said('x'), tenant: 'plain' };
    const noStream = [-32004, 'UNSUPPORTED_OPERATION'];
    expect(await refused('SendStreamingMessage', toPlain)).toEqual(noStream);
    expect(await refused('GetExtendedAgentCard', { tenant: 'plain' })).toEqual(noStream);
    expect(await refused('GetExtendedAgentCard', {})).toEqual([undefined, undefined]);
    expect(await refused('SendMessage', typed('image/png'))).toEqual([-32005, 'CONTENT_TYPE_NOT_SUPPORTED']);
    const { task } = await mixed.result('SendMessage', toPlain);
    expect(await refused('SubscribeToTask', { id: task.id })).toEqual(noStream);
    const hook = { taskId: task.id, ...HOOK };
    const noPush = [-32003, 'PUSH_NOTIFICATION_NOT_SUPPORTED'];
    expect(await refused('CreateTaskPushNotificationConfig', hook)).toEqual(noPush);
    const missing = [-32008, 'EXTENSION_SUPPORT_REQUIRED'];
    for (const to of [{ tenant: 'keen' }, { metadata: { skill: 'keenness' } }]) {
      expect(await refused('SendMessage', { ...said('x'), ...to })).toEqual(missing);
      expect(await refused('SendMessage', { ...said('x'), ...to }, { 'A2A-Extensions': OWN })).toEqual([
        undefined,
        undefined,
      ]);
    }
  });
});
