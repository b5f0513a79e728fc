import { describe, expect, it } from 'vitest';
import { type Part, Parts } from './part.js';

describe('parts', () => {
  it('start in order and stop in reverse', async () => {
    const { parts, log } = listed('store', 'mail', 'network');
    await parts.start();
    await parts.stop();
    expect(log).toEqual(['+store', '+mail', '+network', '-network', '-mail', '-store']);
    await parts.stopped;
  });

  it('stop in reverse when a start fails half-way, and the failure is thrown', async () => {
    const { parts, log } = listed('store', 'mail', 'network');
    parts.add({ name: 'broken', start: () => Promise.reject(new Error('port taken')) });
    parts.add({ name: 'gateway', start: () => log.push('+gateway'), stop: () => log.push('-gateway') });
    await expect(parts.start()).rejects.toThrow('port taken');
    expect(log).toEqual(['+store', '+mail', '+network', '-gateway', '-network', '-mail', '-store']);
  });

  it('stop all the others when one fails to stop, and its error is thrown', async () => {
    const { parts, log } = listed('store');
    parts.add({ name: 'broken', stop: () => Promise.reject(new Error('disk full')) });
    parts.add({ name: 'gateway', stop: () => log.push('-gateway') });
    await expect(parts.stop()).rejects.toThrow('disk full');
    expect(log).toEqual(['-gateway', '-store']);
  });

  it('stop once, however often they are told to', async () => {
    const { parts, log } = listed('store');
    await Promise.all([parts.stop(), parts.stop()]);
    expect(log).toEqual(['-store']);
  });

  it('are only stopped when they were added after the start', async () => {
    const { parts, log } = listed('store');
    await parts.start();
    parts.add(part('gateway', log));
    await parts.stop();
    expect(log).toEqual(['+store', '-gateway', '-store']);
  });
});

function listed(...names: string[]): { parts: Parts; log: string[] } {
  const log: string[] = [];
  const parts = new Parts();
  parts.add(...names.map((name) => part(name, log)));
  return { parts, log };
}

function part(name: string, log: string[]): Part {
  return { name, start: () => log.push(`+${name}`), stop: () => log.push(`-${name}`) };
}
