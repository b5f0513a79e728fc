import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Grant } from '../../src/network/membership/certificate.js';
import { decodeInvite, encodeInvite } from '../../src/network/membership/invite.js';
import type { PeerRow } from '../../src/network/peers/network.js';
import type { Config } from '../../src/node/config/schema.js';
import type { Diagnosis } from '../../src/node/control/rows.js';
import { ECHO } from '../echo-agents.js';
import { BIN } from '../source-files.js';
import { Cluster, type Finished, finish, type ProcessNode, SOAK, until, untilConnected } from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

interface Invite {
  readonly code: string;
  readonly expiresAt: number;
  readonly grant: Grant;
}

const LIGHT: Config = { roster: false, agents: { sun: {}, helper: { tier: 2, module: ECHO } } };
const WEBSOCKET = { args: ['--no-dht', '--listen', '127.0.0.1:0'], config: LIGHT };
/** A port without a listener. */
const NOBODY = '127.0.0.1:1';

describe('in a mesh of three nodes', () => {
  let cluster: Cluster;
  /** Founded it. */
  let a: ProcessNode;
  let b: ProcessNode;
  /** A node of another owner. */
  let c: ProcessNode;
  let alone: ProcessNode;
  let used: string;

  beforeAll(async () => {
    cluster = new Cluster();
    [a, b, c, alone] = await Promise.all([
      cluster.start('a', WEBSOCKET),
      cluster.start('b', WEBSOCKET),
      cluster.start('c', WEBSOCKET),
      cluster.start('alone', WEBSOCKET),
    ]);
    await a.admit(b);
    const { code } = await a.json<Invite>('invite', '--other');
    used = code;
    await c.json('join', code);
    await untilConnected([a, b, c]);
    await until(async () => (await a.agents()).length === 5, 'a knows the agents that may be known');
  });

  afterAll(() => cluster.end());

  describe('invite', () => {
    it('prints a code, its expiry, and the command that uses it', async () => {
      const { code, stdout, stderr } = await a.run('invite');
      const [first, empty, until, command] = stdout.split('\n');
      expect({ code, stderr, empty }).toEqual({ code: 0, stderr: '', empty: '' });
      expect(first).toMatch(/^ecl1[0-9a-hjkmnp-tv-z]+$/);
      expect(until).toMatch(/^On the other device, before .+, once:$/);
      expect(command).toBe(`  ecliptic join ${first}`);
    });

    it('includes the node’s address in the code', async () => {
      const { code } = await a.json<Invite>('invite');
      const { addresses, bootstrap, secret } = decodeInvite(code);
      expect(addresses).toEqual([expect.stringMatching(/^ws:\/\/127\.0\.0\.1:\d+$/)]);
      expect(bootstrap).toEqual([]);
      expect(secret).toHaveLength(16);
      expect((await a.json<Invite>('invite')).code).not.toBe(code);
    });

    it.each<[string[], Grant]>([
      [[], { tiers: [0, 1, 2, 3], invite: true }],
      [['--owner'], { tiers: [0, 1, 2, 3], invite: true, owner: true }],
      [['--other'], { tiers: [2, 3], invite: false }],
      [['--tiers', ' 2 , 3 '], { tiers: [2, 3], invite: false }],
      [['--other', '--tiers', '3'], { tiers: [3], invite: false }],
      [['--sandbox', 'lab'], { tiers: [0, 1, 2, 3], sandboxes: ['lab'], invite: false }],
      [['--other', '--sandbox', 'lab,shop'], { tiers: [2, 3], sandboxes: ['lab', 'shop'], invite: false }],
    ])('with %j lets in under that grant', async (flags, grant) => {
      expect((await a.json<Invite>('invite', ...flags)).grant).toEqual(grant);
    });

    it.each([
      ['90s', 90_000],
      ['1.5h', 5_400_000],
    ])('holds for --ttl %s', async (ttl, ms) => {
      const before = Date.now();
      const { expiresAt } = await a.json<Invite>('invite', '--ttl', ttl);
      expect(expiresAt - ms).toBeGreaterThanOrEqual(before);
      expect(expiresAt - ms).toBeLessThanOrEqual(Date.now());
    });

    it.each([
      [['--tiers', '4']],
      [['--tiers', 'all']],
      [['--ttl', '0s']],
      [['--ttl', '15']],
      [['--ttl', 'soon']],
      [['--sandbox', '']],
      [['somebody']],
      [['--owner', '--other']],
    ])('refuses %j as wrong usage', async (flags) => {
      await expectUsage(a.run('invite', ...flags));
    });

    it.each([[['--tiers', '']], [['--tiers', '2,']]])(
      'refuses %j, where a tier is missing, as wrong usage',
      async (flags) => {
        await expectUsage(a.run('invite', ...flags));
      },
    );

    it('is refused for nodes whose certificate does not allow it', async () => {
      expect(await c.run('invite')).toMatchObject({ code: 1, stdout: '', stderr: startingWith('NOT_GRANTED: ') });
      const { stderr } = await c.run('invite', '--json');
      expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'NOT_GRANTED' } });
    });

    it('as the owner’s device is refused for nodes that are none themselves [FC.35]', async () => {
      const { stderr } = await b.run('invite', '--owner', '--json');
      expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'NOT_GRANTED' } });
      expect(await b.json<Invite>('invite')).toMatchObject({ grant: { invite: true } });
    });

    it('needs a running node', async () => {
      for (const command of [['join', used], ['doctor']]) {
        expect(await cluster.run([...command, '--data', join(cluster.folder, 'nowhere')])).toMatchObject({
          code: 1,
          stderr: startingWith('NO_NODE: '),
        });
      }
    });
  });

  describe('join', () => {
    it.each(['nonsense', 'ecl1', 'ecl1!'])('refuses %j, which is no code', async (code) => {
      const { code: exit, stderr, stdout } = await alone.run('join', code);
      expect({ exit, stdout }).toEqual({ exit: 1, stdout: '' });
      expect(stderr).toContain('INVALID_INVITE: this is not an invite code');
      expect(existsSync(join(alone.data, 'mesh.json'))).toBe(false);
    });

    it('refuses a code in which one character is wrong', async () => {
      const { code } = await a.json<Invite>('invite');
      const wrong = code.slice(0, 10) + (code[10] === 'a' ? 'b' : 'a') + code.slice(11);
      expect(await alone.run('join', wrong)).toMatchObject({ code: 1, stderr: containing('INVALID_INVITE') });
    });

    it('takes one code, and no further argument', async () => {
      await expectUsage(alone.run('join'));
      await expectUsage(alone.run('join', used, used));
    });

    it('refuses a node that is already a member, with an error for people and programs', async () => {
      const { code } = await a.json<Invite>('invite');
      expect(await b.run('join', code)).toMatchObject({ code: 1, stderr: containing('MESH_EXISTS: ') });
      const { stderr } = await b.run('join', code, '--json');
      expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'MESH_EXISTS' } });
    });
  });

  describe('peers', () => {
    it('lists the others as a table', async () => {
      const { code, stdout } = await a.run('peers');
      const [headings, ...rows] = stdout.trimEnd().split('\n');
      expect(code).toBe(0);
      expect(headings).toMatch(/^NODE +NAME +STATE +LINK +AGENTS +TIERS +OWNER$/);
      expect(rows.sort()).toEqual(
        [
          expect.stringMatching(new RegExp(`^${b.key.slice(0, 12)} +b +connected +websocket +2 +L0 L1 L2 L3 +-$`)),
          expect.stringMatching(new RegExp(`^${c.key.slice(0, 12)} +c +connected +websocket +1 +L2 L3 +-$`)),
        ].sort(() => (b.key < c.key ? 0 : -1)),
      );
    });

    it('lists them for programs', async () => {
      const rows = await a.json<PeerRow[]>('peers');
      expect(rows.find(({ node }) => node === c.key)).toEqual({
        node: c.key,
        name: 'c',
        state: 'connected',
        reason: null,
        link: 'websocket',
        since: expect.any(Number),
        agents: 1,
        tiers: [2, 3],
        sandboxes: null,
        owner: false,
        roundTripMs: expect.toSatisfy((ms) => ms === null || ms >= 0),
        clockSkewMs: expect.any(Number),
        lastHeard: null,
        software: expect.stringMatching(/^ecliptic \d/),
        expiresAt: expect.toSatisfy((time) => time > Date.now()),
      });
    });

    it('says so when there are none', async () => {
      expect(await alone.run('peers')).toMatchObject({ code: 0, stdout: startingWith('no other nodes; ') });
      expect(await alone.json('peers')).toEqual([]);
    });

    it.each([[['remove']], [['expel', '00']], [['remove', '00', '11']]])('refuses %j as wrong usage', async (words) => {
      await expectUsage(a.run('peers', ...words));
    });

    it('refuses to remove an unknown node, or one that this node may not remove', async () => {
      const remove = (node: ProcessNode, key: string) => node.run('peers', 'remove', key);
      for (const key of ['zz', a.key, 'f'.repeat(64)]) {
        expect(await remove(a, key)).toMatchObject({ code: 1, stderr: startingWith('PEER_NOT_FOUND: ') });
      }
      expect(await remove(c, b.key)).toMatchObject({ code: 1, stderr: startingWith('NOT_GRANTED: ') });
      expect(await remove(b, a.key)).toMatchObject({ code: 1, stderr: startingWith('NOT_GRANTED: ') });
      await untilConnected([a, b, c]);
    });
  });

  describe('another node', () => {
    it('can be addressed by its name or the start of its key, for messages and tools [T-B4]', async () => {
      for (const place of ['b', b.key.slice(0, 8)]) {
        const request = ['request', '--as', 'helper', '--to', `helper@${place}`, '{"hello":1}'];
        expect(await a.json(...request)).toMatchObject({ id: 'helper', echo: { hello: 1 } });
        const { structuredContent } = await a.json<{ structuredContent: object }>('call', `sun@${place}.describe`);
        expect(structuredContent).toMatchObject({ id: 'sun' });
      }
      for (const place of ['nowhere', 'ffffffffffff']) {
        const { code, stderr } = await a.run('call', `helper@${place}.describe`);
        expect({ code, stderr }).toEqual({ code: 1, stderr: startingWith('PEER_NOT_FOUND: no known node has') });
      }
    });
  });

  describe('doctor', () => {
    it('finds nothing wrong with a node in no mesh', async () => {
      const { code, stdout } = await alone.run('doctor');
      expect(code).toBe(0);
      expect(stdout).toContain(`node ${alone.key}, ecliptic `);
      expect(stdout).toMatch(/^ {2}ok +in no mesh: nothing is announced/m);
      expect(await alone.json('doctor')).toMatchObject({
        node: alone.key,
        pid: alone.pid,
        healthy: true,
        findings: [
          { level: 'ok' },
          {
            level: 'ok',
            text: expect.stringMatching(/^1 agent is unstaffed: it refuses requests and tasks; .*ecliptic staff$/),
          },
          { level: 'ok', text: expect.stringMatching(/^programs can be jailed: bwrap /) },
        ],
      });
    });

    it('finds nothing wrong with a node that reaches all others', async () => {
      const { healthy, findings } = await a.json<Diagnosis>('doctor');
      expect((await a.run('doctor')).code).toBe(0);
      expect(findings.filter(({ level }) => level !== 'ok')).toEqual([]);
      expect(healthy).toBe(true);
      const text = findings.map((finding) => finding.text).join('\n');
      expect(text).toMatch(/^member of mesh [0-9a-f]{64} as "a"$/m);
      expect(text).toMatch(/^websocket: listens on ws:\/\/127\.0\.0\.1:\d+$/m);
      for (const { name, key } of [b, c])
        expect(text).toContain(`${name} (${key.slice(0, 12)}): connected over websocket`);
    });

    it('warns of agents that the certificate does not allow to announce', async () => {
      const { findings, healthy } = await c.json<Diagnosis>('doctor');
      const silent = findings.find(({ text }) => text.startsWith('not announced'));
      expect(silent).toMatchObject({ level: 'warning', text: expect.stringMatching(/: sun$/) });
      expect(healthy).toBe(true);
      expect((await c.run('doctor')).stdout).toMatch(/^ {2}warning not announced.*sun$/m);
      expect((await a.agents()).filter(({ node }) => node === c.key).map(({ id }) => id)).toEqual(['helper']);
    });

    it('names a peer that is down as a problem, and why, and fails; its agents are unreachable [T-B9]', async () => {
      await b.stop();
      await until(async () => (await a.stateOf(b)) !== 'connected', 'b is gone');
      const { code, stdout } = await a.run('doctor', '--json');
      const { findings, healthy } = JSON.parse(stdout) as Diagnosis;
      expect({ code, healthy }).toEqual({ code: 1, healthy: false });
      expect(findings).toContainEqual({
        level: 'problem',
        text: expect.stringMatching(new RegExp(`^b \\(${b.key.slice(0, 12)}\\): away, `)),
      });
      expect((await a.run('doctor')).stdout).toMatch(/^ {2}problem b \(/m);
      const sent = await a.run('send', '--as', 'helper', '--to', 'helper@b', '1');
      expect(sent).toMatchObject({ code: 1, stderr: expect.stringContaining('--durable') });
      expect((await a.run('peers')).stdout).toMatch(new RegExp(`^${b.key.slice(0, 12)} +b +away: .+ +- +2 `, 'm'));
      expect((await a.run('agents')).stdout).toMatch(new RegExp(`^sun@${b.key.slice(0, 12)} +L0 +- +unreachable`, 'm'));
      await b.start();
      await untilConnected([a, b, c]);
    });

    it('finds all well again when it is back', async () => {
      await until(async () => (await a.doctor()).healthy, 'all is well again', 1_500);
    });
  });

  describe('the end of a membership', () => {
    it('is confirmed by the user on a terminal, and only there [T-B8]', async () => {
      const [removed, left] = [await inTerminal(a, 'n', 'peers', 'remove', 'c'), await inTerminal(b, 'n', 'leave')];
      expect(removed).toContain(`Remove c (${c.key.slice(0, 12)}) from the mesh?`);
      expect(left).toContain('Leave the mesh?');
      for (const said of [removed, left]) expect(said).toContain('CANCELLED: nothing was done');
      await untilConnected([a, b, c]);
    });

    it('is refused where there is no membership', async () => {
      expect(await alone.run('leave')).toMatchObject({ code: 1, stderr: startingWith('NO_MESH: ') });
      expect(JSON.parse((await alone.run('leave', '--json')).stderr)).toMatchObject({ error: { code: 'NO_MESH' } });
    });

    it('comes with a removal by a few characters of the key; the others stay', async () => {
      const prefix = shortest(c.key, [b.key]);
      const { code, stdout } = await a.run('peers', 'remove', prefix);
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: 'That node is no longer a member; the others are being told.\n',
      });
      for (const node of [a, b]) {
        await until(async () => (await node.stateOf(c)) === undefined, `${node.name} has let c go`);
        expect((await node.agents()).some((row) => row.node === c.key)).toBe(false);
      }
      await untilConnected([a, b]);
      await until(async () => !(await c.doctor()).healthy, 'c knows');
      const { findings } = await c.doctor();
      expect(findings.filter(({ level }) => level === 'problem').map(({ text }) => text)).toContainEqual(
        expect.stringMatching(/removed|not admitted/),
      );
    });

    it('lasts beyond a restart of the removed node, which no member admits any more', async () => {
      await c.stop();
      await c.start();
      // Nothing happens, however long one waits.
      await delay(1_000);
      for (const node of [a, b]) expect(await node.stateOf(c)).toBeUndefined();
      expect(await c.connected()).toBe(0);
      expect((await c.agents()).every(({ origin }) => origin === 'local')).toBe(true);
    });

    it('is reported by doctor, also after a restart', async () => {
      const told = async () => (await c.doctor()).findings.some(({ text }) => /not admitted|removed/.test(text));
      await until(told, 'c says why');
    });

    it('comes with a leave, and the others forget the node', async () => {
      const { code, stdout } = await b.run('leave');
      expect({ code, stdout }).toEqual({ code: 0, stdout: startingWith('This node left the mesh.') });
      expect(existsSync(join(b.data, 'mesh.json'))).toBe(false);
      expect(await b.json('peers')).toEqual([]);
      expect((await b.agents()).every(({ origin }) => origin === 'local')).toBe(true);
      await until(async () => (await a.peers()).length === 0, 'a has let b go');
      expect((await a.agents()).map(({ id }) => id).sort()).toEqual(['helper', 'sun']);
      expect(await c.json('leave')).toEqual({ left: true });
      expect(existsSync(join(c.data, 'mesh.json'))).toBe(false);
    });

    it('is no problem for those who stay', async () => {
      const { findings } = await a.doctor();
      expect(findings.filter(({ level }) => level === 'problem')).toEqual([]);
    });

    it('leaves no absent peer in the lists of others', async () => {
      await a.stop();
      await a.start();
      expect(await a.peers()).toEqual([]);
    });

    it('allows a node that left to join again', async () => {
      const { code } = await a.json<Invite>('invite');
      expect(await b.json('join', code)).toEqual({ mesh: expect.any(String) });
      await untilConnected([a, b]);
    });
  });
});

describe('a code', () => {
  let cluster: Cluster;
  let host: ProcessNode;
  let first: ProcessNode;
  let second: ProcessNode;
  /** Which of them was let in, and which was not. */
  let member: ProcessNode;
  let late: ProcessNode;
  /** One whose maker is not there. */
  const stray = encodeInvite({ secret: randomBytes(16), bootstrap: [], addresses: [`ws://${NOBODY}`] });

  beforeAll(async () => {
    cluster = new Cluster();
    [host, first, second] = await Promise.all([
      cluster.start('host', WEBSOCKET),
      cluster.start('first', WEBSOCKET),
      cluster.start('second', WEBSOCKET),
    ]);
  });

  afterAll(() => cluster.end());

  it('lets one node in, even if two use it at once', async () => {
    const { code } = await host.json<Invite>('invite');
    const answers = await Promise.all([first, second].map((node) => node.run('join', code)));
    expect(answers.map((answer) => answer.code).sort()).toEqual([0, 1]);
    const [joined, refused] = answers[0]!.code === 0 ? answers : answers.toReversed();
    expect(joined!.stdout).toBe('This node is now a member. List the others with: ecliptic peers\n');
    expect(joined!.stderr).toBe('Looking for the node that made this code …\n');
    expect(refused!.stderr).toContain('INVALID_INVITE: ');
    [member, late] = answers[0]!.code === 0 ? [first, second] : [second, first];
    await untilConnected([host, member]);
    expect(existsSync(join(late.data, 'mesh.json'))).toBe(false);
    expect(await late.peers()).toEqual([]);
    expect(await host.peers()).toHaveLength(1);
  });

  it('is refused after its expiry', async () => {
    await member.call('leave');
    const { code } = await host.json<Invite>('invite', '--ttl', '1ms');
    const { code: exit, stdout, stderr } = await member.run('join', code, '--json');
    expect({ exit, stdout }).toEqual({ exit: 1, stdout: '' });
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'INVALID_INVITE' } });
  });

  it('that is valid admits a node that tried an invalid code before', async () => {
    const { code } = await host.json<Invite>('invite');
    const joined = late.call('join', { code }).then(() => 'it is in');
    expect(await Promise.race([joined, delay(2_000, 'it waits')])).toBe('it is in');
  });

  it('that is valid admits a node after a join with another code was interrupted', async () => {
    const impatient = await cluster.start('impatient', WEBSOCKET);
    const waiting = cluster.launch(['join', stray, '--data', impatient.data], impatient.home);
    await until(() => socketsOf(impatient.pid).length > 1, 'it looks for the maker of the code');
    const ended = finish(waiting);
    waiting.kill('SIGINT');
    await ended;
    const { code } = await host.json<Invite>('invite');
    expect(await impatient.call('join', { code })).toEqual({ mesh: expect.any(String) });
  });

  it.runIf(SOAK)('whose inviter is away is given up after a while, and the node stays unchanged', async () => {
    const patient = await cluster.start('patient', WEBSOCKET);
    const { code, stderr } = await patient.run('join', stray, '--json');
    expect(code).toBe(1);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'PEER_UNREACHABLE' } });
    const { healthy, findings } = await patient.doctor();
    expect(healthy).toBe(true);
    expect(findings.filter(({ level }) => level !== 'ok')).toEqual([]);
    // HTTP, on this machine only.
    expect(socketsOf(patient.pid)).toEqual(['tcp']);
  });

  it('that is used through two addresses of its inviter counts once', async () => {
    const { code } = await host.json<Invite>('invite');
    const other = decodeInvite(code).addresses[0]!.replace('127.0.0.1', 'localhost');
    const twice = await cluster.start('twice', { ...WEBSOCKET, args: [...WEBSOCKET.args, '--peer', other] });
    await twice.json('join', code);
    await untilConnected([host, twice]);
    expect(twice.log).not.toContain('"msg":"refused"');
    expect(host.log.split('\n').filter((line) => line.includes(twice.key) && line.includes('refused'))).toEqual([]);
  });
});

describe('up', () => {
  let cluster: Cluster;

  beforeEach(() => {
    cluster = new Cluster();
  });

  afterEach(() => cluster.end());

  it.each([
    [['--listen', 'here']],
    [['--listen', '127.0.0.1:']],
    [['--listen', '']],
    [['--bootstrap', 'somewhere']],
    [['--bootstrap', '']],
    [['--peer', 'http://127.0.0.1:7070']],
  ])('refuses %j as wrong usage, and starts nothing', async (flags) => {
    const data = join(cluster.folder, 'data');
    await expectUsage(cluster.run(['up', '--data', data, ...flags]));
    expect(existsSync(join(data, 'control.sock'))).toBe(false);
  });

  it.each([[['--listen', '127.0.0.1:70000']], [['--bootstrap', '127.0.0.1:70000']]])(
    'refuses %j, which is no port, as wrong usage',
    async (flags) => {
      const node = cluster.launch(['up', '--data', join(cluster.folder, 'data'), ...flags]);
      const ended = finish(node);
      const first = await Promise.race([ended, once(createInterface({ input: node.stdout! }), 'line')]);
      expect(first).toMatchObject({ code: 2 });
    },
  );

  it('opens no socket to the world, in no mesh, and closes those it had when it leaves one', async () => {
    const bootstrap = await cluster.dht();
    const args = ['--listen', '127.0.0.1:0', '--bootstrap', bootstrap, '--peer', `ws://${NOBODY}`];
    const node = await cluster.start('node', { args, config: LIGHT });
    await node.agents();
    // HTTP, on this machine only.
    expect(socketsOf(node.pid)).toEqual(['tcp']);
    expect(node.ready.http).toMatch(/^http:\/\/127\.0\.0\.1:/);
    expect(existsSync(join(node.data, 'mesh.json'))).toBe(false);
    await node.call('invite');
    const open = socketsOf(node.pid);
    expect(new Set(open)).toEqual(new Set(['tcp', 'udp']));
    expect(open.filter((kind) => kind === 'tcp').length).toBeGreaterThan(1);
    await node.call('leave');
    await until(() => socketsOf(node.pid).join() === 'tcp', 'its other sockets are closed');
  });

  it('stores its key and membership for its owner only, and keeps them across restarts', async () => {
    const node = await cluster.start('node', WEBSOCKET);
    const { key } = node;
    const mode = (name: string) => statSync(join(node.data, name)).mode & 0o777;
    expect(mode('node.key')).toBe(0o600);
    await node.call('invite');
    expect(mode('mesh.json')).toBe(0o600);
    const membership = (await node.doctor()).findings[0];
    await node.stop();
    await node.start();
    expect(node.key).toBe(key);
    expect((await node.doctor()).findings[0]).toEqual(membership);
    expect([mode('node.key'), mode('mesh.json')]).toEqual([0o600, 0o600]);
    await node.crash();
    await node.start();
    expect(node.key).toBe(key);
  });

  it('names an address that it cannot listen at, when it becomes a member and later', async () => {
    const taken = await takenAddress();
    const node = await cluster.start('node', { args: ['--no-dht', '--listen', taken], config: LIGHT });
    expect(await node.run('invite')).toMatchObject({ code: 1, stderr: startingWith('ADDRESS_UNUSABLE: ') });
    expect(await node.json('agents')).toHaveLength(2);
    const member = await cluster.start('member', { args: ['--no-dht'], config: LIGHT });
    await member.call('invite');
    await member.stop();
    const { code, stderr } = await member.run('up', '--no-dht', '--listen', taken, '--log', 'silent');
    expect({ code, stderr }).toEqual({ code: 1, stderr: startingWith('ADDRESS_UNUSABLE: ') });
  });

  it('belongs to no mesh after an invite that failed', async () => {
    const args = ['--no-dht', '--listen', await takenAddress()];
    const node = await cluster.start('node', { args, config: LIGHT });
    await expect(node.call('invite')).rejects.toMatchObject({ code: 'ADDRESS_UNUSABLE' });
    expect(existsSync(join(node.data, 'mesh.json'))).toBe(false);
  });

  it('puts an address into invites that other devices can reach', async () => {
    const node = await cluster.start('node', { args: ['--no-dht', '--listen', '0.0.0.0:0'], config: LIGHT });
    const { code } = await node.call<Invite>('invite');
    expect(decodeInvite(code).addresses.filter((address) => address.startsWith('ws://0.0.0.0:'))).toEqual([]);
  });

  it('does not let a name look like an extra line of output', async () => {
    const node = await cluster.start('node', WEBSOCKET);
    const guest = await cluster.inProcess({ name: 'guest\n  ok      forged', dht: false });
    await guest.network.join((await node.call<Invite>('invite')).code);
    await until(async () => (await node.connected()) === 1, 'they meet');
    expect((await node.run('doctor')).stdout).not.toMatch(/^ {2}ok {6}forged/m);
  });

  /** An address that is already in use. */
  async function takenAddress(): Promise<string> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    cluster.onEnd(async () => void server.close());
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it('reports an unreachable DHT, and stops without waiting for it [T-B8]', async () => {
    const node = await cluster.start('node', { args: ['--bootstrap', NOBODY], config: LIGHT });
    const invited = await node.run('invite');
    expect(invited.stdout).toMatch(/^ecl1/);
    expect(invited.stderr).toMatch(/^warning: this node (cannot reach|has not reached) .*DHT/m);
    await until(async () => !(await node.doctor()).healthy, 'the DHT is found missing');
    const { stdout, code } = await node.run('doctor');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^ {2}problem hyperswarm: cannot reach the private DHT at 127\.0\.0\.1:1/m);
    const began = performance.now();
    expect(await node.run('leave')).toMatchObject({ code: 0, stderr: 'Leaving the mesh …\n' });
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe('dht', () => {
  let cluster: Cluster;

  beforeEach(() => {
    cluster = new Cluster();
  });

  afterEach(() => cluster.end());

  it.each([[['--nodes', '3']], [['--nodes', '65']], [['--port', '70000']]])(
    'refuses %j as wrong usage',
    async (flags) => {
      await expectUsage(cluster.run(['dht', ...flags]));
    },
  );

  it('refuses a port that is taken', async () => {
    const socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    cluster.onEnd(async () => void socket.close());
    const flags = ['--port', String(socket.address().port)];
    expect(await cluster.run(['dht', ...flags])).toMatchObject({ code: 1, stderr: startingWith('ADDRESS_UNUSABLE: ') });
  });

  it('refuses an address that is not this machine’s', async () => {
    const { code, stderr } = await cluster.run(['dht', '--host', '203.0.113.7']);
    expect({ code, stderr }).toEqual({ code: 1, stderr: startingWith('ADDRESS_UNUSABLE: ') });
  });

  it.each(['SIGTERM', 'SIGINT'] as const)('lets nodes meet, until %s ends it', async (signal) => {
    const json = signal === 'SIGTERM';
    const dht = cluster.launch(['dht', '--nodes', '5', ...(json ? ['--json'] : [])]);
    const lines = createInterface({ input: dht.stdout! });
    const [line] = (await once(lines, 'line')) as [string];
    const bootstrap = /127\.0\.0\.1:\d+/.exec(line)![0];
    if (json) {
      expect(JSON.parse(line)).toEqual({ bootstrap, nodes: expect.any(Array), pid: dht.pid });
      expect(JSON.parse(line).nodes).toHaveLength(5);
    } else expect(line).toMatch(/^A private DHT of 5 nodes runs on 127\.0\.0\.1:\d+, /);
    const settings = { args: ['--bootstrap', bootstrap], config: LIGHT };
    const [a, b] = await Promise.all([cluster.start('a', settings), cluster.start('b', settings)]);
    const { code } = await a.json<Invite>('invite');
    expect(decodeInvite(code)).toMatchObject({ bootstrap: [bootstrap], addresses: [] });
    await b.json('join', code);
    await untilConnected([a, b]);
    expect((await a.doctor()).findings.map(({ text }) => text)).toContain(
      `hyperswarm: reaches the private DHT at ${bootstrap}`,
    );
    const ended = once(dht, 'exit');
    dht.kill(signal);
    expect(await ended).toEqual([0, null]);
    // Connected nodes stay connected without it.
    expect(await a.stateOf(b)).toBe('connected');
    expect(await a.request('sun', `helper@${b.key}`, 1)).toMatchObject({ id: 'helper', echo: 1 });
  });
});

/** Wrong usage: exit code 2, a reason, and nothing else. */
async function expectUsage(run: Promise<Finished>): Promise<void> {
  const { code, stdout, stderr } = await run;
  expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: '', stderr: startingWith('USAGE: ') });
}

/** The sockets through which a process can be reached, or reaches, over a network. */
function socketsOf(pid: number): string[] {
  const open = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    }),
  );
  return ['tcp', 'tcp6', 'udp', 'udp6'].flatMap((protocol) =>
    readFileSync(`/proc/${pid}/net/${protocol}`, 'utf8')
      .trimEnd()
      .split('\n')
      .slice(1)
      .filter((line) => open.has(line.trim().split(/\s+/)[9]!))
      .map(() => protocol),
  );
}

/** A prefix of a key that is unique among the nodes. */
/** Runs a command of that node on a terminal, answers its question, and returns the output. */
async function inTerminal(node: ProcessNode, answer: string, ...args: readonly string[]): Promise<string> {
  const words = [process.execPath, BIN, ...args, '--data', node.data].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qec', words, '/dev/null'], { stdio: ['pipe', 'pipe', 'ignore'] });
  let shown = '';
  child.stdout.on('data', (data) => {
    shown += data;
    if (shown.includes('[y/N]')) child.stdin.end(`${answer}\n`);
  });
  await once(child, 'close');
  return shown;
}

/** The shortest beginning of a key that names its node: four characters or more. */
function shortest(key: string, others: readonly string[]): string {
  const lengths = Array.from(key.slice(3), (_, index) => index + 4);
  return key.slice(
    0,
    lengths.find((length) => !others.some((other) => other.startsWith(key.slice(0, length)))),
  );
}

function startingWith(start: string): string {
  return expect.toSatisfy((text: string) => text.startsWith(start), `starts with ${start}`);
}

function containing(part: string): string {
  return expect.stringContaining(part);
}
