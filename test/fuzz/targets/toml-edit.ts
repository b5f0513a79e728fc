import { parse } from 'smol-toml';
import { tomlEntry } from '../../../src/coding-agents/setup/entries.js';
import { type FuzzTarget, must, mustEqual } from '../fuzz-target.js';

const server = { command: '/usr/bin/node', args: ['/x/bin/ecliptic', 'mcp'] };
const entry = tomlEntry('mcp_servers.ecliptic', ({ command, args }) => [
  `command = ${JSON.stringify(command)}`,
  `args = ${JSON.stringify(args)}`,
]);

/** As another parser reads it, setting our table changes nothing else, and removing it restores the file. */
export const target: FuzzTarget = {
  name: 'toml-edit',
  about: 'edits of clients’ TOML files',
  seeds: [
    'model = "x"\n\n[mcp_servers.other]\ncommand = "y"\n',
    '[mcp_servers.ecliptic]\ncommand = "old"\n\n[a]\nb = 1\n',
    '[mcp_servers]\n[[list]]\na = """\n[mcp_servers.ecliptic]\n"""\n',
    "a = '''\n[x]\n'''\r\n[b]\r\n",
    'mcp_servers = {}\n',
  ],
  words: [
    '[mcp_servers.ecliptic]',
    '[mcp_servers]',
    'mcp_servers.ecliptic.command = "x"',
    '"""',
    "'''",
    '[[',
    ']]',
    '# c\n',
    '\r\n',
    '["mcp_servers".ecliptic]',
    '[mcp_servers . ecliptic]',
    '[mcp_servers.ecliptic.env]',
  ],
  maxBytes: 1_024,
  run(input) {
    const text = input.toString('utf8');
    const before = read(text);
    if (before === undefined) return;
    const set = entry.set(text, server);
    const after = read(set);
    must(after !== undefined, () => `the edit leaves what is no TOML: ${JSON.stringify(set)}`);
    const expected = structuredClone(before);
    expected.mcp_servers ??= {};
    const servers = expected.mcp_servers as Record<string, unknown>;
    // Tables within ours stay as they were.
    const inner = Object.entries((servers.ecliptic ?? {}) as object).filter(([, value]) => isTable(value));
    servers.ecliptic = { ...Object.fromEntries(inner), ...server };
    mustEqual(sorted(after), sorted(expected), 'set');
    mustEqual(entry.set(set, server), set, 'set twice');
    const removed = read(entry.remove(set) ?? '');
    must(removed !== undefined, () => 'removing leaves what is no TOML');
    if (!('ecliptic' in ((before.mcp_servers ?? {}) as object)))
      mustEqual(sorted(withoutEmpty(removed)), sorted(withoutEmpty(before)), 'removed');
  },
};

function read(text: string): Record<string, unknown> | undefined {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

function isTable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

function withoutEmpty({ mcp_servers: servers, ...others }: Record<string, unknown>): Record<string, unknown> {
  return servers !== undefined && JSON.stringify(servers) !== '{}' ? { ...others, mcp_servers: servers } : others;
}

function sorted(value: unknown): unknown {
  if (typeof value === 'number') return String(value);
  if (Array.isArray(value)) return value.map(sorted);
  if (!isTable(value)) return value;
  return Object.entries(value as object)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => [key, sorted(member)]);
}
