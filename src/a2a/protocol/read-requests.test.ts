import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { takeAgentCard } from '../v03/card.js';
import { A2A_LIMITS } from './limits.js';
import {
  readCancelTaskRequest,
  readCreatePushConfigRequest,
  readGetTaskRequest,
  readListPushConfigsRequest,
  readListTasksRequest,
  readPushConfigRequest,
  readSendMessageRequest,
  readSubscribeToTaskRequest,
} from './read-requests.js';
import {
  takeListTasksResponse,
  takePushConfig,
  takeSendMessageResponse,
  takeStreamResponse,
  takeTask,
} from './read-responses.js';
import { paramsOfQuery } from './reading.js';
import { messagesOf, readTaskSend } from './simple.js';

const message = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hello' }] };

function sendWith(part: unknown) {
  return readSendMessageRequest({ message: { ...message, parts: [part] } }).message.parts[0];
}

/** The place and the problem of the fault that a call ends with. */
function faultOf(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    if (error instanceof EclipticError) return [error.code, error.details.field];
    throw error;
  }
  return 'no fault';
}

describe('a part', () => {
  it('is one of text, raw, url and data, and null is data [A2A-1.9.13 A2A-2.5.3]', () => {
    expect(sendWith({ text: '' })).toEqual({ text: '' });
    expect(sendWith({ raw: 'AAEC' })).toEqual({ raw: 'AAEC' });
    expect(sendWith({ url: 'https://a.example/f', filename: 'f', mediaType: 'a/b' })).toEqual({
      url: 'https://a.example/f',
      filename: 'f',
      mediaType: 'a/b',
    });
    expect(sendWith({ data: null })).toEqual({ data: null });
    expect(sendWith({ data: [1, { a: 'b' }] })).toEqual({ data: [1, { a: 'b' }] });
    for (const part of [{}, { text: 'a', data: null }, { text: 'a', url: 'https://a.example' }, { raw: null }]) {
      expect(faultOf(() => sendWith(part))).toEqual(['INVALID_PARAMS', 'message.parts[0]']);
    }
  });

  it('keeps every field that is set', () => {
    const cases: [unknown, string][] = [
      [{ text: 5 }, 'text'],
      [{ raw: 'not base64!' }, 'raw'],
      [{ url: 'no url' }, 'url'],
      [{ text: 'a', metadata: [] }, 'metadata'],
      [{ text: 'a', mediaType: 5 }, 'mediaType'],
      [{ text: 'x'.repeat(A2A_LIMITS.contentChars + 1) }, 'text'],
      [{ data: { deep: nested(100) } }, 'data'],
      [{ data: { text: 'x'.repeat(A2A_LIMITS.dataBytes) } }, 'data'],
    ];
    for (const [part, member] of cases) {
      const [code, field] = faultOf(() => sendWith(part)) as [string, string];
      expect([code, field.startsWith(`message.parts[0].${member}`)]).toEqual(['INVALID_PARAMS', true]);
    }
  });
});

describe('a message', () => {
  it('has an id, a role of the protocol and at least one part [A2A-1.9.13 A2A-2.5.3]', () => {
    const cases: [object, string][] = [
      [{ messageId: '' }, 'message.messageId'],
      [{ messageId: undefined }, 'message.messageId'],
      [{ role: undefined }, 'message.role'],
      [{ role: 'user' }, 'message.role'],
      [{ role: 'ROLE_UNSPECIFIED' }, 'message.role'],
      [{ role: 'ROLE_AGENT' }, 'message.role'],
      [{ parts: [] }, 'message.parts'],
      [{ parts: undefined }, 'message.parts'],
      [{ parts: Array(A2A_LIMITS.parts + 1).fill({ text: '' }) }, 'message.parts'],
      [{ extensions: 'urn:x' }, 'message.extensions'],
      [{ referenceTaskIds: [5] }, 'message.referenceTaskIds[0]'],
    ];
    for (const [change, field] of cases) {
      const call = () => readSendMessageRequest({ message: { ...message, ...change } });
      expect(faultOf(call)).toEqual(['INVALID_PARAMS', field]);
    }
  });

  it('may be in a context with a name of any form [A2A-2.5.11]', () => {
    const contextId = `conversation/${'x'.repeat(200)}`;
    expect(readSendMessageRequest({ message: { ...message, contextId } }).message.contextId).toBe(contextId);
  });

  it('drops unknown and unset fields', () => {
    const read = readSendMessageRequest({
      surprise: 1,
      message: { ...message, kind: 'message', contextId: '', taskId: null, extensions: [] },
    });
    expect(read).toEqual({ message });
  });
});

describe('a request', () => {
  it('refuses a history length below zero [A2A-2.5.4]', () => {
    expect(readGetTaskRequest({ id: 't', historyLength: 0 })).toEqual({ id: 't', historyLength: 0 });
    expect(faultOf(() => readGetTaskRequest({ id: 't', historyLength: -1 }))).toEqual([
      'INVALID_PARAMS',
      'historyLength',
    ]);
    const configuration = { historyLength: -1 };
    expect(faultOf(() => readSendMessageRequest({ message, configuration }))).toEqual([
      'INVALID_PARAMS',
      'configuration.historyLength',
    ]);
  });

  it('takes pages of 1 to 100 tasks', () => {
    for (const pageSize of [1, 100]) expect(readListTasksRequest({ pageSize })).toEqual({ pageSize });
    for (const pageSize of [0, 101, 1.5, '5.5', '101', Number.NaN]) {
      expect(faultOf(() => readListTasksRequest({ pageSize }))).toEqual(['INVALID_PARAMS', 'pageSize']);
    }
    expect(readListTasksRequest(undefined)).toEqual({});
  });

  it('brings times into UTC with milliseconds [A2A-1.9.19]', () => {
    const read = (statusTimestampAfter: unknown) => readListTasksRequest({ statusTimestampAfter }).statusTimestampAfter;
    expect(read('2026-01-31T10:00:00+02:00')).toBe('2026-01-31T08:00:00.000Z');
    expect(read('2026-01-31T08:00:00.123456Z')).toBe('2026-01-31T08:00:00.123Z');
    for (const bad of ['2026-01-31', '31 Jan 2026', '2026-01-31T08:00:00', '2026-13-01T00:00:00Z', 5]) {
      expect(faultOf(() => read(bad))).toEqual(['INVALID_PARAMS', 'statusTimestampAfter']);
    }
  });

  it('filters by a state of the protocol, or by none', () => {
    expect(readListTasksRequest({ status: 'TASK_STATE_UNSPECIFIED' })).toEqual({});
    expect(readListTasksRequest({ status: 'TASK_STATE_WORKING' })).toEqual({ status: 'TASK_STATE_WORKING' });
    expect(faultOf(() => readListTasksRequest({ status: 'working' }))).toEqual(['INVALID_PARAMS', 'status']);
  });

  it('keeps its tenant as it is, and has none when it names none', () => {
    expect(readGetTaskRequest({ id: 't', tenant: ' Acme/é ' }).tenant).toBe(' Acme/é ');
    expect('tenant' in readGetTaskRequest({ id: 't', tenant: '' })).toBe(false);
  });

  it('names a webhook that can be called', () => {
    const url = 'https://hook.example/x';
    const authentication = { scheme: 'Bearer', credentials: 'c' };
    expect(readCreatePushConfigRequest({ taskId: 't', url, authentication, id: '' })).toEqual({
      taskId: 't',
      url,
      authentication,
    });
    for (const bad of ['not a url', 'file:///etc/passwd', 'javascript:alert(1)', '']) {
      expect(faultOf(() => readCreatePushConfigRequest({ taskId: 't', url: bad }))).toEqual(['INVALID_PARAMS', 'url']);
    }
    expect(faultOf(() => readCreatePushConfigRequest({ url }))).toEqual(['INVALID_PARAMS', 'taskId']);
    expect(readPushConfigRequest({ taskId: 't', id: 'c' })).toEqual({ taskId: 't', id: 'c' });
    expect(readListPushConfigsRequest({ taskId: 't', pageSize: 0 })).toEqual({ taskId: 't' });
  });

  it('may come as a query', () => {
    const query = new URLSearchParams('pageSize=5&includeArtifacts=true&historyLength=0&contextId=7&A2A-Version=1.0');
    expect(readListTasksRequest(paramsOfQuery(query))).toEqual({
      pageSize: 5,
      includeArtifacts: true,
      historyLength: 0,
      contextId: '7',
    });
    for (const bad of ['pageSize=x', 'includeArtifacts=1', 'historyLength=-1']) {
      expect(faultOf(() => readListTasksRequest(paramsOfQuery(new URLSearchParams(bad))))).toEqual([
        'INVALID_PARAMS',
        bad.split('=')[0],
      ]);
    }
  });
});

describe('a simple request', () => {
  it('has its parameters under params or at the top', () => {
    const params = { message: 'hi', skill: 's', timeoutMs: 1_000 };
    expect(readTaskSend({ method: 'tasks/send', params })).toEqual(params);
    expect(readTaskSend(params)).toEqual(params);
    expect(faultOf(() => readTaskSend({ params: { message: '' } }))).toEqual(['INVALID_PARAMS', 'params.message']);
    expect(faultOf(() => readTaskSend({ message: 'hi', timeoutMs: 600_001 }))).toEqual(['INVALID_PARAMS', 'timeoutMs']);
  });
});

describe('an answer', () => {
  it('has exactly one kind of content, and a fault names its place', () => {
    const task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } };
    expect(takeSendMessageResponse({ task })).toEqual({ task });
    expect(takeStreamResponse({ message })).toEqual({ message });
    for (const bad of [{}, { task, message }, { statusUpdate: { taskId: 't' } }, { task: { ...task, status: {} } }]) {
      expect(() => takeStreamResponse(bad)).toThrow(expect.objectContaining({ code: 'INVALID_AGENT_RESPONSE' }));
    }
    expect(takeListTasksResponse({ tasks: [task] })).toMatchObject({ nextPageToken: '', totalSize: 1 });
    expect(takePushConfig({ url: 'https://a.example', taskId: 't' })).toMatchObject({ taskId: 't' });
  });

  it('may leave out ids of messages and contexts, as the specification’s examples do [T-D13]', () => {
    const words = { role: 'ROLE_AGENT', parts: [{ text: 'Which one?' }] };
    const status = { state: 'TASK_STATE_INPUT_REQUIRED', message: words };
    const read = { ...status, message: { ...words, messageId: '' } };
    expect(takeSendMessageResponse({ message: words })).toEqual({ message: read.message });
    const task = { id: 't', status, history: [{ ...words, role: 'ROLE_USER' }] };
    const taken = takeSendMessageResponse({ task });
    expect(taken).toMatchObject({ task: { id: 't', contextId: '', status: read } });
    if ('task' in taken) expect(messagesOf(taken.task)).toHaveLength(2);
    expect(takeStreamResponse({ statusUpdate: { taskId: 't', status } })).toMatchObject({
      statusUpdate: { taskId: 't', contextId: '', status: read },
    });
    const artifact = { artifactId: 'a', parts: [{ text: 'x' }] };
    expect(takeStreamResponse({ artifactUpdate: { taskId: 't', artifact } })).toMatchObject({
      artifactUpdate: { taskId: 't', contextId: '', artifact },
    });
  });
});

describe('any JSON', () => {
  it('is read, or refused with a code and a place', () => {
    const readers = [
      readSendMessageRequest,
      readGetTaskRequest,
      readListTasksRequest,
      readCancelTaskRequest,
      readSubscribeToTaskRequest,
      readCreatePushConfigRequest,
      readTaskSend,
      takeTask,
      takeStreamResponse,
      takeAgentCard,
    ];
    const field = fc.constantFrom(
      'message',
      'parts',
      'text',
      'data',
      'id',
      'status',
      'state',
      'task',
      'name',
      'version',
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5, depthSize: 'xsmall' },
        fc.jsonValue({ maxDepth: 1 }),
        fc.dictionary(field, tie('tree'), { maxKeys: 4 }),
        fc.array(tie('tree'), { maxLength: 2 }),
      ),
    }));
    fc.assert(
      fc.property(tree, fc.constantFrom(...readers), (value, read) => {
        try {
          read(value);
        } catch (error) {
          expect(error).toBeInstanceOf(EclipticError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

function nested(levels: number): unknown {
  return levels === 0 ? 0 : [nested(levels - 1)];
}
