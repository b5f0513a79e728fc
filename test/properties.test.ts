import { describe, expect, it } from 'vitest';
import { sourceFiles } from './source-files.js';

/** The specification's correctness properties, by number. */
const PROPERTIES = [
  'Agent Card registration and retrieval',
  'Agent Card validation rejects incomplete cards',
  'Duplicate Agent Card updates revision',
  'Agent Card serialization round trip',
  'Remote Agent Card merge preserves origin',
  'A2A Envelope structure and uniqueness',
  'A2A Envelope serialization round trip',
  'Correlation threading',
  'Message type validation',
  'Channel state machine validity',
  'Channel message ordering',
  'Channel retry on failure',
  'Direct message routing',
  'Broadcast delivery',
  'Capability-based routing',
  'Tier-based routing enforcement',
  'Routing event emission',
  'MCP tool registration and listing',
  'MCP tool invocation routing',
  'MCP tool name uniqueness',
  'MCP resource registration and read round trip',
  'MCP prompt template substitution',
  'Task negotiation message structure',
  'Task acceptance creates correlation thread',
  'Swarm broadcast to capable agents',
  'Swarm sub-task assignment and state consistency',
  'CRDT update broadcast and apply round trip',
  'CRDT concurrent update confluence',
  'Sandbox routing enforcement',
  'Sandbox discovery filtering',
  'Cross-tier audit logging',
  'A2A message metrics accuracy',
  'MCP tool invocation metrics accuracy',
  'MCP invocation record serialization round trip',
];
const MIN_RUNS = 100;

/** A test whose title has a property's tag, up to the next test of its file. */
const TAGGED =
  /\bit(?:\.\w+)?\(\s*'(Feature: a2a-mcp-protocols, Property \d+: [^'[]*?) \[[^\]]*\]'.*?(?=\n {2}(?:it|describe)\b|\n\}\);)/gs;

describe('the properties of the specification', () => {
  const tests = sourceFiles('src').flatMap(({ path, text }) =>
    path.endsWith('.test.ts')
      ? [...text.matchAll(TAGGED)].map(([body, tag]) => ({ tag: tag!, path, runs: runsOf(body, text) }))
      : [],
  );

  it('have one tagged test each, and no other test has such a tag', () => {
    const tags = PROPERTIES.map((title, at) => `Feature: a2a-mcp-protocols, Property ${at + 1}: ${title}`);
    expect(tests.map(({ tag }) => tag).sort()).toEqual(tags.sort());
  });

  it(`are each checked with at least ${MIN_RUNS} cases`, () => {
    expect(tests.filter(({ runs }) => !(runs >= MIN_RUNS))).toEqual([]);
  });
});

/** How many cases a test's one `fc.assert` runs; NaN where it has none, or several, or does not say. */
function runsOf(body: string, file: string): number {
  if (body.split('fc.assert(').length !== 2) return Number.NaN;
  const [, literal, name] = /\{ numRuns: (?:tries\()?(?:([\d_]+)|(\w+))(?:, '[^']*'\))? \}/.exec(body) ?? [];
  if (literal !== undefined) return Number(literal.replaceAll('_', ''));
  const [, constant = name] = /^ *\}?\)?,? *(RUNS),?\s*\);?$/m.exec(body) ?? /,\s*(RUNS),?\s*\)/.exec(body) ?? [];
  const value = constant && new RegExp(`^const ${constant} = (.*);$`, 'm').exec(file)?.[1];
  const numbers = value ? [...value.matchAll(/\d[\d_]*/g)].map(([digits]) => Number(digits.replaceAll('_', ''))) : [];
  return Math.min(...numbers, numbers.length === 0 ? Number.NaN : Number.POSITIVE_INFINITY);
}
