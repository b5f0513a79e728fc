import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
import { prepareDataFolder } from '../node/control/data-folder.js';
import { EclipticError } from '../runtime/errors.js';
import { PROGRAM } from '../runtime/package.js';
import { flag, type Invocation, verb } from './command.js';
import { folderOf, launchAgent, type ServiceFile, systemdUnit } from './service-files.js';

const install = verb({
  summary: 'let systemd or launchd run this user’s node, from login on',
  options: { print: flag('only print the file that would be written') },
  examples: ['--print', '', '--data ./state'],
  async run(invocation) {
    const { output, values } = invocation;
    const folder = await invocation.dataFolder();
    const service = serviceOf(invocation, folder);
    if (values.print) return output.value({ file: service.file, text: service.text }, () => service.text.trimEnd());
    prepareDataFolder(folder);
    mkdirSync(folderOf(service), { recursive: true });
    writeFileSync(service.file, service.text, { mode: 0o600 });
    for (const command of service.start) run(command, service.file);
    output.value({ installed: true, file: service.file }, () => `The node runs as a service: ${service.file}`);
  },
});

const remove = verb({
  summary: 'stop that service and remove its file',
  examples: [''],
  async run(invocation) {
    const service = serviceOf(invocation, await invocation.dataFolder());
    const removed = existsSync(service.file);
    if (removed) {
      for (const command of service.stop.slice(0, 1)) run(command, service.file);
      rmSync(service.file);
      for (const command of service.stop.slice(1)) run(command, service.file);
    }
    const said = removed ? `The service is stopped, and ${service.file} removed.` : 'There is no such service.';
    invocation.output.value({ removed, file: service.file }, () => said);
  },
});

function serviceOf({ env }: Invocation, folder: string): ServiceFile {
  // The file of the user's own settings, and a free port that stays the same, as for a node in the background.
  const command = [process.execPath, PROGRAM, 'up', '--background', '--stay', '--no-browser', '--data', folder];
  const init = { command, folder, path: env.PATH ?? '/usr/local/bin:/usr/bin:/bin' };
  if (process.platform === 'linux') return systemdUnit(init, env.XDG_CONFIG_HOME || join(homedir(), '.config'));
  if (process.platform === 'darwin') return launchAgent(init, homedir(), userInfo().uid);
  throw new EclipticError('OPERATION_NOT_SUPPORTED', `services are for Linux and macOS, not ${process.platform}`);
}

function run([command, ...args]: readonly string[], file: string): void {
  const { status, stderr, error } = spawnSync(command!, args, { encoding: 'utf8' });
  if (status === 0) return;
  const line = [command, ...args].join(' ');
  const reason = error?.message ?? stderr.trim();
  throw new EclipticError('PROCESS_START_FAILED', `${line} failed: ${reason}; the file is ${file}`, { command: line });
}

export const verbs = { install, remove };
