import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/server/validators/cf-worker';
import { expect } from 'vitest';
import { find } from '../src/cli/lookup.js';
import { TABLE } from '../src/cli/nouns.js';
import { errorSchema, outputSchema, outputSchemas } from '../src/cli/output-schema.js';

type Check = (value: unknown) => { valid: boolean; errorMessage?: string | undefined };

/** Their output is a document of another kind: a schema, a log, a report in SARIF, the protocol of a client. */
const OTHER = new Set(['config schema', 'plan schema', 'node logs', 'coding-agent mcp', 'coding-agent acp']);
const all = outputSchemas();
const checks = new Map<string, Check>();

/** Fails unless every line that a command printed with `--json` matches the published schema of the command. */
export async function expectJsonOutput(argv: readonly string[], output: { stdout: string; stderr: string }) {
  const [word = 'welcome', ...rest] = argv.filter((one) => one !== '--json');
  if (word === 'help' || word.startsWith('-') || argv.includes('--help')) return;
  const path = await pathOf([word, ...rest]);
  if (path === undefined || OTHER.has(path) || argv.includes('--schema')) return;
  for (const line of linesOf(output.stdout)) {
    expect(all.commands, `the schema of ${path}, which printed ${line.slice(0, 200)}`).toHaveProperty([path]);
    expectMatch(path, () => outputSchema(path, all)!, line);
  }
  for (const line of linesOf(output.stderr)) {
    if (line.startsWith('{"error":')) expectMatch('error', () => errorSchema(all), line);
  }
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function expectMatch(name: string, schema: () => object, line: string): void {
  const known = checks.get(name);
  const check = known ?? new CfWorkerJsonSchemaValidator().getValidator(schema() as never);
  checks.set(name, check as Check);
  const { valid, errorMessage } = (check as Check)(JSON.parse(line));
  if (!valid) expect.fail(`${name} printed what its schema does not allow: ${errorMessage}\n${line.slice(0, 2_000)}`);
}

/** The command as its schema is named; undefined where the words name none. */
async function pathOf(words: readonly [string, ...string[]]): Promise<string | undefined> {
  try {
    const { noun, name, verbs } = await find(words, TABLE);
    if (name === undefined) return undefined;
    return noun.otherwise === name && Object.keys(verbs).length === 1 ? noun.name : `${noun.name} ${name}`;
  } catch {
    return undefined;
  }
}
