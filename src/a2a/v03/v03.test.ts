import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { canonicalCard } from '../protocol/card-fields.js';
import type { METHODS } from '../protocol/json-rpc.js';
import {
  readCreatePushConfigRequest,
  readGetTaskRequest,
  readListPushConfigsRequest,
  readPushConfigRequest,
  readSendMessageRequest,
} from '../protocol/read-requests.js';
import {
  takeListPushConfigsResponse,
  takePushConfig,
  takeSendMessageResponse,
  takeStreamResponse,
  takeTask,
} from '../protocol/read-responses.js';
import type { AgentCard, SecurityScheme, SendMessageRequest, StreamResponse, Task } from '../protocol/types.js';
import { fromV03Card, takeAgentCard, toMergedCard, toV03Card } from './card.js';
import { toV03Error } from './dialect.js';
import { v03JsonRpc } from './json-rpc.js';

/** What @a2a-js/sdk 1.3.0 makes of the same messages, requests and cards. */
interface Recorded {
  readonly events: readonly { readonly v1: StreamResponse; readonly v03: unknown }[];
  readonly requests: readonly { readonly v03: unknown; readonly v1: unknown }[];
  readonly card: { readonly v1: AgentCard; readonly v03: unknown };
}

const recorded: Recorded = JSON.parse(
  readFileSync(new URL('../protocol/fixtures/sdk-1.3.0.json', import.meta.url), 'utf8'),
);

const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] } as const;
const task: Task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } };

describe('0.3, beside the official SDK', () => {
  it('gets the same events', () => {
    for (const { v1, v03 } of recorded.events) expect(plain(v03JsonRpc.toResult('SubscribeToTask', v1))).toEqual(v03);
  });

  it('brings the same events', () => {
    for (const { v1, v03 } of recorded.events) {
      // Whether chunks are appended is always said in 0.3.
      const read = takeStreamResponse(v03JsonRpc.fromResult('SubscribeToTask', v03));
      expect(plain(read)).toEqual(plain(takeStreamResponse(v1)));
    }
  });

  it('brings the same requests', () => {
    for (const { v1, v03 } of recorded.requests) {
      const read = readSendMessageRequest(v03JsonRpc.fromParams('SendMessage', v03));
      const { returnImmediately } = read.configuration!;
      expect(
        plain({ ...read, configuration: { ...read.configuration, returnImmediately: returnImmediately || undefined } }),
      ).toEqual(v1);
    }
  });

  it('gets the same card', () => {
    expect(plain(toV03Card(recorded.card.v1))).toEqual(recorded.card.v03);
  });
});

describe('a 0.3 request', () => {
  it('waits for the task unless it says that it does not', () => {
    const immediately = (configuration: unknown) =>
      readSendMessageRequest(
        v03JsonRpc.fromParams('SendMessage', {
          message: { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'x' }] },
          configuration,
        }),
      ).configuration?.returnImmediately ?? false;
    expect([undefined, {}, { blocking: true }, { blocking: false }].map(immediately)).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  it('is held to the rules of 1.0, with places of faults', () => {
    const cases: [unknown, string][] = [
      [{ role: 'ROLE_USER' }, 'message.role'],
      [{ parts: [] }, 'message.parts'],
      [{ parts: 'x' }, 'message.parts'],
      [{ parts: [{ kind: 'other' }] }, 'message.parts[0].kind'],
      [{ parts: [{ kind: 'file', file: {} }] }, 'message.parts[0]'],
      [{ parts: [{ kind: 'file', file: { bytes: 'AA', uri: 'https://a.example' } }] }, 'message.parts[0]'],
      [{ messageId: '' }, 'message.messageId'],
    ];
    for (const [change, field] of cases) {
      const parts = [{ kind: 'text', text: 'x' }];
      const params = { message: { kind: 'message', messageId: 'm', role: 'user', parts, ...(change as object) } };
      expect(() => readSendMessageRequest(v03JsonRpc.fromParams('SendMessage', params))).toThrow(
        expect.objectContaining({ code: 'INVALID_PARAMS', details: expect.objectContaining({ field }) }),
      );
    }
  });

  it('survives the way through our own client', () => {
    const request: SendMessageRequest = {
      message: { ...message, contextId: 'c', metadata: { a: 1 } },
      configuration: {
        acceptedOutputModes: ['text/plain'],
        historyLength: 3,
        returnImmediately: true,
        taskPushNotificationConfig: {
          url: 'https://hook.example',
          token: 't',
          authentication: { scheme: 'Bearer', credentials: 'c' },
        },
      },
      metadata: { b: 2 },
    };
    const there = v03JsonRpc.fromParams('SendMessage', plain(v03JsonRpc.toParams('SendMessage', request)));
    expect(readSendMessageRequest(there)).toEqual(request);

    const config = { taskId: 't', id: 'p', url: 'https://hook.example' };
    const round = (method: (typeof METHODS)[number], params: object) =>
      v03JsonRpc.fromParams(method, v03JsonRpc.toParams(method, params));
    expect(readCreatePushConfigRequest(round('CreateTaskPushNotificationConfig', config))).toEqual(config);
    const one = { taskId: 't', id: 'p' };
    expect(readPushConfigRequest(round('GetTaskPushNotificationConfig', one))).toEqual(one);
    expect(readPushConfigRequest(round('DeleteTaskPushNotificationConfig', one))).toEqual(one);
    expect(readListPushConfigsRequest(round('ListTaskPushNotificationConfigs', { taskId: 't' }))).toEqual({
      taskId: 't',
    });
    expect(readGetTaskRequest(round('GetTask', { id: 't', historyLength: 1, tenant: 'x' }))).toEqual({
      id: 't',
      historyLength: 1,
    });
  });
});

describe('a 0.3 push configuration without a name', () => {
  it('is found again under its task’s', () => {
    const params = { taskId: 't', pushNotificationConfig: { url: 'https://hook.example' } };
    const made = readCreatePushConfigRequest(v03JsonRpc.fromParams('CreateTaskPushNotificationConfig', params));
    const asked = readPushConfigRequest(v03JsonRpc.fromParams('GetTaskPushNotificationConfig', { id: 't' }));
    expect([made.taskId, made.id]).toEqual([asked.taskId, asked.id]);
  });
});

describe('a 0.3 answer', () => {
  it('is final at the end of the task, and where the caller has to answer', () => {
    const final = (state: Task['status']['state']) =>
      v03JsonRpc.toResult('SubscribeToTask', { statusUpdate: { taskId: 't', contextId: 'c', status: { state } } });
    expect(final('TASK_STATE_WORKING')).toMatchObject({ final: false });
    expect(final('TASK_STATE_AUTH_REQUIRED')).toMatchObject({ final: false });
    for (const state of ['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED', 'INPUT_REQUIRED'] as const) {
      expect(final(`TASK_STATE_${state}`)).toMatchObject({ final: true });
    }
  });

  it('survives the way through our own server', () => {
    const config = { taskId: 't', id: 'p', url: 'https://hook.example' };
    const round = (method: (typeof METHODS)[number], result: unknown) =>
      v03JsonRpc.fromResult(method, plain(v03JsonRpc.toResult(method, result)));
    expect(takeSendMessageResponse(round('SendMessage', { task }))).toEqual({ task });
    expect(takeSendMessageResponse(round('SendMessage', { message }))).toEqual({ message });
    expect(takeTask(round('GetTask', task))).toEqual(task);
    expect(takeStreamResponse(round('SubscribeToTask', { task }))).toEqual({ task });
    expect(takePushConfig(round('GetTaskPushNotificationConfig', config))).toEqual(config);
    expect(takeListPushConfigsResponse(round('ListTaskPushNotificationConfigs', { configs: [config] }))).toEqual({
      configs: [config],
    });
    expect(v03JsonRpc.toResult('DeleteTaskPushNotificationConfig', {})).toBeNull();
    expect(takeAgentCard(round('GetExtendedAgentCard', recorded.card.v1)).skills).toEqual(recorded.card.v1.skills);
  });

  it('keeps data that 0.3 has no place for', () => {
    for (const data of [null, 5, 'text', [1], { a: 1 }, { value: 1 }]) {
      const event: StreamResponse = { message: { ...message, parts: [{ data, metadata: { kept: true } }] } };
      expect(
        takeStreamResponse(
          v03JsonRpc.fromResult('SubscribeToTask', plain(v03JsonRpc.toResult('SubscribeToTask', event))),
        ),
      ).toEqual(event);
    }
  });

  it('has errors without details', () => {
    expect(toV03Error(new EclipticError('TASK_NOT_FOUND', 'gone'))).toEqual({ code: -32001, message: 'gone' });
  });
});

describe('a card', () => {
  const schemes: Record<string, SecurityScheme> = {
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-Key' } },
    bearer: { httpAuthSecurityScheme: { scheme: 'Bearer', bearerFormat: 'JWT' } },
    oauth: {
      oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: 'https://a.example', scopes: { a: 'b' } } } },
    },
    oidc: { openIdConnectSecurityScheme: { openIdConnectUrl: 'https://a.example' } },
    mtls: { mtlsSecurityScheme: {} },
  };
  const card: AgentCard = {
    ...recorded.card.v1,
    securitySchemes: schemes,
    securityRequirements: [{ schemes: { bearer: { list: ['a2a'] } } }],
  };

  it('serves readers of both versions at once', () => {
    const merged = toMergedCard(card);
    expect(merged).toMatchObject({
      protocolVersion: '0.3',
      preferredTransport: 'JSONRPC',
      supportsAuthenticatedExtendedCard: true,
      supportedInterfaces: card.supportedInterfaces,
      security: [{ bearer: ['a2a'] }],
      securityRequirements: card.securityRequirements,
    });
    expect(merged.securitySchemes!.bearer).toEqual({
      type: 'http',
      scheme: 'Bearer',
      bearerFormat: 'JWT',
      ...schemes.bearer,
    });
    expect(canonicalCard(merged)).toBe(canonicalCard(card));
    expect(canonicalCard(takeAgentCard(plain(merged)))).toBe(canonicalCard(card));
  });

  it('of 0.3 keeps its interfaces, schemes and capabilities', () => {
    const read = takeAgentCard(plain(toV03Card(card)));
    expect(read.supportedInterfaces).toEqual(
      card.supportedInterfaces.filter(({ protocolVersion }) => protocolVersion === '0.3'),
    );
    expect(read.securitySchemes).toEqual(schemes);
    expect(read.securityRequirements).toEqual(card.securityRequirements);
    expect(read.capabilities).toEqual(card.capabilities);
  });

  it('without 0.3 interfaces is refused in 0.3', () => {
    const modern = { ...card, supportedInterfaces: card.supportedInterfaces.slice(0, 1) };
    expect(() => toV03Card(modern)).toThrow(expect.objectContaining({ code: 'VERSION_NOT_SUPPORTED' }));
    expect(toMergedCard(modern)).toBe(modern);
  });

  it('that declares no version of the protocol has no interface of it', () => {
    expect(takeAgentCard({ name: 'simple', version: '1', url: 'https://a.example' }).supportedInterfaces).toEqual([]);
    expect(fromV03Card({ protocolVersion: '0.3.0', url: 'https://a.example' }).supportedInterfaces).toEqual([
      { url: 'https://a.example', protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    ]);
  });
});

function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}
