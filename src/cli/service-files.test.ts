import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN } from '../../test/source-files.js';
import { launchAgent, systemdUnit } from './service-files.js';

const init = { command: ['/usr/bin/node', '/opt/a "b" $c/ecliptic', 'up'], folder: '/home/me/50%', path: '/usr/bin' };

describe('the service of a user', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'ecliptic-service-'));
  });

  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('is a unit of systemd that stays down when its owner stops it [BG.3]', () => {
    const { file, text } = systemdUnit(init, '/home/me/.config');
    expect(file).toBe('/home/me/.config/systemd/user/ecliptic.service');
    expect(text).toContain('ExecStart="/usr/bin/node" "/opt/a \\"b\\" $$c/ecliptic" "up"\n');
    expect(text).toContain('WorkingDirectory=/home/me/50%%\n');
    expect(text).toContain('Restart=on-failure\n');
    const unit = join(folder, 'ecliptic.service');
    writeFileSync(unit, systemdUnit({ ...init, command: [process.execPath, BIN, 'up'], folder }, folder).text);
    const { error, status, stderr } = spawnSync('systemd-analyze', ['verify', '--user', unit], { encoding: 'utf8' });
    // Without systemd there is nothing to ask.
    if (!error && !/Failed to/.test(stderr)) expect([status, stderr]).toEqual([0, '']);
  });

  it('is an agent of launchd [BG.3]', () => {
    const { file, text, start } = launchAgent({ ...init, folder: '/Users/me/a&b' }, '/Users/me', 501);
    expect(file).toBe('/Users/me/Library/LaunchAgents/dev.ecliptic.node.plist');
    expect(text).toContain('<string>/opt/a "b" $c/ecliptic</string>');
    expect(text).toContain('<string>/Users/me/a&amp;b</string>');
    expect(start).toEqual([['launchctl', 'bootstrap', 'gui/501', file]]);
  });

  it.runIf(process.platform === 'linux')('is printed, installed and removed by the command [BG.3]', () => {
    const programs = join(folder, 'bin');
    mkdirSync(programs);
    const said = join(folder, 'said');
    writeFileSync(join(programs, 'systemctl'), `#!/bin/sh\necho "$@" >> ${said}\n`, { mode: 0o755 });
    const PATH = `${programs}${delimiter}${process.env.PATH}`;
    const ecliptic = (...args: string[]) => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, 'service', ...args], {
        ...{ env: { PATH, HOME: folder }, encoding: 'utf8', cwd: folder },
      });
      expect([status, stderr]).toEqual([0, '']);
      return stdout;
    };
    const unit = join(folder, '.config', 'systemd', 'user', 'ecliptic.service');
    const printed = ecliptic('install', '--print');
    expect(printed).toContain(`"${BIN}" "up" "--background" "--stay"`);
    expect(existsSync(unit)).toBe(false);
    ecliptic('install');
    expect(readFileSync(unit, 'utf8')).toBe(printed);
    expect(ecliptic('remove')).toContain('removed');
    expect(existsSync(unit)).toBe(false);
    expect(ecliptic('remove')).toBe('There is no such service.\n');
    expect(readFileSync(said, 'utf8').trim().split('\n')).toEqual([
      '--user daemon-reload',
      '--user enable --now ecliptic.service',
      '--user disable --now ecliptic.service',
      '--user daemon-reload',
    ]);
  });
});
