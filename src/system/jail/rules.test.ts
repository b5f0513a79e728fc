import { request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { bwrapArgs } from './bwrap.js';
import { orderMounts } from './mounts.js';
import { NetworkRules } from './network-rules.js';
import { JailProxy } from './proxy.js';
import { seatbeltProfile } from './seatbelt.js';

const abilities = { proc: true, noNestedUsers: true };

describe('the arguments of bubblewrap', () => {
  it('show a deeper path over a higher one, and the more generous of two [JL.4]', () => {
    const mounts = orderMounts([
      { path: '/home/me/project', kind: 'write' },
      { path: '/home/me', kind: 'empty' },
      { path: '/home/me/project/data', kind: 'empty' },
      { path: '/home/me/project/data/lanes/mars', kind: 'write' },
      { path: '/home/me/project', kind: 'read' },
    ]);
    expect(mounts.map(({ path, kind }) => `${kind} ${path}`)).toEqual([
      'empty /home/me',
      'write /home/me/project',
      'empty /home/me/project/data',
      'write /home/me/project/data/lanes/mars',
    ]);
  });

  it('leave out what the kernel refuses [JL.7]', () => {
    const init = { mounts: [], links: new Map(), folder: '/w' };
    const all = bwrapArgs({ abilities, ...init });
    expect(all.join(' ')).toContain('--proc /proc --remount-ro /proc');
    expect(all).toContain('--disable-userns');
    const fewer = bwrapArgs({ abilities: { proc: false, noNestedUsers: false }, ...init });
    expect(fewer).not.toContain('--proc');
    expect(fewer).not.toContain('--disable-userns');
    for (const args of [all, fewer]) {
      for (const needed of ['--unshare-user', '--unshare-pid', '--unshare-net', '--die-with-parent', '--cap-drop']) {
        expect(args).toContain(needed);
      }
    }
  });
});

describe('the profile for macOS', () => {
  it('denies by default, and allows the workspace and the ports of the proxy [JL.8]', () => {
    const profile = seatbeltProfile({
      mounts: [
        { path: '/Users/me', kind: 'write', source: '/Users/me/data/jails/mars/home' },
        { path: '/Users/me/a "project"', kind: 'write' },
        { path: '/Users/me/a "project"/data', kind: 'empty' },
        { path: '/Users/me/.gitconfig', kind: 'read' },
      ],
      ports: [4000],
    });
    const lines = profile.trimEnd().split('\n');
    expect(lines.slice(0, 2)).toEqual(['(version 1)', '(deny default)']);
    // Of several rules for a path the last one counts.
    expect(lines.slice(lines.indexOf('(deny file-read* file-write* (subpath "/Users/me"))'))).toEqual([
      '(deny file-read* file-write* (subpath "/Users/me"))',
      '(allow file-read* (subpath "/Users/me/a \\"project\\""))',
      '(allow file-write* (subpath "/Users/me/a \\"project\\""))',
      '(allow file-read* (subpath "/Users/me/.gitconfig"))',
      '(deny file-write* (subpath "/Users/me/.gitconfig"))',
      '(deny file-read* file-write* (subpath "/Users/me/a \\"project\\"/data"))',
      '(allow file-read* file-write* (subpath "/Users/me/data/jails/mars/home"))',
      '(allow network-outbound (remote ip "localhost:4000"))',
    ]);
    expect(profile).not.toMatch(/allow network\*|allow default/);
  });
});

describe('the network of a jail', () => {
  const rules = (...entries: string[]) =>
    new NetworkRules(entries, async (host) => (host === 'rebound.example' ? ['127.0.0.1'] : ['93.184.216.34']));

  it('is the listed hosts and ports, names with public addresses only [JL.6]', async () => {
    const some = rules('api.example:443', '*.models.example:443', '10.0.0.7:8080', 'rebound.example:80');
    expect(await some.resolve('api.example', 443)).toEqual(['93.184.216.34']);
    expect(await some.resolve('API.example', 443)).toEqual(['93.184.216.34']);
    expect(await some.resolve('eu.models.example', 443)).toEqual(['93.184.216.34']);
    expect(await some.resolve('10.0.0.7', 8080)).toEqual(['10.0.0.7']);
    const refused = [
      ['api.example', 80],
      ['models.example', 443],
      ['evilmodels.example', 443],
      ['10.0.0.8', 8080],
      // The name may have been pointed at this machine since it was listed.
      ['rebound.example', 80],
      ['127.0.0.1', 80],
    ] as const;
    for (const [host, port] of refused) {
      await expect(some.resolve(host, port)).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    }
  });

  it('is refused in another form [JL.6]', () => {
    for (const entry of [
      'api.example',
      'https://api.example:443',
      '*:443',
      'a*.example:443',
      'api.example:0',
      'u@h:1',
    ]) {
      expect(() => rules(entry)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    }
  });

  it('has one proxy, whose port is the only one where jails share the network [JL.8]', async () => {
    const proxy = await JailProxy.open(systemRuntime(), { name: 'mars', allow: [], overTcp: true });
    try {
      const status = await new Promise((resolve, reject) => {
        request({ host: '127.0.0.1', port: proxy.port, method: 'CONNECT', path: 'api.example:443' })
          .on('connect', ({ statusCode }, socket) => {
            socket.destroy();
            resolve(statusCode);
          })
          .on('error', reject)
          .end();
      });
      expect(status).toBe(403);
    } finally {
      proxy.close();
    }
  });
});
