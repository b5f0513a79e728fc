import { flag, verb } from './command.js';
import { timeText } from './output.js';

const open = verb({
  summary: 'print a link that opens the dashboard in a browser, once',
  options: { revoke: flag('end all sessions and links instead; open pages are disconnected') },
  examples: ['', '--revoke', '--json'],
  async run({ call, values: { revoke }, output }) {
    if (revoke) {
      const done = await call('page.revoke');
      return output.value(done, () => `${done.ended} ${done.ended === 1 ? 'session' : 'sessions'} ended.`);
    }
    const link = await call('page.open');
    output.value(link, () => `${link.url}\n\nThe link works once, until ${timeText(link.expiresAt, 'seconds')}Z.`);
  },
});

export const verbs = { open };
