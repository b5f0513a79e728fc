import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import { isRetryable, NormalizedProviderError, normalizeAbort, normalizeError } from './errors.js';

const codes = Object.keys(ERRORS) as ErrorCode[];

describe('normalizeError', () => {
  it.each([
    ['an exit code', { exitCode: 137 }, 'PROVIDER_CRASHED'],
    ['a signal', { signal: 'SIGKILL', exitCode: null }, 'PROVIDER_CRASHED'],
    ['a program that is not there', systemError('ENOENT', 'spawn nothing'), 'PROVIDER_INIT_FAILED'],
    ['a refused connection', systemError('ECONNREFUSED'), 'PROVIDER_UNAVAILABLE'],
    ['a broken connection', systemError('ECONNRESET'), 'PROVIDER_CRASHED'],
    ['a connection that times out', systemError('ETIMEDOUT'), 'PROVIDER_TIMEOUT'],
    ['a failed fetch', new TypeError('x', { cause: systemError('ECONNREFUSED') }), 'PROVIDER_UNAVAILABLE'],
    ['HTTP 400', { status: 400 }, 'PROVIDER_INVALID_INPUT'],
    ['HTTP 401', { status: 401 }, 'PROVIDER_CREDENTIAL_MISSING'],
    ['HTTP 403', { statusCode: 403 }, 'PROVIDER_CREDENTIAL_DENIED'],
    ['HTTP 404', { status: 404 }, 'PROVIDER_TOOL_NOT_FOUND'],
    ['HTTP 418', { status: 418 }, 'PROVIDER_EXECUTE_FAILED'],
    ['HTTP 426', { status: 426 }, 'PROVIDER_PROTOCOL_MISMATCH'],
    ['HTTP 429', { status: 429 }, 'PROVIDER_RATE_LIMITED'],
    ['HTTP 500', { status: 500 }, 'PROVIDER_EXECUTE_FAILED'],
    ['HTTP 503', { code: 503 }, 'PROVIDER_UNAVAILABLE'],
    ['JSON-RPC: parse error', { code: -32700 }, 'PROVIDER_PROTOCOL_MISMATCH'],
    ['JSON-RPC: no such method', { code: -32601 }, 'PROVIDER_TOOL_NOT_FOUND'],
    ['JSON-RPC: invalid params', { code: -32602 }, 'PROVIDER_INVALID_INPUT'],
    ['JSON-RPC: internal error', { code: -32603 }, 'PROVIDER_EXECUTE_FAILED'],
    ['JSON-RPC: cancelled', { code: -32800 }, 'PROVIDER_CANCELLED'],
    ['an aborted call', new DOMException('x', 'AbortError'), 'PROVIDER_CANCELLED'],
    ['a timed-out call', new DOMException('x', 'TimeoutError'), 'PROVIDER_TIMEOUT'],
    ['input of the wrong shape', z.string().safeParse(7).error, 'PROVIDER_INVALID_INPUT'],
    ['a plain error', new Error('timeout exit init denied 401'), 'PROVIDER_EXECUTE_FAILED'],
    ['text', 'PROVIDER_TIMEOUT: timed out', 'PROVIDER_EXECUTE_FAILED'],
    ['nothing', undefined, 'PROVIDER_EXECUTE_FAILED'],
  ])('knows %s by its structure [FR-025-011 T020.5a]', (_, error, code) => {
    expect(normalizeError(error, 'mcp', 'c-1')).toMatchObject({
      code,
      providerSource: 'mcp',
      correlationId: 'c-1',
      retryable: ERRORS[code as ErrorCode].retryable,
    });
    expect(normalizeError(error, 'mcp').originalError).toBe(error);
  });

  it.each([
    ['REQUEST_TIMEOUT', {}, 'PROVIDER_TIMEOUT'],
    ['PROCESS_ENDED', {}, 'PROVIDER_CRASHED'],
    ['PROCESS_START_FAILED', {}, 'PROVIDER_INIT_FAILED'],
    ['CANCELLED', {}, 'PROVIDER_CANCELLED'],
    ['FETCH_FAILED', { sent: false }, 'PROVIDER_UNAVAILABLE'],
    ['FETCH_FAILED', { sent: true }, 'PROVIDER_CRASHED'],
    ['AGENT_UNAVAILABLE', { outcome: 'unknown' }, 'PROVIDER_CRASHED'],
    ['AGENT_UNAVAILABLE', { outcome: 'not-delivered' }, 'PROVIDER_UNAVAILABLE'],
    ['REMOTE_BUSY', { status: 429 }, 'PROVIDER_RATE_LIMITED'],
    ['REMOTE_BUSY', { status: 503 }, 'PROVIDER_UNAVAILABLE'],
    ['REMOTE_BUSY', {}, 'PROVIDER_UNAVAILABLE'],
    ['REMOTE_FAILED', { status: 403 }, 'PROVIDER_CREDENTIAL_DENIED'],
    ['REMOTE_FAILED', {}, 'PROVIDER_EXECUTE_FAILED'],
    ['LOGIN_REQUIRED', {}, 'PROVIDER_CREDENTIAL_MISSING'],
    ['TOOL_NOT_FOUND', {}, 'PROVIDER_TOOL_NOT_FOUND'],
    ['PROTOCOL_MISMATCH', {}, 'PROVIDER_PROTOCOL_MISMATCH'],
    ['SANDBOX_VIOLATION', {}, 'PROVIDER_POLICY_DENIED'],
    ['HANDLER_FAILED', {}, 'PROVIDER_EXECUTE_FAILED'],
    ['PROVIDER_UNKNOWN', {}, 'PROVIDER_EXECUTE_FAILED'],
    ['PROVIDER_RATE_LIMITED', {}, 'PROVIDER_RATE_LIMITED'],
  ] as const)('knows our own %s %j as %s', (code, details, expected) => {
    expect(normalizeError(new EclipticError(code, 'x', details), 'a2a').code).toBe(expected);
  });

  it('reads -32000 as a missing login for ACP only', () => {
    expect(normalizeError({ code: -32000 }, 'acp').code).toBe('PROVIDER_CREDENTIAL_MISSING');
    expect(normalizeError({ code: -32000 }, 'mcp').code).toBe('PROVIDER_EXECUTE_FAILED');
  });

  it('never returns PROVIDER_UNKNOWN for any input [SC-025-004 T020.5b]', () => {
    const thing = fc.oneof(
      fc.anything(),
      fc.record(
        { code: fc.oneof(fc.integer(), fc.string()), status: fc.integer(), name: fc.string() },
        { requiredKeys: [] },
      ),
      fc.constantFrom(...codes).map((code) => new EclipticError(code, 'x')),
      fc.anything().map((cause) => new Error('x', { cause })),
    );
    fc.assert(
      fc.property(thing, fc.constantFrom('acp', 'mcp', 'a2a', 'command', 'internal'), (error, source) => {
        const normal = normalizeError(error, source as 'acp', 'c');
        expect(normal.code).toMatch(/^PROVIDER_/);
        expect(normal.code).not.toBe('PROVIDER_UNKNOWN');
        expect(normal.retryable).toBe(ERRORS[normal.code].retryable);
        expect(isRetryable(normal)).toBe(normal.retryable);
      }),
    );
  });

  it('keeps a normalised error, and adds a missing correlation id', () => {
    const error = new NormalizedProviderError('PROVIDER_TIMEOUT', 'late', 'acp', { details: { ms: 5 } });
    expect(normalizeError(error, 'mcp')).toBe(error);
    const known = normalizeError(error, 'mcp', 'c-1');
    expect(known).toMatchObject({ code: 'PROVIDER_TIMEOUT', providerSource: 'acp', correlationId: 'c-1' });
    expect(normalizeError(known, 'mcp', 'c-2')).toBe(known);
    expect(known.toJSON().details).toEqual({ ms: 5, providerSource: 'acp', correlationId: 'c-1' });
  });

  it('follows a circular chain of causes to a limit', () => {
    const error = new Error('x');
    error.cause = error;
    expect(normalizeError(error, 'acp').code).toBe('PROVIDER_EXECUTE_FAILED');
  });
});

describe('the retryable flag', () => {
  it('is that of the catalogue for every code [T020.5c]', () => {
    const never = ['INIT_FAILED', 'POLICY_DENIED', 'CANCELLED', 'INVALID_INPUT', 'TOOL_NOT_FOUND'];
    const neither = ['CREDENTIAL_MISSING', 'CREDENTIAL_DENIED', 'PROTOCOL_MISMATCH', 'NOT_FOUND', 'EXISTS'];
    const no = new Set([...never, ...neither].map((name) => `PROVIDER_${name}`));
    for (const code of codes.filter((one) => one.startsWith('PROVIDER_'))) {
      expect([code, ERRORS[code].retryable]).toEqual([code, !no.has(code)]);
    }
    expect(isRetryable({ status: 503 })).toBe(true);
    expect(isRetryable({ status: 400 })).toBe(false);
  });
});

describe('normalizeAbort', () => {
  it('gives the reason for which work was aborted', () => {
    const abort = (reason?: unknown) => normalizeAbort(AbortSignal.abort(reason), 'acp', 'c').code;
    expect(abort()).toBe('PROVIDER_CANCELLED');
    expect(abort('enough')).toBe('PROVIDER_CANCELLED');
    expect(abort(new EclipticError('NODE_STOPPED', 'x'))).toBe('PROVIDER_TERMINATED');
    expect(abort(new EclipticError('REQUEST_TIMEOUT', 'x'))).toBe('PROVIDER_TIMEOUT');
    expect(abort(new EclipticError('CANCELLED', 'x'))).toBe('PROVIDER_CANCELLED');
  });
});

function systemError(code: string, syscall = 'connect'): Error {
  return Object.assign(new Error('the text says nothing'), { code, syscall });
}
