import type { ProviderView } from '../node/control/rows.js';
import type { ProviderRow } from '../providers/registry/registered-provider.js';
import { verb } from './command.js';

const list = verb({
  summary: 'list the providers that do agents’ work, and their health',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('providers');
    const none = 'no providers; give an agent "a2a", "acp" or "command" in ecliptic.json';
    output.rows(rows, none, (row) => ({
      PROVIDER: row.id,
      TYPE: row.type,
      HEALTH: row.state,
      PHASE: row.phase,
      WORK: `${row.inFlight}/${row.concurrencyLimit}`,
      DONE: row.completed,
      FAILED: row.failed,
      JAIL: row.jail === null ? '-' : row.jail.split(':')[0]!,
      REMARK: remarkOn(row),
    }));
  },
});

const history = verb({
  summary: 'list the changes of providers since the node started: health, failovers, restarts',
  args: ['ID?'],
  examples: ['', 'mars --json'],
  async run({ call, words: [id], output }) {
    const rows = await call('provider.history', { id });
    output.rows(rows, 'no changes', ({ at, provider, what, from, to, reason }) => ({
      AT: new Date(at).toISOString(),
      PROVIDER: provider,
      CHANGE: what,
      FROM: from,
      TO: to,
      REASON: reason?.split('\n')[0] ?? null,
    }));
  },
});

/** A healthy provider with a message has failed checks, which do not count until there are three in a row. */
function remarkOn({ state, failureCount, message }: ProviderRow): string {
  const remark = message?.split('\n')[0] ?? '';
  return state === 'healthy' && failureCount > 0 ? `the last ${failureCount} of 3 checks failed: ${remark}` : remark;
}

function about(method: 'provider.show' | 'provider.restart' | 'provider.drain', summary: string, done: string) {
  return verb({
    summary,
    args: ['ID'],
    examples: ['mars', 'mars --json'],
    async run({ call, words: [id], output }) {
      const view = await call(method, { id });
      output.value(view, () => describe(done, view));
    },
  });
}

function describe(done: string, { id, about, ...view }: ProviderView): string {
  const { jail: _, ...details } = about;
  // An adapter may use the same names for its process; those must not replace the provider's health.
  const own = Object.entries(details).map(([name, value]) => [name in view ? `process ${name}` : name, value]);
  const known = { ...view, capabilities: view.capabilities.join(', '), ...Object.fromEntries(own) };
  const lines = Object.entries(known).map(([name, value]) => {
    const shown = typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '-');
    return `  ${name.padEnd(22)} ${shown}`;
  });
  return [`${id} ${done} ${view.state}.`, ...lines].join('\n');
}

export const verbs = {
  list,
  history,
  show: about('provider.show', 'show everything known about a provider', 'is'),
  restart: about('provider.restart', 'stop and start a provider; its work in progress fails', 'was restarted; it is'),
  drain: about(
    'provider.drain',
    'let a provider finish its work and give it no more; restart undoes it',
    'is drained; it is',
  ),
};
