import { describe, expect, it } from 'vitest';
import { parseConfig } from './load.js';
import { readRemoteAgents } from './providers.js';

const read = (a2a: unknown) =>
  parseConfig(JSON.stringify({ agents: { fleet: { a2a } } }), 'ecliptic.json').agents!.fleet!.a2a!;

describe('remote agents in the configuration', () => {
  it('are a list in the order of preference', () => {
    const b = { url: 'https://b.example', id: 'b', capabilities: ['dig'], headers: { 'x-key': 7 } };
    expect(readRemoteAgents(read(['https://a.example', b]))).toEqual({
      type: 'a2a',
      config: {
        endpoints: [
          {
            endpoint: { id: 'https://a.example', url: 'https://a.example', priority: 0, capabilities: [] },
            headers: {},
          },
          {
            endpoint: { id: 'b', url: 'https://b.example', priority: 1, capabilities: ['dig'] },
            headers: { 'x-key': '7' },
          },
        ],
        catalogues: [],
        mesh: undefined,
        timeoutMs: undefined,
        failoverEnabled: true,
      },
    });
  });

  it('may be found, and have their own terms', () => {
    const secret = { credential: 'key', scheme: 'Bearer' };
    const endpoints = [{ url: 'https://a.example', priority: 5, headers: { authorization: secret } }];
    const more = { catalogues: ['https://c.example/list'], mesh: ['dig'], timeoutMs: 1_000, failover: false };
    expect(readRemoteAgents(read({ endpoints, ...more, concurrency: 3, healthMs: 5_000 }))).toEqual({
      type: 'a2a',
      concurrency: 3,
      healthMs: 5_000,
      config: {
        endpoints: [
          {
            endpoint: { id: 'https://a.example', url: 'https://a.example', priority: 5, capabilities: [] },
            headers: { authorization: secret },
          },
        ],
        catalogues: ['https://c.example/list'],
        mesh: ['dig'],
        timeoutMs: 1_000,
        failoverEnabled: false,
      },
    });
  });

  it.each([
    ['none', []],
    ['one that is no URL', ['mars']],
    ['one of another kind', ['ftp://a.example']],
    ['too much concurrency', { endpoints: ['https://a.example'], concurrency: 101 }],
    ['too short an interval', { endpoints: ['https://a.example'], healthMs: 1_000 }],
    ['something unknown', { endpoints: ['https://a.example'], retries: 3 }],
  ])('are refused with %s', (_, a2a) => {
    expect(() => read(a2a)).toThrowError(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});
