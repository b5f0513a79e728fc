import type { ProviderView } from '../node/control/rows.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

const VERBS: Readonly<Record<string, string>> = {
  show: 'is',
  restart: 'was started again; it is',
  drain: 'has done its work and gets no more; it is',
};

export const command: Command = {
  summary: 'look at one provider, start it again, or let it finish its work',
  usage: 'provider show|restart|drain ID',
  optionHelp: [
    ['show', 'everything that is known of it'],
    ['restart', 'end it and start it again; what it works on fails'],
    ['drain', 'give it no more work, and wait until it has done what it has; `restart` brings it back'],
  ],
  words: [2, 2],
  examples: ['ecliptic provider show mars', 'ecliptic provider restart mars', 'ecliptic provider drain mars --json'],
  async run({ connect, words, output }) {
    const [verb, id] = words;
    if (!Object.hasOwn(VERBS, verb!)) throw misuse(command, words);
    const view = await (await connect()).call<ProviderView>(`provider.${verb}`, { id });
    output.value(view, () => describe(VERBS[verb!]!, view));
  },
};

function describe(what: string, { id, about, ...view }: ProviderView): string {
  // An adapter tells of its process in the same words; they must not stand for the provider's health.
  const told = Object.entries(about).map(([name, value]) => [name in view ? `process ${name}` : name, value]);
  const known = { ...view, capabilities: view.capabilities.join(', '), ...Object.fromEntries(told) };
  const lines = Object.entries(known).map(([name, value]) => {
    const said = typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '-');
    return `  ${name.padEnd(22)} ${said}`;
  });
  return [`${id} ${what} ${view.state}.`, ...lines].join('\n');
}
