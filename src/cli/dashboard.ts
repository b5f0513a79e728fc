import { openInBrowser } from './browser.js';
import { flag, verb } from './command.js';
import { timeText } from './output.js';

const open = verb({
  summary: 'open the dashboard in a browser, or print a link that opens it once',
  options: {
    print: flag('only print the link'),
    revoke: flag('end all sessions and links instead; open pages are disconnected'),
  },
  examples: ['', '--print', '--revoke', '--json'],
  async run({ call, values: { print, revoke }, output, env, dataFolder }) {
    if (revoke) {
      const done = await call('page.revoke');
      return output.value(done, () => `${done.ended} ${done.ended === 1 ? 'session' : 'sessions'} ended.`);
    }
    const link = await call('page.open');
    const opened = !print && !output.json && openInBrowser(link.url, await dataFolder(), env);
    const what = opened ? 'Opened in your browser. ' : '';
    output.value(
      link,
      () => `${link.url}\n\n${what}The link works once, until ${timeText(link.expiresAt, 'seconds')}Z.`,
    );
  },
});

export const verbs = { open };
