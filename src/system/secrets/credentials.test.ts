import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { type CredentialEvent, Credentials } from './credentials.js';
import type { Keychain } from './keychain.js';
import type { Secret } from './secret.js';

const MARS = { provider: 'mars', workspace: 'default', name: 'token' };
const VENUS = { ...MARS, provider: 'venus' };
const VALUE = 'ghp_Tr0ub4dor&3-äöü';

let folder: string;
let runtime: SimulatedRuntime;
let events: CredentialEvent[];
let credentials: Credentials;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-credentials-'));
  runtime = new SimulatedRuntime();
  events = [];
  credentials = open();
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function open(keychain?: Keychain): Credentials {
  return new Credentials({ runtime, keychain, report: (event) => events.push(event) }, { folder, graceMs: 1_000 });
}

function resolve(place = MARS, from = credentials): Promise<Secret> {
  return from.resolve(place.provider, place.workspace, place.name);
}

const revealed = async (place = MARS, from = credentials) => (await resolve(place, from)).reveal();

/** Every file under the folder of credentials. */
function files(under = join(folder, 'credentials')): string[] {
  if (!existsSync(under)) return [];
  return readdirSync(under, { withFileTypes: true }).flatMap((entry) => {
    const path = join(under, entry.name);
    return entry.isDirectory() ? files(path) : path;
  });
}

const sealed = () => files().filter((file) => /\d+\.json$/.test(file));

/** Where that credential is. */
function fileOf({ provider }: { provider: string }): string {
  return sealed().find((file) => JSON.parse(readFileSync(file, 'utf8')).provider === provider)!;
}

function edit(file: string, change: (stored: Record<string, unknown>) => object): void {
  writeFileSync(
    file,
    JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...change(JSON.parse(readFileSync(file, 'utf8'))) }),
  );
}

describe('credentials', () => {
  it('are returned as they were set, also after a restart, and only for their provider and workspace [FR-025-006]', async () => {
    await credentials.set(MARS, VALUE);
    await credentials.set(VENUS, 'another value');
    const later = open();
    expect(await revealed(MARS, later)).toBe(VALUE);
    expect(await revealed(VENUS, later)).toBe('another value');
    for (const place of [
      { ...MARS, provider: 'pluto' },
      { ...MARS, workspace: 'w2' },
      { ...MARS, name: 'other' },
    ]) {
      await expect(resolve(place, later)).rejects.toMatchObject({ code: 'CREDENTIAL_MISSING', retryable: false });
    }
  });

  it('keep any text, for any names', async () => {
    const name = fc.string({ minLength: 1, maxLength: 40 }).filter((text) => !/[\p{Cc}\p{Cs}]/u.test(text));
    const value = fc.string({ minLength: 1, unit: 'binary' });
    await fc.assert(
      fc.asyncProperty(name, name, name, value, async (provider, workspace, credential, text) => {
        const place = { provider, workspace, name: credential };
        await credentials.set(place, text);
        expect(await revealed(place)).toBe(Buffer.from(text).toString());
      }),
      { numRuns: 50 },
    );
  });

  it('are on disk for their owner only, and encrypted', async () => {
    await credentials.set(MARS, VALUE);
    await credentials.rotate(MARS, `${VALUE}2`);
    // The key, the value, and an empty place of the one before it.
    expect(
      files()
        .map((file) => statSync(file).size > 0)
        .sort(),
    ).toEqual([false, true, true]);
    for (const file of files()) {
      expect(statSync(file).mode & 0o777).toBe(0o600);
      const text = readFileSync(file, 'utf8');
      for (const form of [VALUE, Buffer.from(VALUE).toString('base64'), Buffer.from(VALUE).toString('hex')]) {
        expect(text).not.toContain(form);
      }
    }
    expect(statSync(join(folder, 'credentials')).mode & 0o777).toBe(0o700);
  });

  it('do not appear in text, JSON or logs', async () => {
    await credentials.set(MARS, VALUE);
    const secret = await resolve();
    const shown = [String(secret), `${secret}`, JSON.stringify({ secret }), inspect({ secret }, { showHidden: true })];
    shown.push(JSON.stringify(structuredClone({ secret })), inspect(Object.entries(secret)));
    for (const text of shown) expect(text).not.toContain(VALUE);
    expect(shown[0]).toBe('[secret]');
  });

  it('take effect on the next call when rotated, while calls in flight keep theirs for the grace period [SC-025-005]', async () => {
    await credentials.set(MARS, 'one');
    const early = await resolve();
    await credentials.rotate(MARS, 'two');
    expect(await revealed()).toBe('two');
    expect(early.reveal()).toBe('one');
    await runtime.advance(500);
    const middle = await resolve();
    // A further rotation gives the first value no more time.
    await credentials.rotate(MARS, 'three');
    await runtime.advance(499);
    expect(early.reveal()).toBe('one');
    await runtime.advance(1);
    expect(() => early.reveal()).toThrow(expect.objectContaining({ code: 'CREDENTIAL_DENIED' }));
    expect(middle.reveal()).toBe('two');
    await runtime.advance(500);
    expect(() => middle.reveal()).toThrow(expect.objectContaining({ code: 'CREDENTIAL_DENIED' }));
    expect(await revealed()).toBe('three');
  });

  it('end at once when revoked or replaced, also for calls in flight', async () => {
    await credentials.set(MARS, 'one');
    const one = await resolve();
    await credentials.rotate(MARS, 'two');
    const two = await resolve();
    await credentials.revoke(MARS);
    await expect(resolve()).rejects.toMatchObject({ code: 'CREDENTIAL_DENIED', retryable: false });
    for (const secret of [one, two])
      expect(() => secret.reveal()).toThrow(expect.objectContaining({ code: 'CREDENTIAL_DENIED' }));
    await expect(credentials.rotate(MARS, 'three')).rejects.toMatchObject({ code: 'CREDENTIAL_DENIED' });
    await credentials.set(MARS, 'four');
    expect(await revealed()).toBe('four');
    // What was revoked does not come back with its successor.
    for (const secret of [one, two])
      expect(() => secret.reveal()).toThrow(expect.objectContaining({ code: 'CREDENTIAL_DENIED' }));
    const four = await resolve();
    await credentials.set(MARS, 'five');
    expect(() => four.reveal()).toThrow(expect.objectContaining({ code: 'CREDENTIAL_DENIED' }));
  });

  it('are reported whenever they are used, changed or refused, without their values [FR-025-006]', async () => {
    await credentials.set(MARS, VALUE);
    await resolve();
    await credentials.rotate(MARS, `${VALUE}2`);
    await credentials.revoke(MARS);
    await resolve().catch(() => {});
    await resolve(VENUS).catch(() => {});
    expect(events.map(({ kind, provider, error }) => [kind, provider, error?.code])).toEqual([
      ['set', 'mars', undefined],
      ['accessed', 'mars', undefined],
      ['rotated', 'mars', undefined],
      ['revoked', 'mars', undefined],
      ['refused', 'mars', 'CREDENTIAL_DENIED'],
      ['refused', 'venus', 'CREDENTIAL_MISSING'],
    ]);
    expect(inspect(events, { depth: 9 })).not.toContain(VALUE);
  });

  it('are listed without their values', async () => {
    await credentials.set(VENUS, VALUE);
    await credentials.set(MARS, VALUE);
    await credentials.rotate(MARS, VALUE);
    await credentials.revoke(VENUS);
    const rows = await credentials.list();
    expect(rows.map(({ provider, state, revision }) => [provider, state, revision])).toEqual([
      ['mars', 'set', 2],
      ['venus', 'revoked', 2],
    ]);
    expect(JSON.stringify(rows)).not.toContain(VALUE);
    expect(await credentials.list('venus')).toHaveLength(1);
    expect(await credentials.list(undefined, 'elsewhere')).toEqual([]);
  });

  it('must not be empty or too long', async () => {
    await expect(credentials.set(MARS, '')).rejects.toMatchObject({ code: 'USAGE' });
    await expect(credentials.set({ ...MARS, provider: 'a\nb' }, 'x')).rejects.toMatchObject({ code: 'USAGE' });
    await expect(credentials.set(MARS, 'x'.repeat(65_537))).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    await expect(credentials.rotate(MARS, 'x')).rejects.toMatchObject({ code: 'CREDENTIAL_MISSING' });
    await expect(credentials.revoke(MARS)).rejects.toMatchObject({ code: 'CREDENTIAL_MISSING' });
    expect(files()).toEqual([]);
  });

  it('need a disk', async () => {
    writeFileSync(join(folder, 'credentials'), 'in the way');
    await expect(credentials.set(MARS, 'x')).rejects.toMatchObject({ code: 'DATA_FOLDER' });
  });
});

describe('tampered credentials', () => {
  /** Nothing may be given out of it, and nothing written over it. */
  async function expectRefused(file: string): Promise<void> {
    const before = readFileSync(file, 'utf8');
    const refusal = {
      code: 'CREDENTIAL_UNREADABLE',
      message: expect.stringMatching(/Put back a copy, or move .* away/),
    };
    for (const attempt of [
      () => resolve(),
      () => credentials.set(MARS, 'new'),
      () => credentials.rotate(MARS, 'new'),
      () => credentials.revoke(MARS),
    ]) {
      await expect(attempt()).rejects.toMatchObject(refusal);
    }
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect((await credentials.list()).some(({ state }) => state === 'unreadable')).toBe(true);
  }

  beforeEach(async () => {
    await credentials.set(MARS, VALUE);
    await credentials.set(VENUS, 'another value');
  });

  it('are refused with any bit of them changed [FR-025-006]', async () => {
    const file = fileOf(MARS);
    const good = readFileSync(file, 'utf8');
    const { sealed: box } = JSON.parse(good) as { sealed: string };
    const { length } = Buffer.from(box, 'base64');
    await fc.assert(
      fc.asyncProperty(fc.nat(length * 8 - 1), async (bit) => {
        const bytes = Buffer.from(box, 'base64');
        bytes[bit >> 3]! ^= 1 << (bit & 7);
        writeFileSync(file, JSON.stringify({ ...JSON.parse(good), sealed: bytes.toString('base64') }));
        await expect(resolve()).rejects.toMatchObject({ code: 'CREDENTIAL_UNREADABLE' });
      }),
      { numRuns: 60 },
    );
    await expectRefused(file);
    writeFileSync(file, good);
    expect(await revealed()).toBe(VALUE);
  });

  it('are refused with anything else about them changed', async () => {
    const file = fileOf(MARS);
    const good = readFileSync(file, 'utf8');
    for (const change of [
      { at: 0 },
      { graceMs: 1e9 },
      { id: 'x' },
      { lineage: 'x' },
      { state: 'revoked' },
      { key: 'x' },
    ]) {
      edit(file, () => change);
      await expectRefused(file);
      writeFileSync(file, good);
    }
    for (const text of ['', good.slice(0, 40), 'null', '{"version":2}']) {
      writeFileSync(file, text);
      await expectRefused(file);
    }
  });

  it('cannot be used by another provider [FR-025-006]', async () => {
    const [mars, venus] = [fileOf(MARS), fileOf(VENUS)];
    const [own, other] = [readFileSync(mars, 'utf8'), readFileSync(venus, 'utf8')];
    writeFileSync(mars, other);
    await expectRefused(mars);
    // Also where it claims to be the first one's.
    writeFileSync(mars, JSON.stringify({ ...JSON.parse(other), provider: 'mars' }));
    await expectRefused(mars);
    writeFileSync(mars, JSON.stringify({ ...JSON.parse(own), sealed: JSON.parse(other).sealed }));
    await expectRefused(mars);
    expect(await revealed(VENUS)).toBe('another value');
  });

  it('are not decrypted with another key, nor encrypted with a new one', async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), 'ecliptic-credentials-'));
    const other = new Credentials({ runtime, report: () => {} }, { folder: elsewhere });
    await other.set(MARS, 'x');
    const key = join(folder, 'credentials', 'key.json');
    const own = readFileSync(key, 'utf8');
    renameSync(join(elsewhere, 'credentials', 'key.json'), key);
    rmSync(elsewhere, { recursive: true });
    credentials = open();
    await expectRefused(fileOf(MARS));
    for (const text of ['', own.replace(/"key":"../, '"key":"AA')]) {
      writeFileSync(key, text);
      credentials = open();
      await expectRefused(key);
    }
    rmSync(key);
    credentials = open();
    await expect(credentials.set({ ...MARS, name: 'fresh' }, 'x')).rejects.toMatchObject({
      code: 'CREDENTIAL_UNREADABLE',
    });
    expect(existsSync(key)).toBe(false);
    writeFileSync(key, own);
    expect(await revealed(MARS, open())).toBe(VALUE);
  });
});

describe('the master key', () => {
  class MemoryKeychain implements Keychain {
    readonly entries = new Map<string, string>();
    locked = false;

    async read(account: string): Promise<string | undefined> {
      return this.locked ? undefined : this.entries.get(account);
    }

    async write(account: string, secret: string): Promise<boolean> {
      if (!this.locked) this.entries.set(account, secret);
      return !this.locked;
    }

    async remove(account: string): Promise<void> {
      this.entries.delete(account);
    }
  }

  it('is in the keychain where there is one, and not on disk', async () => {
    const keychain = new MemoryKeychain();
    await open(keychain).set(MARS, VALUE);
    const [key] = keychain.entries.values();
    for (const file of files()) expect(readFileSync(file, 'utf8')).not.toContain(key);
    expect(await revealed(MARS, open(keychain))).toBe(VALUE);
    await expect(resolve(MARS, open())).rejects.toMatchObject({ code: 'CREDENTIAL_UNREADABLE' });
  });

  it('is read again after the keychain was locked', async () => {
    const keychain = new MemoryKeychain();
    await open(keychain).set(MARS, VALUE);
    keychain.locked = true;
    const later = open(keychain);
    await expect(resolve(MARS, later)).rejects.toMatchObject({ message: expect.stringContaining('unlock it') });
    keychain.locked = false;
    expect(await revealed(MARS, later)).toBe(VALUE);
  });

  it('is a file where the keychain refuses it', async () => {
    const keychain = new MemoryKeychain();
    keychain.locked = true;
    await open(keychain).set(MARS, VALUE);
    expect(await revealed(MARS, open())).toBe(VALUE);
  });

  it('is the same for processes that create it at once', async () => {
    const keychain = new MemoryKeychain();
    const all = [1, 2, 3].map(() => open(keychain));
    await Promise.all(all.map((one, place) => one.set({ ...MARS, name: String(place) }, VALUE)));
    expect(keychain.entries.size).toBe(1);
    for (const place of all.keys())
      expect(await revealed({ ...MARS, name: String(place) }, open(keychain))).toBe(VALUE);
  });
});
