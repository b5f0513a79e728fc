import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from './source-files.js';

const page = read('ARCHITECTURE.md');

/** Files that each walk may have at most, by its title. */
const WALKS: Readonly<Record<string, number>> = {
  'A request in one node': 20,
  'A request to another node': 31,
  'A tool call to another node': 33,
  'An A2A task, streamed': 36,
  'A durable message': 40,
  'A sub-task of a swarm': 32,
  'A task for a model': 11,
  '`ecliptic agents`': 11,
};

describe('ARCHITECTURE.md', () => {
  it('says where each name of the specification is exported', () => {
    const rows = [...section('Names of the specification').matchAll(/^\| (`.+?`) \| `(src\/\S+)` \|$/gm)];
    expect(rows.length).toBeGreaterThan(20);
    for (const [, names, path] of rows) {
      const text = read(path!);
      for (const [, name] of names!.matchAll(/`(\w+)`/g)) {
        const exported = new RegExp(
          `^export (?:abstract |async )?(?:class|function|interface|const|type) ${name}\\b|^export \\{[^}]*\\b${name}\\b`,
          'm',
        );
        expect(text, `${name} in ${path}`).toMatch(exported);
      }
    }
  });

  it('lists its walks by files and functions that exist, within the number of files that each may have', () => {
    for (const [title, most] of Object.entries(WALKS)) {
      const steps = [...section(title).matchAll(/^\d+\. `(src\/\S+)` (`[^—]+) —/gm)];
      expect(steps.length, title).toBeGreaterThan(3);
      for (const [, path, functions] of steps) {
        const text = read(path!);
        for (const [, name] of functions!.matchAll(/`([#\w]+)`/g)) {
          expect(text, `${name} in ${path} (${title})`).toMatch(
            new RegExp(`^(?:export )?(?:async )?function ${name}\\b|^ +(?:[\\w']+ )*${name}(?: = |[(<:]|\\?\\.)`, 'm'),
          );
        }
      }
      expect(new Set(steps.map(([, path]) => path)).size, title).toBeLessThanOrEqual(most);
    }
  });

  it('is one page', () => {
    expect(page.split('\n').length).toBeLessThan(260);
  });
});

describe('a room', () => {
  const rooms = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory());

  it.each(rooms.map(({ name }) => name))('%s has a README that names files and folders that exist', (room) => {
    const text = read(`src/${room}/README.md`);
    expect(text.split('\n').length).toBeLessThan(80);
    const own = readdirSync(join(ROOT, 'src', room), { recursive: true, encoding: 'utf8' });
    const missing = [...text.matchAll(/`([\w./-]+\.ts)`/g)]
      .map(([, path]) => path!)
      .filter((path) => !own.some((file) => file === path || file.endsWith(`/${path}`)))
      .filter((path) => ![path, `src/${path}`].some((place) => existsSync(join(ROOT, place))));
    expect(missing).toEqual([]);
  });
});

describe('documents', () => {
  const pages = [
    ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
    ...['deploy', 'docs', 'src']
      .flatMap((folder) =>
        readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((p) => `${folder}/${p}`),
      )
      .filter((path) => path.endsWith('.md')),
  ];

  it.each(pages.filter((path) => !path.startsWith('docs/decisions/')))('%s names files that exist', (path) => {
    const missing = [
      ...read(path).matchAll(/`((?:src|test|docs|deploy|scripts|bench|schema|examples)\/[\w./-]+\.\w+)`/g),
    ]
      .map(([, named]) => named!)
      .filter((named) => !named.includes('NNNN') && !existsSync(join(ROOT, named)));
    expect(missing).toEqual([]);
  });

  it.each(pages)('%s links to files that exist', (path) => {
    const broken = [...read(path).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)]
      .map(([, target]) => target!)
      .filter((target) => !existsSync(join(ROOT, dirname(path), target)));
    expect(broken).toEqual([]);
  });
});

function section(title: string): string {
  const start = page.indexOf(`# ${title}\n`);
  expect(start, `a section "${title}"`).toBeGreaterThan(-1);
  const rest = page.slice(start + title.length + 2);
  const end = rest.search(/^#{2,3} /m);
  return end < 0 ? rest : rest.slice(0, end);
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
