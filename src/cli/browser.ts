import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

type Environment = Readonly<Record<string, string | undefined>>;

/** The program that opens an address on this desktop; undefined without a desktop. */
function opener(env: Environment): readonly string[] | undefined {
  if (env.BROWSER === 'none' || env.SSH_CONNECTION !== undefined || env.CI !== undefined) return undefined;
  if (process.platform === 'darwin') return ['open'];
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler'];
  return env.DISPLAY || env.WAYLAND_DISPLAY ? ['xdg-open'] : undefined;
}

/**
 * Opens a link in the desktop's browser, through a file that only this user can read: other users of the machine see the
 * arguments of processes, and the first browser that uses the link gets the session. Returns false without a desktop.
 */
export function openInBrowser(link: string, folder: string, env: Environment): boolean {
  const [program, ...args] = opener(env) ?? [];
  if (program === undefined) return false;
  const file = join(folder, 'open-page.html');
  writeFileSync(
    file,
    `<!doctype html><meta http-equiv="refresh" content="0;url=${link}"><a href="${link}">Ecliptic</a>\n`,
    {
      mode: 0o600,
    },
  );
  const child = spawn(program, [...args, pathToFileURL(file).href], { stdio: 'ignore', detached: true });
  // The link was printed too, so a desktop without such a program needs no more.
  child.on('error', () => {});
  child.unref();
  return true;
}
