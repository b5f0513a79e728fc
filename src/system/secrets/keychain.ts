import { text } from 'node:stream/consumers';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Children, Program } from '../process/children.js';
import type { Environment } from '../process/environment.js';

/** The operating system's keychain. Failures give undefined or false, never an error. */
export interface Keychain {
  read(account: string): Promise<string | undefined>;
  write(account: string, secret: string): Promise<boolean>;
  remove(account: string): Promise<void>;
}

interface SystemKeychainComponents {
  runtime: Runtime;
  children: Children;
  env: Environment;
}

/** The user may have to unlock the keychain. */
const TIME_LIMIT_MS = 30_000;
const SERVICE = 'ecliptic';

/** The keychain of this system, used through its command-line program; undefined where there is none. */
export function systemKeychain(
  components: SystemKeychainComponents,
  platform: NodeJS.Platform = process.platform,
): Keychain | undefined {
  const run = (program: Program, input = '') => answer(components, program, input);
  if (platform === 'darwin') return macKeychain(run);
  // The Secret Service needs a D-Bus session.
  return platform === 'linux' && components.env.DBUS_SESSION_BUS_ADDRESS
    ? linuxKeychain(run, components.env)
    : undefined;
}

type Run = (program: Program, input?: string) => Promise<string | undefined>;

/** Commands go through standard input: every user of the machine can read arguments. */
function macKeychain(run: Run): Keychain {
  const security = (...words: readonly string[]) => run({ command: 'security', args: ['-i'] }, `${words.join(' ')}\n`);
  const entry = (account: string) => ['-s', SERVICE, '-a', account];
  return {
    async read(account) {
      return (await security('find-generic-password', ...entry(account), '-w'))?.trim() || undefined;
    },
    async write(account, secret) {
      await security('add-generic-password', '-U', ...entry(account), '-w', secret);
      // The interactive mode does not report failures.
      return (await this.read(account)) === secret;
    },
    async remove(account) {
      await security('delete-generic-password', ...entry(account));
    },
  };
}

function linuxKeychain(run: Run, env: Environment): Keychain {
  const session = { DBUS_SESSION_BUS_ADDRESS: env.DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR: env.XDG_RUNTIME_DIR };
  const tool = (args: readonly string[], input?: string) => run({ command: 'secret-tool', args, env: session }, input);
  const entry = (account: string) => ['service', SERVICE, 'account', account];
  return {
    async read(account) {
      return (await tool(['lookup', ...entry(account)]))?.trim() || undefined;
    },
    async write(account, secret) {
      const said = await tool(['store', '--label=Ecliptic credentials', ...entry(account)], secret);
      return said !== undefined && (await this.read(account)) === secret;
    },
    async remove(account) {
      await tool(['clear', ...entry(account)]);
    },
  };
}

/** The output of a program; undefined where it is missing, fails or takes too long. */
async function answer(
  { runtime, children }: SystemKeychainComponents,
  program: Program,
  input: string,
): Promise<string | undefined> {
  try {
    const child = await children.start(program);
    const timer = runtime.setTimer(() => void child.stop({ graceMs: 0 }), TIME_LIMIT_MS);
    const said = text(child.stdout).catch(() => '');
    // A program that does not read has exited, and its exit is handled below.
    if (input !== '') await child.write(input).catch(() => {});
    child.endInput();
    await child.exited;
    timer.cancel();
    const exit = await child.stop();
    return exit.kind === 'code' && exit.code === 0 ? await said : undefined;
  } catch (error) {
    runtime.logger.debug({ program: program.command, error: describeError(error) }, 'keychain is not usable');
    return undefined;
  }
}
