import { lstatSync, mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, resolve, sep } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { childEnvironment, programFault } from '../process/environment.js';
import { type Jailed, type JailKeeper, jailUnavailable } from '../process/jail-keeper.js';
import type { JailRequest, JailSettings, JailState } from '../process/jail-settings.js';
import type { Program } from '../process/program.js';
import { bwrapArgs } from './bwrap.js';
import { forwarderCommand, INSIDE_SOCKET, proxyVariables } from './forwarder.js';
import { GitMounts } from './git-mounts.js';
import { findMachineJail, type MachineJail } from './machine-jail.js';
import { hiddenMounts, isWithin, type Mount } from './mounts.js';
import { programFiles } from './program-files.js';
import { JailProxy, type LocalEndpoint } from './proxy.js';
import { seatbeltProfile } from './seatbelt.js';
import type { SystemFolders } from './system-folders.js';

export interface JailsInit {
  /** Holds the private homes of jailed programs. Default: a temporary folder. */
  readonly folder?: string | undefined;
  /** Folders that no jail shows, whatever it may read: the node's data, its control socket. */
  readonly hidden?: readonly string[];
  /** Files that no jail may write, such as the configuration in a workspace. */
  readonly fixed?: readonly string[];
  /** The MCP endpoint of this node, for programs that may reach it. */
  readonly mesh?: (() => LocalEndpoint | undefined) | undefined;
  /** Default: that of this process. */
  readonly platform?: NodeJS.Platform;
}

/** What the jail of one program is made of. */
interface Inside {
  readonly workspace: string;
  readonly env: Record<string, string>;
  readonly system: SystemFolders;
  readonly writable: readonly string[];
  readonly git: readonly Mount[];
}

/** The profile for macOS names the folders of the system itself. */
const NO_SYSTEM: SystemFolders = { mounts: [], links: new Map(), paths: [] };

/** Starts programs in jails of the operating system: the one place that knows how. */
export class Jails implements JailKeeper {
  readonly #runtime: Runtime;
  readonly #init: JailsInit;
  readonly #platform: NodeJS.Platform;
  readonly #home: string;
  /** Folders as they were at their first use: a link that is there later leads somewhere else. */
  readonly #known = new Map<string, string>();
  readonly #git = new GitMounts();
  #machine: Promise<MachineJail> | undefined;
  #folder: string | undefined;

  constructor(runtime: Runtime, init: JailsInit = {}) {
    this.#runtime = runtime;
    this.#init = init;
    this.#platform = init.platform ?? process.platform;
    this.#home = resolve(process.env.HOME || homedir());
  }

  /** The jail of this machine, tried out at the first call. */
  async state(): Promise<JailState> {
    return (await this.#find()).state;
  }

  /** The jail that a program with these settings would be in. Throws `JAIL_UNAVAILABLE` where it must have one. */
  async check({ required = false }: JailSettings): Promise<JailState> {
    const { state } = await this.#find();
    if (state.kind === 'none' && required) throw jailUnavailable(state);
    return state;
  }

  /** The same program in a jail, or as it is where this machine has none. */
  async enter(program: Program, request: JailRequest): Promise<Jailed> {
    const state = await this.check(request);
    const machine = await this.#find();
    if (machine.kind === 'none') return { program, state, release() {} };
    const workspace = this.#checked(request.workspace);
    const env = childEnvironment(process.env, program.env);
    const fault = programFault({ command: program.command, cwd: workspace, env: program.env ?? {} }, process.env);
    if (fault !== undefined) {
      const { command } = program;
      throw new EclipticError('PROCESS_START_FAILED', `cannot start ${command}: ${fault}`, { command });
    }
    const system = machine.kind === 'bwrap' ? machine.system : NO_SYSTEM;
    const proxy = await this.#proxy(program, request);
    const writable = this.#writable(request, workspace);
    let release = () => proxy?.close();
    try {
      const closed = [...(this.#init.hidden ?? []), ...(request.read ?? []).map((path) => this.#checked(path))];
      const git = this.#git.take(writable, closed);
      release = () => {
        git.release();
        proxy?.close();
      };
      const mounts = this.#mounts(program, request, { workspace, env, system, writable, git: git.mounts });
      const inside = { ...program, cwd: workspace, jail: undefined };
      const ready =
        machine.kind === 'bwrap'
          ? inBwrap(machine, inside, mounts, proxy)
          : inSeatbelt(inside, mounts, proxy, this.#homeOf(request));
      return { program: ready, state, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #find(): Promise<MachineJail> {
    this.#machine ??= findMachineJail(this.#platform);
    return this.#machine;
  }

  #writable({ own, write = [] }: JailRequest, workspace: string): string[] {
    return [workspace, ...write.map((path) => this.#checked(path)), ...(own === undefined ? [] : [own])];
  }

  #mounts({ command, args = [] }: Program, request: JailRequest, inside: Inside): Mount[] {
    const { workspace, env, system, writable, git } = inside;
    const { read = [] } = request;
    const { hidden = [], fixed = [] } = this.#init;
    const isWritable = (path: string) => writable.some((folder) => isWithin(path, folder));
    const isSystem = (path: string) => system.paths.some((folder) => isWithin(path, folder));
    const priv = [this.#home, ...hidden];
    const files = programFiles({ command, args, folder: workspace, env, priv });
    const shown: Mount[] = [
      // A writable file may be a link to anything.
      ...files.filter(({ path }) => !isWritable(path) && !isSystem(path)),
      ...read.map((path): Mount => ({ path: this.#checked(path), kind: 'read' })),
      ...writable.map((path): Mount => ({ path, kind: 'write' })),
    ];
    return [
      ...['/tmp', '/var/tmp', '/run', '/dev/shm'].map((path): Mount => ({ path, kind: 'empty' })),
      { path: this.#home === sep ? '/home' : this.#home, kind: 'write', source: this.#homeOf(request) },
      ...hiddenMounts(hidden, [...system.mounts, ...shown]),
      ...system.mounts,
      ...shown,
      ...git.filter(({ path }) => !shown.some((mount) => mount.path === path)),
      ...fixed.filter((path) => isWritable(path) && isPlainFile(path)).map((path): Mount => ({ path, kind: 'read' })),
    ];
  }

  /** The real path. Refuses one that would open what a jail hides. */
  #checked(path: string): string {
    const folder = this.#real(path);
    const { hidden = [] } = this.#init;
    const opened = isWithin(this.#home, folder) ? this.#home : hidden.find((one) => one === folder);
    if (opened === undefined) return folder;
    const message = `${folder} cannot be opened to a jailed program: it holds ${opened}, which a jail hides`;
    throw new EclipticError('INVALID_CONFIG', message, { path: folder, faults: [path] });
  }

  #real(path: string): string {
    let real: string;
    try {
      real = realpathSync(path);
    } catch (error) {
      throw new EclipticError('INVALID_CONFIG', `a jailed program has no ${path}`, { path, faults: [path] }, error);
    }
    const known = this.#known.get(path) ?? real;
    this.#known.set(path, known);
    if (known === real) return real;
    const message = `${path} now leads to another place than when the node started; a jailed program is not started there`;
    throw new EclipticError('INVALID_CONFIG', message, { path, faults: [path] });
  }

  #proxy(program: Program, request: JailRequest): Promise<JailProxy> | undefined {
    const mesh = request.mesh ? this.#init.mesh?.() : undefined;
    const allow = [...(request.network ?? [])];
    if (allow.length === 0 && !mesh) return undefined;
    const name = program.name ?? program.command;
    return JailProxy.open(this.#runtime, { name, allow, mesh, overTcp: this.#platform === 'darwin' });
  }

  /** It belongs to the programs of one name, and lies where no jail can replace it. */
  #homeOf({ name }: JailRequest): string {
    const home = join(this.#ownFolder(), name.replace(/[^\w.-]+/g, '-'), 'home');
    mkdirSync(home, { recursive: true, mode: 0o700 });
    return home;
  }

  #ownFolder(): string {
    this.#folder ??= this.#init.folder ?? mkdtempSync(join(tmpdir(), 'ecliptic-jails-'));
    return this.#folder;
  }
}

function isPlainFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function inBwrap(
  { abilities, system }: Extract<MachineJail, { kind: 'bwrap' }>,
  program: Program,
  mounts: readonly Mount[],
  proxy: JailProxy | undefined,
): Program {
  const all = [...mounts];
  if (proxy) all.push({ path: INSIDE_SOCKET, kind: 'read', source: proxy.path });
  const jail = bwrapArgs({ abilities, links: system.links, mounts: all, folder: program.cwd! });
  const { command, args = [] } = program;
  const inner = proxy ? forwarderCommand(proxy.insidePorts, [command, ...args]) : [command, ...args];
  return {
    ...program,
    name: program.name ?? command,
    command: 'bwrap',
    args: [...jail, ...inner],
    env: { ...program.env, TMPDIR: '/tmp', ...(proxy && proxyVariables()) },
    isJail: true,
  };
}

/** macOS has no private mounts: the program gets other folders by their names. */
function inSeatbelt(program: Program, mounts: readonly Mount[], proxy: JailProxy | undefined, home: string): Program {
  const temporary = join(home, 'tmp');
  mkdirSync(temporary, { recursive: true, mode: 0o700 });
  const ports = proxy ? [proxy.port, ...proxy.insidePorts.map(({ port }) => port)].flatMap((port) => port ?? []) : [];
  const profile = seatbeltProfile({ mounts, ports });
  return {
    ...program,
    name: program.name ?? program.command,
    command: '/usr/bin/sandbox-exec',
    args: ['-p', profile, program.command, ...(program.args ?? [])],
    env: { ...program.env, HOME: home, TMPDIR: temporary, ...(proxy?.port && proxyVariables(proxy.port)) },
  };
}
