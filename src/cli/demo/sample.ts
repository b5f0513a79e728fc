import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** In two parts, so that a review of this program does not take it for a secret. */
const TOKEN = ['ghp', 'k9Qz7RmW2xVb5Tn8Lc4Jd6Hf3Gs1Py0aEuXi'].join('_');

/**
 * A shop in six files. `prices.mjs` ignores the quantity, and its test says so; `orders.mjs` has a token in it, and
 * imports `invoice.mjs`, which imports it.
 */
const SHOP: Readonly<Record<string, string>> = {
  'prices.mjs': `export function total(items) {
  return items.reduce((sum, { price }) => sum + price, 0);
}
`,
  'discount.mjs': `export function discounted(total, percent) {
  return Math.round(total * (100 - percent)) / 100;
}
`,
  'shipping.mjs': `export function shipping(total) {
  return total >= 50 ? 0 : 4.9;
}
`,
  'tax.mjs': `export function withTax(total, rate = 0.2) {
  return Math.round(total * (1 + rate) * 100) / 100;
}
`,
  'orders.mjs': `import { invoice } from './invoice.mjs';

const token = '${TOKEN}';
export const headers = () => ({ authorization: token });
export const order = (items) => ({ items, invoice: invoice(items) });
`,
  'invoice.mjs': `import { headers } from './orders.mjs';
import { total } from './prices.mjs';

export const invoice = (items) => ({ total: total(items), headers: headers() });
`,
  'prices.test.mjs': testOf('prices', 'total', ['total([{ price: 3, quantity: 2 }, { price: 4, quantity: 1 }]), 10']),
  'discount.test.mjs': testOf('discount', 'discounted', ['discounted(50, 10), 45', 'discounted(9.99, 0), 9.99']),
  'shipping.test.mjs': testOf('shipping', 'shipping', ['shipping(50), 0', 'shipping(49.99), 4.9']),
  'tax.test.mjs': testOf('tax', 'withTax', ['withTax(10), 12', 'withTax(10, 0.05), 10.5']),
};

function testOf(file: string, name: string, equal: readonly string[]): string {
  return `import { strictEqual } from 'node:assert';
import { test } from 'node:test';
import { ${name} } from './${file}.mjs';

test('${name}', () => {
${equal.map((pair) => `  strictEqual(${pair});`).join('\n')}
});
`;
}

/** Runs the test file that the task names, and fails if a test fails. */
const TEST = `import { spawnSync } from 'node:child_process';
const [file] = /[\\w-]+\\.test\\.mjs/.exec(process.env.ECLIPTIC_TASK_TEXT) ?? [];
if (!file) { console.log('the task names no test file'); process.exit(1); }
const { NODE_TEST_CONTEXT: _, ...env } = process.env;
const { status, stdout } = spawnSync(process.execPath, ['--test', '--test-reporter=tap', file], { encoding: 'utf8', env });
const count = (what) => Number(new RegExp(\`^# \${what} (\\\\d+)\`, 'm').exec(stdout)?.[1] ?? 0);
const counts = { file, passed: count('pass'), failed: count('fail') };
console.log(JSON.stringify(counts));
process.exit(status === 0 && counts.passed > 0 ? 0 : 1);
`;

/**
 * An agent over the Agent Client Protocol, without a model: it multiplies prices by quantities in `prices.mjs`, after its client
 * has allowed the change.
 */
const FIXER = `import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

let cwd = process.cwd();
let asked = 0;
const answers = new Map();
const say = (message) => process.stdout.write(\`\${JSON.stringify({ jsonrpc: '2.0', ...message })}\\n\`);
const ask = (method, params) =>
  new Promise((resolve) => {
    answers.set(++asked, resolve);
    say({ id: asked, method, params });
  });

const METHODS = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, authMethods: [] }),
  'session/new': (params) => {
    cwd = params.cwd;
    return { sessionId: 'shop' };
  },
  'session/prompt': async ({ sessionId }) => {
    const file = join(cwd, 'prices.mjs');
    const oldText = readFileSync(file, 'utf8');
    const newText = oldText.replace('{ price }) => sum + price', '{ price, quantity }) => sum + price * quantity');
    const { outcome } = await ask('session/request_permission', {
      sessionId,
      toolCall: {
        toolCallId: 'fix',
        title: 'Edit prices.mjs',
        kind: 'edit',
        locations: [{ path: file }],
        rawInput: { path: file },
        content: [{ type: 'diff', path: file, oldText, newText }],
      },
      options: [
        { optionId: 'yes', name: 'Allow', kind: 'allow_once' },
        { optionId: 'no', name: 'Reject', kind: 'reject_once' },
      ],
    });
    const allowed = outcome.outcome === 'selected' && outcome.optionId === 'yes';
    if (allowed) writeFileSync(file, newText);
    const text = allowed ? 'prices.mjs: total() multiplies each price by its quantity' : 'NOT DONE: the change was not allowed';
    say({ method: 'session/update', params: { sessionId, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } });
    return { stopReason: allowed ? 'end_turn' : 'refusal' };
  },
};

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) return answers.get(id)?.(result);
  if (id === undefined) return;
  if (!METHODS[method]) return say({ id, error: { code: -32601, message: 'no such method' } });
  say({ id, result: await METHODS[method](params) });
});
`;

/** Writes the task down, a line for each. */
const NOTE = `import { appendFileSync } from 'node:fs';
appendFileSync('notes.txt', \`\${process.env.ECLIPTIC_TASK_TEXT.trim()}\\n\`);
console.log('written down');
`;

const PROGRAMS: Readonly<Record<string, string>> = {
  'test.mjs': TEST,
  'fixer.mjs': FIXER,
  'note.mjs': NOTE,
};

/** What the tools of the roster find in the shop. */
export const FAULTS = [
  { rule: 'secret/github-token', file: 'orders.mjs', line: 3 },
  { rule: 'import/cycle', file: 'invoice.mjs', line: 1 },
] as const;

export const TEST_FILES = Object.keys(SHOP).filter((file) => file.endsWith('.test.mjs'));

export interface Sample {
  /** The repository that the agents work on. */
  readonly shop: string;
  /** The path of a worker's program. */
  program(name: 'test' | 'fixer' | 'note'): string;
}

/** Writes the sample repository, and beside it the programs of the workers. */
export function writeSample(folder: string): Sample {
  const shop = join(folder, 'shop');
  const programs = join(folder, 'programs');
  write(shop, SHOP);
  write(programs, PROGRAMS);
  return { shop, program: (name) => join(programs, `${name}.mjs`) };
}

function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
}
