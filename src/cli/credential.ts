import type { CredentialRow } from '../system/secrets/credentials.js';
import { duration, text, verb } from './command.js';
import { readSecret } from './input.js';

const workspace = text('W', 'the workspace it belongs to (default: default)');
const PLACE_HELP = [
  ['PROVIDER', 'a name in mcpServers, or an agent with a provider'],
  ['NAME', 'as in { "credential": "NAME" } (default: default)'],
] as const;

const list = verb({
  summary: 'list stored credentials; values are never shown',
  args: ['PROVIDER?'],
  options: { workspace },
  examples: ['', 'github --json'],
  async run({ call, values, words: [provider], output }) {
    const rows = await call('credentials.list', { provider, workspace: values.workspace });
    const none = 'no credentials; store one with: ecliptic credential set PROVIDER NAME';
    output.rows(rows, none, (row) => ({
      PROVIDER: row.provider ?? '?',
      NAME: row.name ?? '?',
      WORKSPACE: row.workspace ?? '?',
      STATE: row.state,
      REVISION: row.revision,
      CHANGED: row.changedAt === null ? '-' : new Date(row.changedAt).toISOString(),
      FAULT: row.fault ?? '',
    }));
  },
});

const set = verb({
  summary: 'store a secret of a provider; asks for the value without showing it, or reads it from standard input',
  args: ['PROVIDER', 'NAME?'],
  argHelp: PLACE_HELP,
  options: { workspace },
  examples: ['github token'],
  async run({ connect, values, words: [provider, name], output }) {
    const client = await connect();
    const value = await askFor(provider, name);
    const row = await client.call('credentials.set', { provider, name, workspace: values.workspace, value });
    output.value(row, () => `The credential ${described(row)} is set.`);
  },
});

const rotate = verb({
  summary: 'replace a secret of a provider',
  args: ['PROVIDER', 'NAME?'],
  argHelp: PLACE_HELP,
  options: { workspace, grace: duration('how long work in progress may use the old value') },
  examples: ['github token', 'pass show github | % github token --grace 2m'],
  async run({ connect, values, words: [provider, name], output }) {
    const client = await connect();
    const value = await askFor(provider, name);
    const which = { provider, name, workspace: values.workspace };
    const row = await client.call('credentials.rotate', { ...which, value, graceMs: values.grace });
    output.value(row, () => `The credential ${described(row)} is rotated.`);
  },
});

const revoke = verb({
  summary: 'delete a secret of a provider',
  args: ['PROVIDER', 'NAME?'],
  argHelp: PLACE_HELP,
  options: { workspace },
  examples: ['github token'],
  async run({ call, values, words: [provider, name], output }) {
    const row = await call('credentials.revoke', { provider, name, workspace: values.workspace });
    output.value(row, () => `The credential ${described(row)} is revoked.`);
  },
});

function askFor(provider: string, name = 'default'): Promise<string> {
  return readSecret(`the value of "${name}" for ${provider}: `);
}

function described({ provider, workspace: place, name }: CredentialRow): string {
  return `"${name}" of ${provider} (workspace ${place})`;
}

export const verbs = { list, set, rotate, revoke };
