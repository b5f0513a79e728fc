import { text, verb } from './command.js';

const create = verb({
  summary: 'make a token for an HTTP caller',
  args: ['NAME'],
  argHelp: [['NAME', 'the caller’s name']],
  options: {
    sandbox: text('ID', 'the caller’s sandbox: it sees and calls nothing outside'),
    scope: text('SCOPE', 'restrict it to tasks (A2A) or tools (MCP), or both with a comma'),
  },
  examples: ['alice', 'ci --sandbox build'],
  async run({ call, values: { sandbox, scope: scopes }, words: [name], output }) {
    const made = await call('token.create', { name, sandbox, scopes });
    const shown = `${made.token}\n\nThis is the only time it is shown. Revoke it with: ecliptic token revoke ${made.id}`;
    output.value(made, () => shown);
  },
});

const list = verb({
  summary: 'list the tokens of HTTP callers',
  async run({ call, output }) {
    const rows = await call('token.list');
    output.rows(rows, 'no tokens; make one with: ecliptic token create NAME', (row) => ({
      ID: row.id,
      NAME: row.name,
      SANDBOX: row.sandbox,
      SCOPES: row.scopes?.join(',') ?? 'all',
      CREATED: new Date(row.createdAt).toISOString(),
    }));
  },
});

const revoke = verb({
  summary: 'revoke a token by its id, or all tokens of a name',
  args: ['ID'],
  examples: ['alice'],
  async run({ call, words: [token], output }) {
    const row = await call('token.revoke', { token });
    output.value(row, () => `The token ${row.id} of ${row.name} is revoked.`);
  },
});

const rotate = verb({
  summary: 'replace your own token',
  async run({ call, output }) {
    const made = await call('token.rotate');
    output.value(made, () => `${made.token}\n\nThis is your token from now on; the previous one is no longer valid.`);
  },
});

export const verbs = { create, list, revoke, rotate };
