import { describe, expect, it } from 'vitest';
import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import { A2A_ERRORS, codeOfWireError, toGrpcError, toHttpError, toJsonRpcError, wireErrorOf } from './errors.js';
import {
  idOf,
  isStreaming,
  jsonRpcError,
  jsonRpcResult,
  METHODS,
  methodName,
  methodOf,
  parseJson,
  readJsonRpcRequest,
} from './json-rpc.js';

describe('the errors of the protocol', () => {
  it('have the numbers of 1.0.1 on every binding', () => {
    expect(Object.values(A2A_ERRORS).map(({ reason, rpc, http, grpc }) => [reason, rpc, grpc, http])).toEqual([
      ['TASK_NOT_FOUND', -32001, 'NOT_FOUND', 404],
      ['TASK_NOT_CANCELABLE', -32002, 'FAILED_PRECONDITION', 400],
      ['PUSH_NOTIFICATION_NOT_SUPPORTED', -32003, 'FAILED_PRECONDITION', 400],
      ['UNSUPPORTED_OPERATION', -32004, 'FAILED_PRECONDITION', 400],
      ['CONTENT_TYPE_NOT_SUPPORTED', -32005, 'INVALID_ARGUMENT', 400],
      ['INVALID_AGENT_RESPONSE', -32006, 'INTERNAL', 500],
      ['EXTENDED_AGENT_CARD_NOT_CONFIGURED', -32007, 'FAILED_PRECONDITION', 400],
      ['EXTENSION_SUPPORT_REQUIRED', -32008, 'FAILED_PRECONDITION', 400],
      ['VERSION_NOT_SUPPORTED', -32009, 'FAILED_PRECONDITION', 400],
    ]);
  });

  it('carry an ErrorInfo on each binding', () => {
    const error = new EclipticError('TASK_NOT_FOUND', 'no task', { taskId: 't', deep: { not: 'sent' } });
    const info = {
      '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
      reason: 'TASK_NOT_FOUND',
      domain: 'a2a-protocol.org',
      metadata: { taskId: 't' },
    };
    expect(toJsonRpcError(error)).toEqual({ code: -32001, message: 'no task', data: [info] });
    expect(toHttpError(error)).toEqual({
      status: 404,
      body: { error: { code: 404, status: 'NOT_FOUND', message: 'no task', details: [info] } },
    });
    expect(toGrpcError(error)).toEqual({ code: 5, message: 'no task', details: [info] });
  });

  it('say of a wrong parameter where it is', () => {
    const error = new EclipticError('INVALID_PARAMS', 'id must be …', { field: 'id', problem: 'must be …' });
    expect(toJsonRpcError(error)).toMatchObject({ code: -32602 });
    expect(toJsonRpcError(error).data[1]).toEqual({
      '@type': 'type.googleapis.com/google.rpc.BadRequest',
      fieldViolations: [{ field: 'id', description: 'must be …' }],
    });
  });

  it('are found again by a client', () => {
    for (const [code, { rpc, reason }] of Object.entries(A2A_ERRORS)) {
      expect([codeOfWireError(rpc, undefined), codeOfWireError(undefined, reason)]).toEqual([code, code]);
    }
    expect(codeOfWireError(-32602, undefined)).toBe('INVALID_PARAMS');
    expect(codeOfWireError(-1, 'OTHER')).toBeUndefined();
  });
});

describe('the errors of the catalogue', () => {
  it('all have a number for JSON-RPC, an HTTP status and a gRPC status that agree', () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      const { rpc, http, grpc, reason } = wireErrorOf(code);
      expect(http).toBe(ERRORS[code].http);
      expect(rpc).toBeLessThan(0);
      expect(reason).toMatch(/^[A-Z][A-Z_]*$/);
      if (http >= 500) expect([code, grpc]).not.toEqual([code, 'INVALID_ARGUMENT']);
      if (http < 500) expect([code, grpc]).not.toEqual([code, 'INTERNAL']);
    }
  });

  it('never reveal the text of an unexpected error', () => {
    expect(JSON.stringify(toHttpError(new Error('password=hunter2')))).not.toContain('hunter2');
    expect(toJsonRpcError('anything')).toMatchObject({ code: -32603, message: 'internal error' });
  });
});

describe('a JSON-RPC request', () => {
  it('that is malformed is an invalid request, and wrong parameters are invalid parameters [A2A-2.5.6]', () => {
    const answered = (value: unknown) => {
      try {
        readJsonRpcRequest(value);
        return undefined;
      } catch (error) {
        return jsonRpcError(idOf(value), error);
      }
    };
    const wrong = [
      {},
      [],
      5,
      null,
      { jsonrpc: '1.0', id: 7, method: 'GetTask' },
      { jsonrpc: '2.0', id: 7 },
      { jsonrpc: '2.0', id: 7, method: 5 },
      { jsonrpc: '2.0', id: {}, method: 'GetTask' },
      { jsonrpc: '2.0', id: 1.5, method: 'GetTask' },
    ];
    for (const value of wrong) expect(answered(value)).toMatchObject({ error: { code: -32600 } });
    expect(answered({ jsonrpc: '2.0', id: 7, method: 'GetTask', params: [] })).toMatchObject({
      id: 7,
      error: { code: -32602 },
    });
    expect(answered({ jsonrpc: '1.0', id: 'a' })).toMatchObject({ id: 'a' });
    expect(answered({ jsonrpc: '2.0', id: null, method: 'GetTask' })).toBeUndefined();
  });

  it('must be JSON', () => {
    expect(() => parseJson('{"jsonrpc":')).toThrow(expect.objectContaining({ code: 'INVALID_JSON' }));
    expect(wireErrorOf('INVALID_JSON').rpc).toBe(-32700);
    expect(jsonRpcResult(1, { a: 1 })).toEqual({ jsonrpc: '2.0', id: 1, result: { a: 1 } });
  });

  it('names a method of its version', () => {
    for (const method of METHODS) {
      expect(methodOf(methodName(method, '1.0')!, '1.0')).toBe(method);
      const old = methodName(method, '0.3');
      if (method === 'ListTasks') expect(old).toBeUndefined();
      else expect(methodOf(old!, '0.3')).toBe(method);
    }
    for (const name of ['message/send', 'toString', '']) {
      expect(() => methodOf(name, '1.0')).toThrow(expect.objectContaining({ code: 'METHOD_NOT_FOUND' }));
    }
    expect(() => methodOf('SendMessage', '0.3')).toThrow('send the header A2A-Version: 1.0');
    expect(wireErrorOf('METHOD_NOT_FOUND').rpc).toBe(-32601);
    expect(METHODS.filter(isStreaming)).toEqual(['SendStreamingMessage', 'SubscribeToTask']);
  });
});
