import { describe, expect, it } from 'vitest';
import { activateExtensions, negotiateVersion, parseExtensions, writeExtensions } from './headers.js';

describe('the version of a request', () => {
  it('is 0.3 when none is sent [A2A-1.9.1]', () => {
    for (const header of [undefined, '', '  ']) expect(negotiateVersion(header)).toBe('0.3');
  });

  it('has no patch number that counts [A2A-1.9.2 A2A-2.5.2]', () => {
    for (const header of ['1.0', '1.0.0', '1.0.1', ' 1.0.99 ']) expect(negotiateVersion(header)).toBe('1.0');
    expect(negotiateVersion('0.3.0')).toBe('0.3');
  });

  it('may be in the query, and the header goes first [A2A-1.9.3 A2A-2.5.2]', () => {
    expect(negotiateVersion(undefined, new URLSearchParams('A2A-Version=1.0'))).toBe('1.0');
    expect(negotiateVersion('', new URLSearchParams('a2a-version=1.0.1'))).toBe('1.0');
    expect(negotiateVersion('0.3', new URLSearchParams('A2A-Version=1.0'))).toBe('0.3');
  });

  it('is refused when it is not spoken here', () => {
    for (const header of ['2.0', '1.1', '0.2', '1', 'latest', '1.0-beta', '1.0, 0.3']) {
      expect(() => negotiateVersion(header)).toThrow(expect.objectContaining({ code: 'VERSION_NOT_SUPPORTED' }));
    }
  });
});

describe('extensions', () => {
  it('are read from one header or several, each once', () => {
    expect(parseExtensions('urn:a, urn:b ,,urn:a', ['urn:c'], undefined)).toEqual(['urn:a', 'urn:b', 'urn:c']);
    expect(writeExtensions(['urn:a', 'urn:b'])).toBe('urn:a, urn:b');
  });

  it('are active when they are asked for and offered, exactly as named', () => {
    const offered = [{ uri: 'urn:a:2' }, { uri: 'urn:b' }];
    expect(activateExtensions(['urn:a:1', 'urn:b', 'urn:c'], offered)).toEqual(['urn:b']);
  });

  it('must be asked for when they are required', () => {
    const offered = [{ uri: 'urn:a', required: true }];
    expect(activateExtensions(['urn:a'], offered)).toEqual(['urn:a']);
    expect(() => activateExtensions([], offered)).toThrow(
      expect.objectContaining({ code: 'EXTENSION_REQUIRED', details: { missing: ['urn:a'] } }),
    );
  });
});
