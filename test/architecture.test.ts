import { describe, expect, it } from 'vitest';
import { localImports, sourceFiles } from './source-files.js';

/**
 * The floors of the house, from the bottom up. A room may import rooms of lower floors, and rooms to its left on its own
 * floor. A room that is listed by its folders is entered folder by folder.
 */
const FLOORS: readonly (readonly string[])[] = [
  ['runtime'],
  ['system', 'store'],
  ['mesh'],
  ['network'],
  ['mail', 'mcp', 'documents', 'objects', 'a2a/protocol', 'a2a/v03', 'a2a/client', 'nats'],
  ['work', 'agent', 'collections'],
  [
    'plans',
    'roster',
    'providers',
    'telemetry',
    'coding-agents',
    'http/auth',
    'http/server',
    'http/dashboard',
    'a2a/server',
    'a2a/edge',
    'a2a/grpc',
    'a2a/mesh',
    'http/mcp',
    'http/chat',
    'http',
    'bridges',
  ],
  ['node', 'index.ts', 'mesh.ts', 'a2a.ts', 'providers.ts', 'simulation.ts', 'cli'],
];
const RANKS = FLOORS.flat();

/** They have the text of programs that other processes run, without our runtime and catalogue. */
const FOREIGN_PROGRAMS: readonly string[] = ['src/coding-agents/setup/opencode-plugins.ts'];

const files = sourceFiles('src').filter((file) => !file.path.endsWith('.test.ts'));
const ours = files.filter(({ path }) => !FOREIGN_PROGRAMS.includes(path));

describe('the source tree', () => {
  it('imports down the floors only', () => {
    const upward = files.flatMap((file) =>
      localImports(file)
        .filter((target) => rank(target) > rank(file.path))
        .map((target) => `${file.path} imports ${target}`),
    );
    expect(upward).toEqual([]);
  });

  it('has no import cycle', () => {
    const graph = new Map(files.map((file) => [file.path, localImports(file)]));
    expect(findCycle(graph)).toBeUndefined();
  });

  it('has no import cycle between folders', () => {
    const graph = new Map<string, Set<string>>();
    for (const file of files) {
      const folder = folderOf(file.path);
      const targets = graph.get(folder) ?? new Set();
      for (const target of localImports(file)) if (folderOf(target) !== folder) targets.add(folderOf(target));
      graph.set(folder, targets);
    }
    expect(findCycle(new Map([...graph].map(([folder, targets]) => [folder, [...targets]])))).toBeUndefined();
  });

  it('reaches clock, timers, randomness and ids through the runtime only', () => {
    const globals =
      /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bset(Timeout|Interval|Immediate)\(|\brandomUUID\b|\brandomBytes\b|\bperformance\.now\b|\bprocess\.hrtime/;
    const offenders = ours.filter((file) => !file.path.startsWith('src/runtime/') && globals.test(code(file.text)));
    expect(offenders.map((file) => file.path)).toEqual([]);
  });

  it('throws nothing but errors of the catalogue', () => {
    const foreign = /\bnew (Type|Range|Syntax|Aggregate)?Error\(/;
    expect(ours.filter((file) => foreign.test(code(file.text))).map((file) => file.path)).toEqual([]);
  });

  it('has no file above 450 lines', () => {
    expect(files.filter(({ text }) => text.split('\n').length > 451).map(({ path }) => path)).toEqual([]);
  });

  it('exports nothing by default', () => {
    expect(files.filter((file) => /^export default\b/m.test(file.text)).map((file) => file.path)).toEqual([]);
  });
});

function rank(path: string): number {
  const parts = path.split('/').slice(1);
  const at = RANKS.findLastIndex((room) => `${parts.join('/')}/`.startsWith(`${room}/`) && !hasOwnRank(parts, room));
  if (at < 0) throw new Error(`${path} is in no room of the house`);
  return at;
}

/** Is the folder listed apart from its room? */
function hasOwnRank(parts: readonly string[], room: string): boolean {
  const folder = parts.slice(0, -1).join('/');
  return folder !== room && RANKS.includes(folder);
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}

function findCycle(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const visit = (path: string, above: readonly string[]): string[] | undefined => {
    if (above.includes(path)) return [...above.slice(above.indexOf(path)), path];
    if (done.has(path)) return undefined;
    for (const next of graph.get(path) ?? []) {
      const cycle = visit(next, [...above, path]);
      if (cycle) return cycle;
    }
    done.add(path);
    return undefined;
  };
  for (const path of graph.keys()) {
    const cycle = visit(path, []);
    if (cycle) return cycle;
  }
  return undefined;
}
