import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { HurriedRuntime } from '../../../test/hurried-runtime.js';
import { Children } from '../process/children.js';
import { type Keychain, systemKeychain } from './keychain.js';

/** What the systems' own programs do, with files in place of a keychain; everything they are told goes to a log. */
const SECRET_TOOL = `#!/bin/sh
echo "$@" >> "$0.log"
for last; do :; done
case "$1" in
  store) cat > "$0.$last" ;;
  lookup) cat "$0.$last" 2>/dev/null ;;
  clear) rm -f "$0.$last" ;;
esac
`;
const SECURITY = `#!/bin/sh
echo "$@" >> "$0.log"
while read verb rest; do
  set -- $rest
  case "$verb" in
    add-generic-password) echo "$7" > "$0.$5" ;;
    find-generic-password) cat "$0.$4" 2>/dev/null ;;
    delete-generic-password) rm -f "$0.$4" ;;
  esac
done
`;
const ENV = { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nowhere' };
const SECRET = 'c2VjcmV0IGtleSBvZiAzMiBieXRlcyBvciBzbw==';

let folder: string;
let runtime: HurriedRuntime;
let children: Children;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-keychain-'));
  vi.stubEnv('PATH', `${folder}${delimiter}${process.env.PATH}`);
  runtime = new HurriedRuntime();
  children = await Children.open(runtime);
});

afterEach(async () => {
  await children.close();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function install(name: string, script: string): void {
  writeFileSync(join(folder, name), script);
  chmodSync(join(folder, name), 0o755);
}

function keychain(platform: NodeJS.Platform, env: Record<string, string> = ENV): Keychain | undefined {
  return systemKeychain({ runtime, children, env }, platform);
}

describe.skipIf(process.platform === 'win32')('the system’s keychain', () => {
  it.each([
    ['linux', 'secret-tool', SECRET_TOOL],
    ['darwin', 'security', SECURITY],
  ] as const)('on %s keeps, gives and forgets, and shows nothing in arguments', async (platform, program, script) => {
    install(program, script);
    const own = keychain(platform)!;
    expect(await own.read('one')).toBeUndefined();
    expect(await own.write('one', SECRET)).toBe(true);
    expect(await own.read('one')).toBe(SECRET);
    expect(await own.read('other')).toBeUndefined();
    await own.remove('one');
    expect(await own.read('one')).toBeUndefined();
    expect(readFileSync(join(folder, `${program}.log`), 'utf8')).not.toContain(SECRET);
  });

  it('is absent without a session, and on other systems', () => {
    expect(keychain('linux', {})).toBeUndefined();
    expect(keychain('win32')).toBeUndefined();
  });

  it('that is missing, refuses, forgets or hangs stores nothing, and is no error', async () => {
    vi.stubEnv('PATH', join(folder, 'empty'));
    expect(await keychain('linux')!.write('one', SECRET)).toBe(false);
    vi.stubEnv('PATH', `${folder}${delimiter}/usr/bin${delimiter}/bin`);
    for (const script of ['#!/bin/sh\nexit 1\n', '#!/bin/sh\ncat > /dev/null\n']) {
      install('secret-tool', script);
      expect(await keychain('linux')!.write('one', SECRET)).toBe(false);
      expect(await keychain('linux')!.read('one')).toBeUndefined();
    }
    install('secret-tool', '#!/bin/sh\nsleep 600\n');
    runtime = new HurriedRuntime(100);
    expect(await keychain('linux')!.read('one')).toBeUndefined();
    expect(runtime.timers).toContain(30_000);
    expect(children.size).toBe(0);
  });
});
