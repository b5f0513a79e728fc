import type { CredentialRow } from '../system/secrets/credentials.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';
import { usage } from './output.js';
import { duration } from './payload.js';
import { readSecret } from './secret-input.js';

export const command: Command = {
  summary: 'keep secrets of providers: set, rotate, revoke, list',
  usage: 'credentials set|rotate|revoke PROVIDER [NAME] [--workspace W] | credentials list [PROVIDER]',
  options: { workspace: { type: 'string' }, grace: { type: 'string' } },
  optionHelp: [
    ['PROVIDER', 'whose it is: a name in mcpServers, or an agent with a provider'],
    ['NAME', 'its name, as in { "credential": "NAME" } (default: default)'],
    ['--workspace W', 'the workspace it is for (default: default)'],
    ['--grace TIME', 'how long work under way may use the value before a rotation, such as 90s'],
  ],
  words: [1, 3],
  examples: [
    'ecliptic credentials set github token    (asks for the value, and does not show it)',
    'pass show github | ecliptic credentials rotate github token --grace 2m',
    'ecliptic credentials revoke github token',
    'ecliptic credentials list --json',
  ],
  async run({ connect, values, words, output }) {
    const [verb, provider, name] = words;
    const { workspace } = values;
    const graceMs = duration(values, 'grace');
    if (graceMs !== undefined && verb !== 'rotate') throw usage('--grace belongs to: ecliptic credentials rotate');
    if (verb === 'list' && name === undefined) {
      const rows = await (await connect()).call<CredentialRow[]>('credentials.list', { provider, workspace });
      output.table(
        rows,
        ['PROVIDER', 'NAME', 'WORKSPACE', 'STATE', 'REVISION', 'CHANGED', 'FAULT'],
        rows.map(tableRow),
        'no credentials; store one with: ecliptic credentials set PROVIDER NAME',
      );
    } else if ((verb === 'set' || verb === 'rotate') && provider !== undefined) {
      const client = await connect();
      const value = await readSecret(`the value of "${name ?? 'default'}" for ${provider}: `);
      const row = await client.call<CredentialRow>(`credentials.${verb}`, {
        provider,
        name,
        workspace,
        value,
        graceMs,
      });
      output.value(row, () => `The credential ${described(row)} is ${verb === 'set' ? 'set' : 'rotated'}.`);
    } else if (verb === 'revoke' && provider !== undefined) {
      const row = await (await connect()).call<CredentialRow>('credentials.revoke', { provider, name, workspace });
      output.value(row, () => `The credential ${described(row)} is revoked.`);
    } else throw misuse(command, words);
  },
};

function described({ provider, workspace, name }: CredentialRow): string {
  return `"${name}" of ${provider} (workspace ${workspace})`;
}

function tableRow({ provider, name, workspace, state, revision, changedAt, fault }: CredentialRow): string[] {
  const changed = changedAt === null ? '-' : new Date(changedAt).toISOString();
  return [provider ?? '?', name ?? '?', workspace ?? '?', state, String(revision ?? '-'), changed, fault ?? ''];
}
