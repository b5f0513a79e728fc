import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { natsServer } from '../scripts/need-nats-server.mjs';
import { find, parserOptions } from '../src/cli/lookup.js';
import { TABLE } from '../src/cli/nouns.js';
import { stablePort } from './ports.js';
import { BIN, ROOT } from './source-files.js';

const DRAIN_S = 5;
const READY = 'deploy/ready.mjs';
const NODES = ['node-1', 'node-2', 'node-3'];
const SERVERS = ['nats-1', 'nats-2', 'nats-3'];

/** Runs the program where `docker compose run` would run it in a container. */
const FAKE_DOCKER = `#!/bin/sh
shift
case "$1" in
  config) echo "$SERVICES" ;;
  run) shift 3; node="$1"; shift; mkdir -p "$STATE/$node"; exec "$PROGRAM" "$@" --data "$STATE/$node" ;;
esac
`;

interface Service {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes: readonly string[];
  readonly ports?: readonly string[];
  readonly networks: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly restart: string;
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly stop_grace_period: string;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, unknown>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const manifest = JSON.parse(read('package.json'));
const image = readDockerfile();
const compose: Compose = parse(read('deploy/compose.yaml'), { merge: true });

let folder: string;
let child: ChildProcess | undefined;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-deploy-'));
});

afterEach(() => {
  child?.kill('SIGKILL');
  child = undefined;
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('ecliptic.service', () => {
  const text = read('deploy/ecliptic.service');
  const unit = new Map([...text.matchAll(/^([A-Z]\w+)=(.*)$/gm)].map(([, key, value]) => [key!, value!]));

  it('starts a command and a check that an installed package has', async () => {
    const [program, ...args] = unit.get('ExecStart')!.split(' ');
    expect(manifest.bin).toHaveProperty(program!.replace('/opt/ecliptic/node_modules/.bin/', ''));
    await checkCommand(args);
    const installed = [...text.matchAll(/\/opt\/ecliptic\/node_modules\/ecliptic\/(\S+)/g)].map(([, path]) => path!);
    expect(installed).toContain(READY);
    for (const path of installed) expect(isPacked(path), path).toBe(true);
  });

  it('waits longer than the node needs, both to be ready and to stop', () => {
    const waits = Number(unit.get('ExecStartPost')!.split(' ').at(-1));
    expect(Number(unit.get('TimeoutStartSec'))).toBeGreaterThan(waits);
    expect(Number(unit.get('TimeoutStopSec'))).toBeGreaterThan(2 * DRAIN_S);
    expect(unit.get('KillMode')).toBe('mixed');
    expect(unit.get('Restart')).toBe('on-failure');
  });

  it('keeps data and configuration in folders that systemd prepares, and restricts the rest', () => {
    const variables = new Map(
      unit
        .get('Environment')!
        .split(' ')
        .map((one) => one.split('=') as [string, string]),
    );
    expect(variables.get('ECLIPTIC_DATA')).toBe(`/var/lib/${unit.get('StateDirectory')}`);
    expect(unit.get('WorkingDirectory')).toBe(`/etc/${unit.get('ConfigurationDirectory')}`);
    expect(unit.get('StateDirectoryMode')).toBe('0700');
    expect(unit.get('User')).not.toBe('root');
    for (const key of ['NoNewPrivileges', 'ProtectHome', 'PrivateTmp', 'RestrictNamespaces']) {
      expect(unit.get(key), key).toBe('yes');
    }
    expect(unit.get('ProtectSystem')).toBe('strict');
    expect(unit.get('CapabilityBoundingSet')).toBe('');
  });

  it.runIf(hasProgram('systemd-analyze'))('is accepted by systemd', () => {
    const path = join(folder, 'ecliptic.service');
    writeFileSync(path, text.replace('/opt/ecliptic/node_modules/.bin/ecliptic', BIN));
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});

describe('Dockerfile', () => {
  const last = image.stages.at(-1)!;

  it('copies files that exist and that .dockerignore lets in, and .dockerignore lets in no others', () => {
    const allowed = read('.dockerignore').match(/(?<=^!).+$/gm)!;
    const copied = image.stages.flatMap(({ copies }) => copies.filter(({ from }) => from === undefined));
    const sources = new Set(copied.flatMap((copy) => copy.sources));
    expect([...sources].sort()).toEqual([...allowed].sort());
    for (const source of sources) expect(existsSync(join(ROOT, source)), source).toBe(true);
  });

  it('contains every folder of the package that runs', () => {
    const targets = last.copies.map(({ target }) => target.replace('/opt/ecliptic/', ''));
    const run = manifest.files.filter((path: string) => !/^(deploy|examples)\b|\.md$/.test(path));
    expect(targets).toEqual(expect.arrayContaining([...run, READY]));
    expect(image.text).toContain('npm ci --omit=dev');
    expect(manifest.engines.node).toBe('>=20.19');
    expect(Number(/^ARG NODE=(\d+)/m.exec(image.text)![1])).toBeGreaterThan(20);
  });

  it('runs as another user than root, with its data in a volume and nothing secret in a layer', () => {
    expect(last.value('USER')).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(last.value('VOLUME')).toBe(image.variables.get('ECLIPTIC_DATA'));
    expect(image.text).not.toMatch(/^(ARG|ENV).*(TOKEN|SECRET|PASSWORD|_KEY)/im);
    expect(last.value('STOPSIGNAL')).toBe('SIGTERM');
  });

  it('starts a command that exists, and checks the port that it serves', async () => {
    expect(manifest.bin).toHaveProperty(JSON.parse(last.value('ENTRYPOINT'))[0]);
    await checkCommand(JSON.parse(last.value('CMD')));
    expect(last.value('EXPOSE')).toBe(image.variables.get('PORT'));
    expect(last.value('HEALTHCHECK')).toMatch(`CMD ["node", "/opt/ecliptic/${READY}"]`);
  });

  it('has the optional packages of NATS and everything that they need', () => {
    const { packages } = JSON.parse(read('package-lock.json'));
    const needed = new Set(Object.keys(manifest.peerDependencies).filter((name) => name.startsWith('@nats-io/')));
    for (const name of needed) {
      const { dependencies = {} } = packages[`node_modules/${name}`];
      for (const more of Object.keys(dependencies)) needed.add(more);
    }
    const folders = new Set([...needed].map((name) => (name.startsWith('@nats-io/') ? '@nats-io' : name)));
    const copied = image.stages.flatMap(({ copies }) => copies.map(({ target }) => target));
    expect(copied).toEqual(expect.arrayContaining([...folders].map((name) => `node_modules/${name}`)));
  });
});

describe('compose.yaml', () => {
  const { services } = compose;

  it('has three nodes and three NATS servers, each with a volume and a name of its own', () => {
    expect(Object.keys(services).sort()).toEqual([...SERVERS, ...NODES].sort());
    expect(Object.keys(compose.volumes).sort()).toEqual(Object.keys(services).sort());
    for (const [name, { volumes, networks }] of Object.entries(services)) {
      const named = volumes.map((one) => one.split(':')).filter(([source]) => !source!.startsWith('.'));
      const place = NODES.includes(name) ? image.variables.get('ECLIPTIC_DATA') : '/data';
      expect(named).toEqual([[name, place]]);
      for (const network of networks) expect(compose.networks).toHaveProperty(network);
    }
  });

  it('restricts every container, restarts it, and gives it time to stop', () => {
    for (const service of Object.values(services)) {
      expect(service).toMatchObject({ restart: 'unless-stopped', read_only: true, cap_drop: ['ALL'] });
      expect(Number.parseInt(service.stop_grace_period, 10)).toBeGreaterThan(2 * DRAIN_S);
    }
  });

  it('mounts files that exist, read-only', () => {
    const mounts = Object.values(services).flatMap(({ volumes }) => volumes.filter((one) => one.startsWith('.')));
    for (const mount of mounts) {
      const [source, , mode] = mount.split(':');
      expect(mode).toBe('ro');
      expect(existsSync(join(ROOT, 'deploy', source!)), source).toBe(true);
    }
  });

  it('builds its nodes with the Dockerfile, starts commands that exist, and publishes their port on this machine only', async () => {
    const published = new Set<string>();
    for (const name of NODES) {
      const { build, command, ports } = services[name]!;
      expect(existsSync(join(ROOT, 'deploy', build!.context, build!.dockerfile))).toBe(true);
      await checkCommand(command!);
      expect(command!.at(-1)).toBe(name);
      const [address, port, inside] = ports![0]!.split(':');
      expect([address, inside]).toEqual(['127.0.0.1', image.variables.get('PORT')]);
      published.add(port!);
    }
    expect(published.size).toBe(NODES.length);
  });

  it('has servers whose configuration finds its variables, each other and the port of the health check', () => {
    const config = read('deploy/nats/server.conf');
    const port = (key: string) => new RegExp(`${key}: "[\\d.]+:(\\d+)"`).exec(config)![1];
    for (const name of SERVERS) {
      const { environment, healthcheck, entrypoint, volumes } = services[name]!;
      const used = new Set([...config.matchAll(/\$(\w+)/g)].map(([, variable]) => variable!));
      expect(Object.keys(environment!).sort()).toEqual([...used].sort());
      expect(environment!.SERVER_NAME).toBe(name);
      const routes = Object.values(environment!).flatMap((value) => /@(.+)"$/.exec(value)?.[1] ?? []);
      expect(routes).toEqual(SERVERS.map((server) => `${server}:${port('listen')}`));
      expect(new URL(healthcheck!.test.at(-1)!).port).toBe(port('http'));
      const mounted = volumes.find((one) => one.startsWith('./nats:'))!.split(':')[1];
      expect(entrypoint!.at(-1)).toBe(`${mounted}/server.conf`);
    }
  });

  it('has nodes that know every server', () => {
    const { nats } = JSON.parse(read('deploy/ecliptic.json'));
    expect(nats.servers).toEqual(SERVERS.map((server) => `nats://${server}:4222`));
    expect(read('deploy/members.sh')).toContain('--listen 0.0.0.0:4222 --store /data');
  });
});

describe('deployment commands', () => {
  it.each(['deploy/README.md', 'docs/operating.md', 'deploy/members.sh'])(
    'of %s exist, with their options',
    async (path) => {
      const commands = commandsIn(read(path));
      expect(commands.length).toBeGreaterThan(1);
      for (const command of commands) await checkCommand(words(command));
    },
  );
});

describe('docs/operating.md', () => {
  it('names metrics that exist', () => {
    const known = read('docs/telemetry.md');
    for (const [, name] of read('docs/operating.md').matchAll(/`(ecliptic_\w+)/g)) expect(known).toContain(`\`${name}`);
  });
});

describe('the NATS servers', () => {
  it('accept server.conf with the members that members.sh writes', () => {
    const place = join(folder, 'deploy');
    mkdirSync(join(place, 'nats'), { recursive: true });
    for (const name of ['members.sh', 'nats/server.conf']) {
      copyFileSync(join(ROOT, 'deploy', name), join(place, name));
    }
    writeFileSync(join(folder, 'docker'), FAKE_DOCKER, { mode: 0o755 });
    const variables = {
      PROGRAM: BIN,
      STATE: join(folder, 'nodes'),
      SERVICES: Object.keys(compose.services).join('\n'),
    };
    const env = { ...process.env, ...variables, PATH: `${folder}${delimiter}${process.env.PATH}` };
    execFileSync(join(place, 'members.sh'), { env });
    const members = readFileSync(join(place, 'nats/members.conf'), 'utf8');
    expect(members.match(/nkey: U/g)).toHaveLength(NODES.length);
    expect(members).toContain('sync_interval: always');
    const { environment } = compose.services['nats-1']!;
    const filled = Object.entries(environment!).map(([name, value]) => [name, value.replace(/\$\{.*?\}/, '0123abc')]);
    const { status, stderr } = spawnSync(natsServer(), ['-t', '-c', join(place, 'nats/server.conf')], {
      env: { ...process.env, ...Object.fromEntries(filled) },
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringContaining('is valid') });
  });

  it('are named in a configuration that the node accepts', () => {
    const { status, stdout } = spawnSync(BIN, ['config', 'check', join(ROOT, 'deploy/ecliptic.json')], {
      encoding: 'utf8',
    });
    expect({ status, stdout }).toMatchObject({ status: 0 });
  });
});

describe('a node as the unit and the image start it', () => {
  it('is ready where the health check asks, stops with code 0 on SIGTERM, and is then not ready', async () => {
    const port = String(await stablePort());
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, NODE_ENV: 'production', PORT: port, ECLIPTIC_DATA: join(folder, 'data') };
    const check = (...args: string[]) => spawnSync('node', [join(ROOT, READY), ...args], { env, encoding: 'utf8' });
    expect(check()).toMatchObject({ status: 1, stderr: expect.stringContaining('ECONNREFUSED') });
    child = spawn(BIN, ['up', '--no-browser', '--no-dht'], { cwd: folder, env, stdio: 'ignore' });
    const ended = once(child, 'exit');
    expect(check('20')).toMatchObject({ status: 0, stderr: '' });
    for (const path of ['/readyz', '/healthz']) {
      expect((await fetch(`http://127.0.0.1:${port}${path}`)).status, path).toBe(200);
    }
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(check().status).toBe(1);
  });
});

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function isPacked(path: string): boolean {
  const listed = manifest.files.some((entry: string) => path === entry || path.startsWith(`${entry}/`));
  return listed && existsSync(join(ROOT, path));
}

function hasProgram(name: string): boolean {
  return spawnSync(name, ['--version']).status === 0;
}

function readDockerfile() {
  const text = read('deploy/Dockerfile');
  const parts = text.split(/^FROM .*$/m).slice(1);
  const stages = parts.map((part) => {
    const lines = [...part.matchAll(/^([A-Z]+) (.+)$/gm)].map(([, name, rest]) => ({ name: name!, rest: rest! }));
    const copies = lines
      .filter(({ name }) => name === 'COPY')
      .map(({ rest }) => {
        const all = rest.split(' ');
        const from = all[0]!.startsWith('--from=') ? all.shift() : undefined;
        return { from, sources: all.slice(0, -1), target: all.at(-1)! };
      });
    return { copies, value: (name: string) => lines.find((line) => line.name === name)!.rest };
  });
  const variables = stages.at(-1)!.value('ENV').split(' ');
  return { text, stages, variables: new Map(variables.map((one) => one.split('=') as [string, string])) };
}

/** The commands of the program in a document or script, without the word `ecliptic`. */
function commandsIn(text: string): string[] {
  const spans = [
    ...[...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].flatMap(([, block]) => block!.split('\n')),
    ...[...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/`([^`]+)`/g)].map(([, span]) => span!.replace(/\s+/g, ' ')),
    ...[...text.matchAll(/compose run .* (nats [^)>]+)/g)].map(([, command]) => `ecliptic ${command}`),
  ];
  return spans.flatMap((span) => /(?:^|[ (/])ecliptic ((?!ecliptic )[a-z].*)$/.exec(span)?.[1] ?? []);
}

/** The words of a command up to a comment, a pipe or another command. */
function words(command: string): string[] {
  const [own] = command.split(/ (?:#|[|>;]|&&|\(|→)/);
  return own!
    .replace(/'[^']*'|"[^"]*"/g, 'QUOTED')
    .split(' ')
    .filter((word) => word !== '' && word !== '…');
}

async function checkCommand(argv: readonly string[]): Promise<void> {
  const line = argv.join(' ');
  const { verbs, name } = await find(argv, TABLE);
  const verb = name === undefined ? undefined : verbs[name];
  expect(verb, line).toBeDefined();
  const known = Object.keys(parserOptions(verb!.options));
  for (const word of argv) if (word.startsWith('--')) expect(known, line).toContain(word.slice(2));
}
