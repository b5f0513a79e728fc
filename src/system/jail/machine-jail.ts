import { execFile } from 'node:child_process';
import { describeError } from '../../runtime/errors.js';
import type { JailState } from '../process/jail-settings.js';
import { type BwrapAbilities, bwrapArgs } from './bwrap.js';
import { type SystemFolders, systemFolders } from './system-folders.js';

/** The jail that this machine offers. */
export type MachineJail =
  | {
      readonly kind: 'bwrap';
      readonly state: JailState;
      readonly abilities: BwrapAbilities;
      readonly system: SystemFolders;
    }
  | { readonly kind: 'sandbox-exec'; readonly state: JailState }
  | { readonly kind: 'none'; readonly state: JailState };

/** The program of the jail. */
const BWRAP = 'bwrap';
const SANDBOX_EXEC = '/usr/bin/sandbox-exec';
const TRIAL_MS = 10_000;

const INSTALL = 'install bubblewrap: apt-get install bubblewrap, dnf install bubblewrap or pacman -S bubblewrap';
const ALLOW =
  'allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits them';

/** Tries the jail with a program that does nothing. */
export async function findMachineJail(platform: NodeJS.Platform): Promise<MachineJail> {
  if (platform === 'linux') return findBwrap();
  if (platform === 'darwin') return findSandboxExec();
  return none(`there is no jail for ${platform}`, 'run the node on Linux or macOS');
}

async function findBwrap(): Promise<MachineJail> {
  const version = await run(BWRAP, ['--version']);
  if (version.fault !== undefined) {
    const isMissing = version.code === 'ENOENT';
    return none(isMissing ? 'bubblewrap is not installed' : `bubblewrap fails: ${version.fault}`, INSTALL);
  }
  const system = systemFolders();
  let refusal = '';
  for (const proc of [true, false]) {
    for (const noNestedUsers of [true, false]) {
      const abilities = { proc, noNestedUsers };
      const trial = bwrapArgs({ abilities, ...system, folder: '/' });
      const { fault } = await run(BWRAP, [...trial, '/bin/sh', '-c', ':']);
      if (fault === undefined) {
        const number = version.text.replace(/^bubblewrap\s+/, '').trim();
        return { kind: 'bwrap', abilities, system, state: { kind: 'bwrap', version: number, gaps: gapsOf(abilities) } };
      }
      refusal = fault;
    }
  }
  return none(`the system refuses the jail: ${refusal}`, ALLOW);
}

function gapsOf({ proc, noNestedUsers }: BwrapAbilities): string[] {
  return [...(proc ? [] : ['without /proc']), ...(noNestedUsers ? [] : ['with user namespaces of its own'])];
}

async function findSandboxExec(): Promise<MachineJail> {
  const { fault } = await run(SANDBOX_EXEC, ['-p', '(version 1)(allow default)', '/usr/bin/true']);
  if (fault !== undefined) return none(`sandbox-exec fails: ${fault}`, 'sandbox-exec is part of macOS');
  return { kind: 'sandbox-exec', state: { kind: 'sandbox-exec', version: 'macOS', gaps: [] } };
}

function none(reason: string, remedy: string): MachineJail {
  return { kind: 'none', state: { kind: 'none', reason, remedy } };
}

interface Outcome {
  readonly text: string;
  /** Why it failed. */
  readonly fault?: string;
  readonly code?: unknown;
}

function run(command: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: TRIAL_MS }, (error, stdout, stderr) => {
      if (!error) return resolve({ text: stdout });
      const said = stderr.trim().split('\n').at(-1);
      resolve({ text: stdout, fault: said || describeError(error), code: error.code });
    });
  });
}
