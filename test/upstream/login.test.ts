import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { exportPKCS8, generateKeyPair } from 'jose';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { oauthFetch } from '../../src/mcp/upstream/login.js';
import type { UpstreamStatus } from '../../src/mcp/upstream/upstream.js';
import { loadConfig } from '../../src/node/config/load.js';
import { ControlClient } from '../../src/node/control/client.js';
import { Host } from '../../src/node/host.js';
import { type Logger, silentLogger } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Redactor } from '../../src/system/secrets/secret.js';
import { BIN } from '../source-files.js';
import { GuardedServer } from './guarded-server.js';

let folder: string;
let server: GuardedServer;
let host: Host;
let client: ControlClient;
let told: string[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-login-'));
  server = await GuardedServer.start();
  told = [];
  await up();
});

afterEach(async () => {
  await down();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
  vi.restoreAllMocks();
});

async function up(more: object = {}): Promise<void> {
  const file = join(folder, 'ecliptic.json');
  const mcpServers = { guarded: { url: server.url, ...more } };
  writeFileSync(file, JSON.stringify({ roster: false, mcpServers, credentials: { keychain: false } }));
  const note = (fields: Record<string, unknown>, message: string) =>
    void told.push(JSON.stringify({ message, ...fields }));
  const logger: Logger = { ...silentLogger, debug: note, info: note, warn: note, error: note };
  const runtime = systemRuntime({ logger });
  const loaded = loadConfig(file, folder);
  host = await Host.start({ runtime, loaded, dataFolder: join(folder, 'data'), env: {}, http: { port: 0 } });
  host.node.observability.subscribe((event) => told.push(JSON.stringify(event)));
  client = await ControlClient.connect(host.control);
}

async function down(): Promise<void> {
  client.close();
  await host.stop();
}

async function status(): Promise<UpstreamStatus> {
  const [found] = await client.call('tools.servers');
  return found!;
}

async function untilState(state: UpstreamStatus['state']): Promise<UpstreamStatus> {
  await vi.waitFor(async () => expect(await status()).toMatchObject({ state }), { timeout: 10_000, interval: 20 });
  return status();
}

const look = () => client.call('call', { tool: 'guarded.look', arguments: {} });
const seen = { content: [{ type: 'text', text: 'seen' }] };

/** Logs in as a user with a browser; returns the page that the browser comes back to. */
async function logIn(): Promise<Response> {
  let page: Promise<Response> | undefined;
  const done = client.call('tools.login', { server: 'guarded' }, (event) => {
    page = fetch((event as { url: string }).url);
  });
  await done;
  return page!;
}

describe('an MCP server that requires a login [UP10]', () => {
  it('waits for its user, says how to log in, and is connected when the user returns', async () => {
    const { reason } = await untilState('needs-login');
    expect(reason).toMatch(/has to log in; log in with: ecliptic tools login guarded$/);
    const { findings } = await client.call('doctor');
    expect(findings).toContainEqual({ level: 'warning', text: reason });
    // No client is registered before a user wants to log in.
    expect(server.requests).not.toContain('POST /register');

    const args = [BIN, 'tools', 'login', 'guarded', '--data', join(folder, 'data')];
    const cli = promisify(execFile)(process.execPath, args);
    let page: Promise<string> | undefined;
    cli.child.stdout!.on('data', (text) => {
      const [url] = /http:\S+/.exec(String(text)) ?? [];
      if (url) page = fetch(url).then((response) => response.text());
    });
    expect((await cli).stdout).toMatch(/Open this in your browser[\s\S]+You are logged in to guarded\.\n$/);
    expect(await page).toBe('You are logged in to guarded. You can close this page.\n');
    await untilState('running');
    expect(await look()).toMatchObject(seen);
  });

  it('gets the present value of a client secret that is a credential', async () => {
    await down();
    await up({ oauth: { clientId: 'ours', clientSecret: { credential: 'client' } } });
    await untilState('needs-login');
    await expect(client.call('tools.login', { server: 'guarded' })).rejects.toMatchObject({
      code: 'LOGIN_FAILED',
      message: expect.stringContaining('client'),
    });
    const place = { provider: 'guarded', workspace: 'default', name: 'client' };
    await host.credentials.set(place, 'first-client-secret');
    await logIn();
    await untilState('running');
    await host.credentials.set(place, 'second-client-secret');
    server.accessTokens.clear();
    expect(await look()).toMatchObject(seen);
    expect(server.clients).toEqual(['ours:first-client-secret', 'ours:second-client-secret']);
    expect(server.requests).not.toContain('POST /register');
    const shown = JSON.stringify([told, await status(), await client.call('doctor')]);
    expect(shown).not.toMatch(/(first|second)-client-secret/);
  });

  it('admits a node that logs in as itself with a signed assertion, without a user [UP11]', async () => {
    const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
    const pem = await exportPKCS8(privateKey);
    server.clientKey = publicKey;
    await down();
    const own = { grant: 'client_credentials', clientId: 'ours', privateKey: { credential: 'key' }, scopes: ['read'] };
    await up({ oauth: { ...own, issuer: server.origin } });
    await host.credentials.set({ provider: 'guarded', workspace: 'default', name: 'key' }, pem);
    await untilState('running');
    server.accessTokens.clear();
    expect(await look()).toMatchObject(seen);
    expect(server.clients).toEqual(['ours for read', 'ours for read']);
    expect(server.requests).not.toContain('POST /register');
    await expect(client.call('tools.login', { server: 'guarded' })).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    expect(JSON.stringify([told, await status()])).not.toContain(pem.split('\n')[1]);

    server.clientKey = (await generateKeyPair('ES256')).publicKey;
    server.accessTokens.clear();
    await expect(look()).rejects.toMatchObject({
      message: expect.stringContaining('could not log in with its client credentials'),
    });
  });

  it('gets the credentials of a node only where their authorization server is the configured one [UP11]', async () => {
    await down();
    await up({
      oauth: { grant: 'client_credentials', clientId: 'ours', clientSecret: 's', issuer: 'https://auth.example' },
    });
    await vi.waitFor(async () => expect((await status()).reason).toContain('allows https://auth.example only'));
    expect(server.requests).not.toContain('POST /token');
  });

  it('accepts a browser’s return once, and only for a login that was begun', async () => {
    await untilState('needs-login');
    const { url } = await logIn();
    const again = async (to: string, method = 'GET') => (await fetch(to, { method })).status;
    expect(await again(url)).toBe(400);
    expect(await again(`${host.gateway.url}/oauth/callback?code=x&state=guessed`)).toBe(400);
    expect(await again(url, 'POST')).toBe(405);
    await untilState('running');
  });

  it('refuses a return from another issuer', async () => {
    await untilState('needs-login');
    const outcome = client.call('tools.login', { server: 'guarded' }, async (event) => {
      const { headers } = await fetch((event as { url: string }).url, { redirect: 'manual' });
      const back = new URL(headers.get('location')!);
      back.searchParams.set('iss', 'https://elsewhere.example');
      await fetch(back);
    });
    await expect(outcome).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    expect(server.requests).not.toContain('POST /token');
    expect(await status()).toMatchObject({ state: 'needs-login' });
  });

  it('gets a new token when the old one is rejected, and waits again when none can be had', async () => {
    vi.spyOn(console, 'warn').mockImplementation((text) => void told.push(String(text)));
    await untilState('needs-login');
    await logIn();
    await untilState('running');
    server.accessTokens.clear();
    expect(await look()).toMatchObject(seen);
    server.accessTokens.clear();
    server.refreshTokens.clear();
    await expect(look()).rejects.toMatchObject({
      code: 'PROVIDER_CREDENTIAL_MISSING',
      details: { code: 'LOGIN_REQUIRED' },
    });
    await untilState('needs-login');
    await expect(look()).rejects.toMatchObject({
      code: 'PROVIDER_CREDENTIAL_MISSING',
      details: { code: 'LOGIN_REQUIRED' },
    });
    await logIn();
    await untilState('running');
    const shown = JSON.stringify([told, await status(), await client.call('doctor')]);
    for (const secret of server.secrets) expect(shown).not.toContain(secret);
  });

  it('stays logged in after a restart, in a file of the owner’s, until logout', async () => {
    await untilState('needs-login');
    await logIn();
    await untilState('running');
    const file = join(folder, 'data', 'logins.json');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await down();
    server.accessTokens.clear();
    await up();
    await untilState('running');
    expect(server.requests.filter((request) => request === 'POST /register')).toHaveLength(1);
    await client.call('tools.logout', { server: 'guarded' });
    await untilState('needs-login');
    expect(readFileSync(file, 'utf8')).not.toMatch(/access|refresh|client-/);
    await expect(client.call('tools.login', { server: 'nobody' })).rejects.toMatchObject({ code: 'SERVER_NOT_FOUND' });
  });

  it('may demand a further scope for one call, which is asked for once, while other calls continue', async () => {
    await untilState('needs-login');
    await logIn();
    await untilState('running');
    server.toolScope = 'write';
    await expect(look()).rejects.toMatchObject({
      code: 'PROVIDER_CREDENTIAL_MISSING',
      details: { code: 'LOGIN_REQUIRED' },
    });
    const { state, problems } = await status();
    expect({ state, problems }).toEqual({
      state: 'running',
      problems: ['it wants a further scope (write); log in with: ecliptic tools login guarded'],
    });
    await logIn();
    expect(await look()).toMatchObject(seen);
    expect([...server.accessTokens.values()].at(-1)!.scope).toBe('read write');
    expect(await status()).toMatchObject({ problems: [] });
    for (const [token, grant] of server.accessTokens) server.accessTokens.set(token, { ...grant, scope: 'read' });
    await expect(look()).rejects.toMatchObject({ code: 'PROVIDER_CREDENTIAL_DENIED' });
  });

  it('on the Internet cannot direct requests into the private network', async () => {
    const inside = oauthFetch(systemRuntime(), new URL('https://mcp.example/'), new Redactor());
    await expect(inside(server.origin)).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    const outside = oauthFetch(systemRuntime(), new URL(server.url), new Redactor());
    expect(await outside(`${server.origin}/nothing`)).toMatchObject({ status: 404 });
  });
});
