import { type ParseError, parse } from 'jsonc-parser';
import { jsonEntry, readJson } from '../../../src/coding-agents/setup/entries.js';
import { type FuzzTarget, must, mustEqual } from '../fuzz-target.js';

const server = { command: '/usr/bin/node', args: ['/x/bin/ecliptic', 'mcp'] };
const entry = jsonEntry(['mcpServers', 'ecliptic'], ({ command, args }) => ({ command, args }));

/** Setting and removing our entry leaves every other value, and every other byte that is no white space, as it was. */
export const target: FuzzTarget = {
  name: 'jsonc-edit',
  about: 'edits of clients’ JSON files',
  seeds: [
    '{}',
    '{"mcpServers":{}}',
    '// c\n{\n  "a": 1, // d\n  "mcpServers": {\n    "x": { "command": "y" },\n  },\n}\n',
    '{"mcpServers":{"ecliptic":{"command":"old"},"b":1},"z":[1,2]}',
    '{\r\n\t"mcpServers": { /* none */ }\r\n}',
  ],
  words: ['"mcpServers"', '"ecliptic"', '//', '/*', '*/', ',', '{', '}', '\r\n', '\t'],
  maxBytes: 1_024,
  run(input) {
    const text = input.toString('utf8');
    const before = readJson(text) as Record<string, unknown>;
    // A key that is there twice has no single meaning.
    if (hasTwice(text)) return;
    const set = entry.set(text, server);
    const document = read(set);
    const expected = { ...before, mcpServers: { ...asObject(before.mcpServers), ecliptic: server } };
    if (before.mcpServers === undefined || asObject(before.mcpServers))
      mustEqual(sorted(document), sorted(expected), 'set');
    mustEqual(entry.set(set, server), set, 'set twice');
    const removed = entry.remove(set);
    const without = read(removed ?? '{}') as Record<string, unknown>;
    const { ecliptic: _, ...others } = asObject(before.mcpServers) ?? {};
    mustEqual(sorted(without), sorted({ ...before, mcpServers: others }), 'removed');
    for (const comment of commentsOf(text)) must(set.includes(comment), () => `a comment was lost: ${comment}`);
  },
};

function read(text: string): unknown {
  const errors: ParseError[] = [];
  const document: unknown = parse(text, errors, { allowTrailingComma: true });
  must(errors.length === 0, () => `the edit leaves what is no JSON: ${text}`);
  return document;
}

function asObject(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  const object = asObject(value);
  return object
    ? Object.entries(object)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, member]) => [key, sorted(member)])
    : value;
}

function hasTwice(text: string): boolean {
  const keys = [...text.matchAll(/"(mcpServers|ecliptic)"/g)].map(([, key]) => key);
  return new Set(keys).size < keys.length || /\\u|__proto__/.test(text);
}

/** Comments on lines of their own. */
function commentsOf(text: string): string[] {
  return [...text.matchAll(/^[ \t]*(\/\/[^\r\n]*)$/gm)]
    .map(([, comment]) => comment!)
    .filter((one) => !one.includes('"'));
}
