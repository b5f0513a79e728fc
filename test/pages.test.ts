import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { find, parserOptions } from '../src/cli/lookup.js';
import { TABLE } from '../src/cli/nouns.js';
import { parseConfig } from '../src/node/config/load.js';
import { Cluster } from './nodes/cluster.js';
import { blocksOf, PageSession } from './page-session.js';
import { ROOT } from './source-files.js';

vi.setConfig({ testTimeout: 120_000 });

const PAGES = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)].filter((path) =>
  path.endsWith('.md'),
);
/** The pages in reading order, and the README. */
const GUIDES = [
  'README.md',
  ...[...readFileSync(join(ROOT, 'docs', 'README.md'), 'utf8').matchAll(/^\d+\. \[[^\]]+\]\((.+\.md)\)/gm)].map(
    ([, file]) => `docs/${file}`,
  ),
];
const EXAMPLES = readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.ts'));
/** Keys that a configuration may have at its top; other parts are agents. */
const KEYS = Object.keys(JSON.parse(readFileSync(join(ROOT, 'schema', 'ecliptic.schema.json'), 'utf8')).properties);

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

describe('the terminal sessions', () => {
  const cluster = new Cluster();
  let session: PageSession | undefined;

  afterEach(async () => {
    await session?.end();
    session = undefined;
    await cluster.end();
  });

  const pages = PAGES.filter((path) => path !== 'README.md' && /^```console/m.test(read(path)));

  it.each(pages)('of %s print what is shown [FM.pages]', async (path) => {
    const page = read(path);
    const hasDevices = /^```console \w/m.test(page);
    session = new PageSession({ upOptions: hasDevices ? `--bootstrap ${await cluster.dht()}` : '' });
    await session.run(page);
  });
});

describe('the commands', () => {
  it.each(PAGES)('of %s exist, with their options and words [FM.pages]', async (path) => {
    const { lines, named } = commandsOf(read(path));
    for (const line of [...lines, ...named]) {
      const found = await find(line.slice(1), TABLE);
      const whole = lines.includes(line);
      const verb = found.name === undefined ? undefined : found.verbs[found.name];
      // In a sentence, a noun may stand for its verbs, and words may be left out.
      if (!verb && !whole) continue;
      expect(verb, line.join(' ')).toBeDefined();
      const options = { ...parserOptions(verb!.options), help: { type: 'boolean' } };
      const given = found.args.filter((word) => word.startsWith('--')).map((word) => word.slice(2).split('=')[0]!);
      expect(
        given.filter((name) => !Object.hasOwn(options, name)),
        line.join(' '),
      ).toEqual([]);
      if (!whole) continue;
      const { positionals } = parseArgs({
        args: [...found.args],
        options: parserOptions(verb!.options),
        allowPositionals: true,
      });
      const least = verb!.args.filter((arg) => !/(\?|\.\.\.)$/.test(arg)).length;
      const most = verb!.args.at(-1)?.endsWith('...') ? 99 : verb!.args.length;
      expect(positionals.length, line.join(' ')).toBeLessThanOrEqual(most);
      expect(positionals.length, line.join(' ')).toBeGreaterThanOrEqual(least);
    }
  });
});

describe('the snippets', () => {
  const examples = EXAMPLES.map((name) => squeezed(read(join('examples', name))));

  it.each(GUIDES)('of TypeScript in %s are parts of the examples, which run [FM.pages]', (path) => {
    const loose = blocksOf(read(path))
      .filter(({ language }) => language === 'ts')
      .filter(({ text }) => !examples.some((example) => example.includes(squeezed(text))));
    expect(loose.map(({ text }) => text)).toEqual([]);
  });

  it.each(PAGES)('of configuration in %s are valid [FM.pages]', (path) => {
    for (const { language, text } of blocksOf(read(path))) {
      if (language !== 'jsonc') continue;
      const [, first] = /"(\w+)"/.exec(text) ?? [];
      const whole = text.startsWith('{') ? text : KEYS.includes(first!) ? `{${text}}` : `{"agents":{${text}}}`;
      parseConfig(whole, path);
    }
  });

  it.each(PAGES)('of YAML in %s are valid [FM.pages]', (path) => {
    for (const { language, text } of blocksOf(read(path)))
      if (language === 'yaml') expect(parse(text)).toBeTypeOf('object');
  });

  it('include the plan of the examples, word for word', () => {
    expect(read('docs/plans-and-swarms.md')).toContain(`\`\`\`yaml\n${read('examples/plan.yaml')}\`\`\``);
  });

  it('name methods of agents that exist', async () => {
    const { createNode } = await import('../src/node/compose.js');
    const node = await createNode();
    const agent = node.agent({ id: 'a' });
    const named = [...read('docs/api.md').matchAll(/`agent\.(\w+)`/g)].map(([, name]) => name!);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !(name in agent))).toEqual([]);
    await node.stop();
  });
});

describe('the links', () => {
  it.each(PAGES)('of %s lead to headings that exist [FM.pages]', async (path) => {
    const { renderMarkdown } = await import('../src/http/docs/render.js');
    const broken: string[] = [];
    for (const [, target] of read(path).matchAll(/\]\((?!https?:|mailto:)([^)\s]*#[^)\s]+)\)/g)) {
      const [file, fragment] = target!.split('#');
      const page = file === '' ? path : join(path, '..', file!);
      const { html } = renderMarkdown(read(page), (href) => href);
      if (!html.includes(`id="${fragment}"`)) broken.push(target!);
    }
    expect(broken).toEqual([]);
  });
});

/** The commands in blocks for a shell, and those that the text names. Comments are cut off. */
function commandsOf(page: string): { lines: string[][]; named: string[][] } {
  const lines = blocksOf(page)
    .filter(({ language }) => language === 'sh' || language === 'console')
    .flatMap(({ text }) => text.split('\n'))
    .map((line) => line.replace(/^\$ /, '').replace(/\s#.*$/, ''))
    .filter((line) => /^(npx )?ecliptic\s+\S/.test(line));
  const named = [...page.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/`((?:npx )?ecliptic [^`]+)`/g)]
    .map(([, line]) => line!)
    // Lines that a table of errors shows with their places to fill in.
    .filter((line) => !/^(npx )?ecliptic \W/.test(line));
  const words = (line: string) => wordsOf(line.replace(/^npx /, '').replace(/\s[|>].*$/, ''));
  const known = ([, first]: string[]) => first !== undefined && first !== 'help' && /^[a-z-]+$/.test(first);
  return { lines: lines.map(words).filter(known), named: named.map(words).filter(known) };
}

/** The words of a command line, with quotes taken away. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'[^']*'|"(?:\\.|[^"])*"|\S+/g)].map(([word]) => word.replace(/^(['"])(.*)\1$/s, '$2'));
}

/** Without the differences of indentation and trailing comments. */
function squeezed(code: string): string {
  return code
    .split('\n')
    .map((line) => line.replace(/\s+\/\/.*$/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('//'))
    .join('\n');
}
