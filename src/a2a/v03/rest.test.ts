import { describe, expect, it } from 'vitest';
import type { Part, Task } from '../protocol/types.js';
import { v03Rest } from './rest.js';

const parts: Part[] = [
  { text: 'hello' },
  { raw: 'AAE=', mediaType: 'image/png' },
  { url: 'https://files.example/1', mediaType: 'text/plain' },
  { data: { a: [1] } },
];

const content = [
  { text: 'hello' },
  { file: { fileWithBytes: 'AAE=', mimeType: 'image/png' } },
  { file: { fileWithUri: 'https://files.example/1', mimeType: 'text/plain' } },
  { data: { data: { a: [1] } } },
];

const message = { messageId: 'm', role: 'ROLE_USER', parts } as const;

describe('0.3 over HTTP', () => {
  it('has messages with content, and says whether it waits', () => {
    const request = { message, configuration: { returnImmediately: true }, metadata: { a: 1 } };
    const old = { message: { messageId: 'm', role: 'ROLE_USER', content }, metadata: { a: 1 } };
    expect(v03Rest.toParams('SendMessage', request)).toEqual({ ...old, configuration: { blocking: false } });
    expect(v03Rest.fromParams('SendMessage', { ...old, configuration: {} })).toMatchObject(request);
    const waits = v03Rest.fromParams('SendMessage', { ...old, configuration: { blocking: true } });
    expect(waits).toMatchObject({ configuration: { returnImmediately: false } });
    expect(v03Rest.fromParams('SendMessage', old)).toMatchObject({ message, configuration: undefined });
  });

  it('spells a canceled task with two l, and gives tasks back as they were', () => {
    const status = { state: 'TASK_STATE_CANCELED', message: { ...message, role: 'ROLE_AGENT' } } as const;
    const artifacts = [{ artifactId: 'a', parts }];
    const task: Task = { id: 't', contextId: 'c', status, artifacts, history: [message] };
    const old = v03Rest.toResult('GetTask', task);
    expect(old).toMatchObject({ status: { state: 'TASK_STATE_CANCELLED' }, artifacts: [{ parts: content }] });
    expect(v03Rest.fromResult('GetTask', old)).toEqual(task);
    const update = { statusUpdate: { taskId: 't', contextId: 'c', status } };
    const oldUpdate = v03Rest.toResult('SubscribeToTask', update);
    expect(oldUpdate).toMatchObject({ statusUpdate: { final: true } });
    expect(v03Rest.fromResult('SubscribeToTask', oldUpdate)).toMatchObject(update);
  });

  it('wraps data that is no object', () => {
    const said = v03Rest.toParams('SendMessage', { message: { ...message, parts: [{ data: [1, 2] }] } });
    expect(said).toMatchObject({ message: { content: [{ data: { data: { value: [1, 2] } } }] } });
  });

  it('names push configurations as resources', () => {
    const config = { taskId: 't', id: 'p', url: 'https://hook.example/', authentication: { scheme: 'Bearer' } };
    const old = v03Rest.toResult('GetTaskPushNotificationConfig', config);
    expect(old).toEqual({
      name: 'tasks/t/pushNotificationConfigs/p',
      pushNotificationConfig: { id: 'p', url: 'https://hook.example/', authentication: { schemes: ['Bearer'] } },
    });
    expect(v03Rest.fromResult('GetTaskPushNotificationConfig', old)).toMatchObject(config);
  });

  it.each([
    [{ messageId: 'm', role: 'ROLE_USER', parts }, 'A2A-Version: 1.0'],
    [{ messageId: 'm', role: 'ROLE_USER', content: [{}] }, 'exactly one of text, file and data, and has 0'],
    [{ messageId: 'm', role: 'ROLE_USER', content: [{ text: 'a', data: {} }] }, 'and has 2'],
  ])('refuses what is no message of it: %j', (wrong, reason) => {
    expect(() => v03Rest.fromParams('SendMessage', { message: wrong })).toThrow(reason);
  });
});
