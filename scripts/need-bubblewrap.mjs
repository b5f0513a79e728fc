import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const LINE = 'apt-get update && apt-get install -y --no-install-recommends bubblewrap';
const TRIAL = ['--unshare-user', '--unshare-pid', '--unshare-net', '--ro-bind', '/', '/', 'true'];

const isInstalled = () => spawnSync('bwrap', ['--version'], { stdio: 'ignore' }).status === 0;

if (process.platform === 'linux') {
  if (!isInstalled() && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    console.log(`The tests need bubblewrap: ${LINE}`);
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    spawnSync('sh', ['-c', LINE], { stdio: ['ignore', 'ignore', 'inherit'], env });
  }
  if (!isInstalled()) {
    console.error('The tests of the jail need bubblewrap. Install it (as root):');
    console.error(`  ${LINE}`);
    process.exit(1);
  }
  const { status, stderr } = spawnSync('bwrap', TRIAL, { encoding: 'utf8' });
  if (status !== 0) {
    console.error(`The tests of the jail need user namespaces, which this system refuses: ${stderr.trim()}`);
    console.error(
      '  sysctl kernel.unprivileged_userns_clone=1   (on Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)',
    );
    process.exit(1);
  }
}
