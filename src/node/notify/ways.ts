import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AllowPrivate } from '../../system/fetch/target.js';
import { postWebhook } from '../../system/fetch/webhook.js';
import type { Children, Program } from '../../system/process/children.js';
import type { Environment } from '../../system/process/environment.js';
import { type CredentialSource, resolveHeaders } from '../../system/secrets/credential-source.js';
import type { NotifySettings } from '../config/providers.js';
import type { Notice, NotifyWay } from './owner-notifier.js';

export interface NotifyWaysComponents {
  runtime: Runtime;
  children: Children;
  credentials: CredentialSource;
  env: Environment;
  allowPrivate: AllowPrivate | undefined;
  /** Rings the terminal of this process; undefined without one. */
  ring: (() => void) | undefined;
  /** The name and key of this node. */
  node: { readonly name: string; readonly key: string };
}

/** The provider under whose name the webhook's credentials are set. */
export const NOTIFY_PROVIDER = 'notify';
const DESKTOP_MS = 10_000;
/** Items in one post. */
const MAX_ITEMS = 50;

export function notifyWays(components: NotifyWaysComponents, settings: NotifySettings): NotifyWay[] {
  const { ring } = components;
  const { webhook } = settings;
  return [
    ...(settings.bell && ring ? [bell(ring)] : []),
    ...(settings.desktop ? [desktop(components)] : []),
    ...(webhook ? [webhookWay(components, webhook)] : []),
  ];
}

function bell(ring: () => void): NotifyWay {
  return {
    name: 'bell',
    elsewhere: true,
    tell: async () => {
      ring();
      return undefined;
    },
  };
}

function desktop({ runtime, children, env }: NotifyWaysComponents): NotifyWay {
  return {
    name: 'desktop',
    elsewhere: true,
    async tell({ title, lines }) {
      const program = desktopProgram(title, lines.join('\n'), env);
      if (!program) return `no program that shows notifications is known for ${process.platform}`;
      try {
        const child = await children.start(program);
        const timer = runtime.setTimer(() => void child.stop({ graceMs: 0 }), DESKTOP_MS);
        child.stdout.resume();
        child.endInput();
        await child.exited;
        timer.cancel();
        const exit = await child.stop();
        return exit.kind === 'code' && exit.code === 0 ? undefined : `${program.command} failed`;
      } catch (error) {
        return describeError(error);
      }
    },
  };
}

const SESSION = ['DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR', 'DISPLAY', 'WAYLAND_DISPLAY'];

/** Texts are arguments, never part of a script or of options. */
function desktopProgram(title: string, body: string, env: Environment): Program | undefined {
  if (process.platform === 'darwin') {
    const script = ['on run argv', 'display notification (item 2 of argv) with title (item 1 of argv)', 'end run'];
    return { command: 'osascript', args: [...script.flatMap((line) => ['-e', line]), title, body] };
  }
  if (process.platform !== 'linux') return undefined;
  const session = Object.fromEntries(SESSION.map((name) => [name, env[name]]));
  return { command: 'notify-send', args: ['--app-name=Ecliptic', '--', title, withoutMarkup(body)], env: session };
}

/** Notification servers read the body as markup. */
function withoutMarkup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function webhookWay(
  { runtime, credentials, allowPrivate, node }: NotifyWaysComponents,
  { url, headers }: NonNullable<NotifySettings['webhook']>,
): NotifyWay {
  const owner = { source: credentials, provider: NOTIFY_PROVIDER, workspace: 'default' };
  return {
    name: 'webhook',
    // Each device posts its own.
    elsewhere: false,
    async tell(notice, { signal, once }) {
      const body = JSON.stringify(postOf(notice, node));
      try {
        const resolved = { 'Content-Type': 'application/json', ...(await resolveHeaders(owner, headers)) };
        const about = { body, headers: resolved, allowPrivate, signal, ...(once && { attempts: 1 }) };
        const outcome = await postWebhook(runtime, url, about);
        if ('failure' in outcome) return outcome.failure;
        return outcome.status < 300 ? undefined : `it answered ${outcome.status}`;
      } catch (error) {
        return describeError(error);
      }
    },
  };
}

/** `text` is what chat services show. Diffs and commands stay on the node. */
function postOf({ title, lines, items }: Notice, node: NotifyWaysComponents['node']): object {
  const shown = items.slice(0, MAX_ITEMS).map(({ id, kind, from, title: about, since, until, actions }) => {
    return { id, kind, from, title: about, since, until, actions };
  });
  return { text: [title, ...lines].join('\n'), node, items: shown, more: items.length - shown.length };
}
