import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { type FetchOptions, guardedFetch } from './guarded-fetch.js';
import { AllowList, parseTarget, resolveTarget } from './target.js';

const runtime = systemRuntime();

/** 127.0.0.1 and other places inside, in all the spellings that were ever used to get past a guard. */
const INSIDE = [
  'http://127.0.0.1/',
  'http://127.1/',
  'http://127.0.1/',
  'http://2130706433/',
  'http://0x7f000001/',
  'http://0x7f.1/',
  'http://0177.0.0.1/',
  'http://017700000001/',
  'http://0x7F.0x0.0x0.0x1/',
  'http://127.0.0.1./',
  'http://%31%32%37.0.0.1/',
  'http://127。0。0。1/',
  'http://127．0．0．1/',
  'http://①②⑦.⓪.⓪.①/',
  'http://１２７.0.0.1/',
  'http:\\\\127.0.0.1\\',
  'http:127.0.0.1',
  'http:///127.0.0.1',
  ' http://127.0.0.1 ',
  'ht\ntp://127.0.\t0.1/',
  'HTTP://127.0.0.1:80/',
  'http://0/',
  'http://0.0.0.0/',
  'http://[::]/',
  'http://[::1]/',
  'http://[0:0:0:0:0:0:0:1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[::FFFF:7f00:1]/',
  'http://[::127.0.0.1]/',
  'http://[64:ff9b::7f00:1]/',
  'http://[2002:7f00:1::]/',
  'http://[fe80::1]/',
  'http://[fc00::1]/',
  'http://[ff02::1]/',
  'http://169.254.169.254/latest/meta-data/',
  'http://2852039166/',
  'http://0xA9FEA9FE/',
  'http://[::ffff:169.254.169.254]/',
  'http://10.0.0.1/',
  'http://172.16.0.1/',
  'http://192.168.0.1/',
  'http://100.64.0.1/',
  'http://198.18.0.1/',
  'http://224.0.0.1/',
  'http://255.255.255.255/',
  'https://127.0.0.1/',
];

describe('a fetch', () => {
  it.each(INSIDE)('of %j is refused for its address [SF1]', async (url) => {
    await expect(refusal(url)).resolves.toBe('address');
  });

  it.each([
    'http://localhost/',
    'http://LOCALHOST./',
    'http://ｌocalhost/',
    'http://\u00ADlocalhost/',
    'http://a.localhost/',
    'http://printer.local/',
    'http://metadata.google.internal/',
    'http://x.localdomain/',
    'http://router.home.arpa/',
  ])('of %j is refused for its name, and nobody is asked what it means [SF1]', async (url) => {
    await expect(refusal(url)).resolves.toBe('name');
  });

  it.each([
    ['http://[fe80::1%25eth0]/', 'url'],
    ['http://[::1%25lo]/', 'url'],
    ['http://1.2.3.4.5/', 'url'],
    ['http://256.1.1.1/', 'url'],
    ['http://xn--a/', 'url'],
    ['not a url', 'url'],
    ['/relative', 'url'],
    ['', 'url'],
    [`http://a.test/${'x'.repeat(9_000)}`, 'url'],
    ['http://a..b/', 'name'],
    ['http://a.test../', 'name'],
    [`http://${'a'.repeat(64)}.test/`, 'name'],
    ['http://a.test:0/', 'port'],
    ['http://user@a.test/', 'userinfo'],
    ['http://:secret@a.test/', 'userinfo'],
    ['file:///etc/passwd', 'scheme'],
    ['ftp://a.test/', 'scheme'],
    ['gopher://a.test/', 'scheme'],
    ['data:text/plain,x', 'scheme'],
    ['javascript:1', 'scheme'],
    ['ws://a.test/', 'scheme'],
    ['unix:/var/run/docker.sock', 'scheme'],
  ])('of %j is refused: %s', async (url, reason) => {
    await expect(refusal(url)).resolves.toBe(reason);
  });

  it('may be limited to ports, and to methods that fetch', async () => {
    expect(await refusal('http://a.test:22/', { ports: [80, 443] })).toBe('port');
    expect(await refusal('https://a.test/', { ports: [80] })).toBe('port');
    expect(await refusal('http://a.test/', { method: 'CONNECT' })).toBe('method');
    expect(await refusal('http://a.test/', { method: 'GET /x HTTP/1.1\r\nHost: b' })).toBe('method');
  });

  it('of a name is refused where any of its addresses is not public [SF1 SF2]', async () => {
    for (const answer of [
      ['127.0.0.1'],
      ['93.184.216.34', '10.0.0.1'],
      ['2606:4700::1111', '::1'],
      ['fe80::1%eth0'],
      ['::ffff:10.0.0.1'],
    ]) {
      expect(await refusal('http://rebind.test/', { resolve: async () => answer })).toBe('address');
    }
  });

  it('of any spelling of an IPv4 address is judged by the address [SF1]', async () => {
    const part = fc.integer({ min: 0, max: 255 });
    const radix = fc.constantFrom<(n: number) => string>(
      (n) => String(n),
      (n) => `0x${n.toString(16)}`,
      (n) => `0${n.toString(8)}`,
      (n) => `0X00${n.toString(16).toUpperCase()}`,
      (n) => String.fromCodePoint(...[...String(n)].map((digit) => 0xff10 + Number(digit))),
    );
    const dot = fc.constantFrom('.', '。', '．', '｡', '%2e');
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(fc.constantFrom(10, 127, 0, 224, 255), part, part, part),
        fc.integer({ min: 1, max: 4 }),
        fc.array(radix, { minLength: 4, maxLength: 4 }),
        dot,
        fc.constantFrom('', '.'),
        async (bytes, parts, radixes, separator, end) => {
          const last = bytes.slice(parts - 1).reduce((value, byte) => value * 256 + byte, 0);
          const numbers = [...bytes.slice(0, parts - 1), last];
          const host = numbers.map((number, index) => radixes[index]!(number)).join(separator) + end;
          expect([host, await refusal(`http://${host}/`)]).toEqual([host, 'address']);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('reveals nothing of the URL but its origin [SF7]', async () => {
    const secrets = ['user-secret', 'path-secret', 'query-secret', 'hash-secret'];
    for (const url of [
      'http://user-secret:user-secret@a.test/path-secret?k=query-secret#hash-secret',
      'http://127.0.0.1/path-secret?k=query-secret#hash-secret',
      'http://localhost/path-secret?k=query-secret',
      'http://a.test/path-secret?query-secret',
      'query-secret path-secret',
      'ftp://user-secret@a.test/path-secret',
    ]) {
      const error = await guardedFetch(runtime, url, { resolve: async () => [] }).catch((caught: unknown) => caught);
      const told = JSON.stringify(error) + String((error as Error).stack) + String((error as Error).cause);
      for (const secret of secrets) expect(told).not.toContain(secret);
    }
  });
});

describe('the list of allowed private addresses', () => {
  it('allows its entries and nothing else [SF5]', async () => {
    expect(await allowed('http://127.0.0.1:8080/', ['127.0.0.1:8080'])).toBe(true);
    expect(await allowed('http://2130706433:8080/', ['127.0.0.1:8080'])).toBe(true);
    expect(await allowed('http://[::ffff:7f00:1]:8080/', ['127.0.0.1:8080'])).toBe(true);
    expect(await allowed('http://[::1]:8080/', ['[::1]:8080'])).toBe(true);
    expect(await allowed('http://127.0.0.1:8081/', ['127.0.0.1:8080'])).toBe(false);
    expect(await allowed('http://127.0.0.2:8080/', ['127.0.0.1:8080'])).toBe(false);
    expect(await allowed('http://10.1.2.3/', ['10.1.0.0/16'])).toBe(true);
    expect(await allowed('http://10.2.0.1/', ['10.1.0.0/16'])).toBe(false);
    expect(await allowed('http://[fd00::1]/', ['fd00::/64'])).toBe(true);
    expect(await allowed('http://[::1]/', ['0.0.0.0/0'])).toBe(false);
    expect(await allowed('http://127.0.0.1/', [])).toBe(false);
    expect(await allowed('http://127.0.0.1/', ['127.0.0.1:80'])).toBe(true);
    expect(await allowed('https://127.0.0.1/', ['127.0.0.1:80'])).toBe(false);
  });

  it('allows a local name by its own entry or by all of its addresses [SF5]', async () => {
    const both = ['127.0.0.1', '::1'];
    expect(await allowed('http://localhost:80/', ['localhost:80'], both)).toBe(true);
    expect(await allowed('http://localhost./', ['localhost:80'], both)).toBe(true);
    expect(await allowed('http://localhost/', ['127.0.0.0/8'], both)).toBe(false);
    expect(await allowed('http://localhost/', ['127.0.0.0/8', '::1/128'], both)).toBe(true);
    expect(await allowed('http://sub.localhost/', ['localhost:80'], both)).toBe(false);
    expect(await allowed('http://box.internal/', ['10.0.0.0/8'], ['93.184.216.34'])).toBe(false);
    expect(await allowed('http://evil.test/', ['localhost:80'], both)).toBe(false);
  });

  it('allows no multicast, reserved or unspecified address unless its range is listed [SF5]', async () => {
    for (const url of ['http://0.0.0.0/', 'http://224.0.0.1/', 'http://255.255.255.255/', 'http://[::]/']) {
      expect(await allowed(url, true)).toBe(false);
      expect(await allowed(url, ['0.0.0.0/0', '::/0'])).toBe(true);
    }
    for (const url of ['http://10.0.0.1/', 'http://[::1]/', 'http://[fe80::1]/', 'http://x.local/']) {
      expect(await allowed(url, true, ['192.168.0.9'])).toBe(true);
    }
  });

  it.each([
    '10.0.0.1/8',
    'localhost',
    'http://localhost:80',
    'a:b',
    'a@b:80',
    'a/b:80',
    '',
    '[::1]',
    'a:99999',
    'a:0',
    'a..b:80',
  ])('has no entry %j', (entry) => {
    expect(() => new AllowList([entry])).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});

/** The reason of the refusal; nobody may be asked for a name unless the test answers. */
async function refusal(url: string, options: FetchOptions = {}): Promise<unknown> {
  const resolve = () => Promise.reject(new Error('asked'));
  try {
    await guardedFetch(runtime, url, { resolve, timeoutMs: 2_000, ...options });
    return 'fetched';
  } catch (error) {
    const { code, details } = error as { code: string; details: Record<string, unknown> };
    return code === 'FETCH_REFUSED' ? details.reason : code;
  }
}

async function allowed(url: string, list: boolean | string[], addresses: string[] = []): Promise<boolean> {
  try {
    await resolveTarget(parseTarget(url), new AllowList(list), async () => addresses);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: 'FETCH_REFUSED' });
    return false;
  }
}
