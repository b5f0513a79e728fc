import type { TokenRow } from '../http/auth/tokens.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

export const command: Command = {
  summary: 'make, list and revoke tokens for HTTP callers, or replace your own',
  usage: 'token create NAME [--sandbox ID] [--scope tasks|tools] | token list | token revoke ID | token rotate',
  options: { sandbox: { type: 'string' }, scope: { type: 'string' } },
  optionHelp: [
    ['NAME', 'the name that its bearer goes by'],
    ['--sandbox ID', 'the sandbox that its bearer is in: it then sees and calls nothing outside'],
    ['--scope SCOPE', 'what it may be used for alone: tasks (A2A) or tools (MCP), or both with a comma'],
  ],
  words: [1, 2],
  examples: [
    'ecliptic token create alice',
    'ecliptic token create ci --sandbox build',
    'ecliptic token revoke alice',
    'ecliptic token rotate',
  ],
  async run({ connect, values, words, output }) {
    const [verb, subject] = words;
    const { sandbox, scope: scopes } = values;
    if (verb === 'create' && subject !== undefined) {
      const made = await (await connect()).call<TokenRow & { token: string }>('token.create', {
        name: subject,
        sandbox,
        scopes,
      });
      output.value(
        made,
        () => `${made.token}\n\nThis is the only time it is shown. Revoke it with: ecliptic token revoke ${made.id}`,
      );
    } else if (verb === 'list' && subject === undefined) {
      const rows = await (await connect()).call<TokenRow[]>('token.list');
      output.table(
        rows,
        ['ID', 'NAME', 'SANDBOX', 'SCOPES', 'CREATED'],
        rows.map(({ id, name, sandbox: box, scopes: given, createdAt }) => [
          id,
          name,
          box ?? '-',
          given?.join(',') ?? 'all',
          new Date(createdAt).toISOString(),
        ]),
        'no tokens; make one with: ecliptic token create NAME',
      );
    } else if (verb === 'revoke' && subject !== undefined) {
      const row = await (await connect()).call<TokenRow>('token.revoke', { token: subject });
      output.value(row, () => `The token ${row.id} of ${row.name} is revoked.`);
    } else if (verb === 'rotate' && subject === undefined) {
      const made = await (await connect()).call<{ token: string }>('token.rotate');
      output.value(made, () => `${made.token}\n\nThis is your token from now on; the one before has ended.`);
    } else throw misuse(command, words);
  },
};
