import { describe, expect, it } from 'vitest';
import { localImports, sourceFiles } from './source-files.js';

/** From the bottom up; a folder may import those before it. Folders of one row may not import each other. */
const LAYERS: readonly (readonly string[])[] = [
  ['runtime', 'package.ts'],
  ['events'],
  ['process', 'net'],
  ['store'],
  ['approvals', 'credentials'],
  ['a2a'],
  ['membership'],
  ['links'],
  ['discovery'],
  ['peers'],
  ['mail', 'records'],
  ['a2a-protocol'],
  ['coordination'],
  ['acp'],
  ['mcp'],
  ['agent'],
  ['providers'],
  ['orchestrator'],
  ['onramp'],
  ['gateway'],
  ['control'],
  ['config'],
  ['node.ts', 'index.ts', 'simulation.ts', 'host.ts'],
  ['cli'],
];

const files = sourceFiles('src').filter((file) => !file.path.endsWith('.test.ts'));

describe('the source tree', () => {
  it('imports down the layers only', () => {
    const upward = files.flatMap((file) =>
      localImports(file)
        .filter((target) => folder(target) !== folder(file.path) && rank(target) >= rank(file.path))
        .filter((target) => !isRoot(file.path) || !isRoot(target))
        .map((target) => `${file.path} imports ${target}`),
    );
    expect(upward).toEqual([]);
  });

  it('has no import cycle', () => {
    const graph = new Map(files.map((file) => [file.path, localImports(file)]));
    expect(findCycle(graph)).toBeUndefined();
  });

  it('reaches clock, timers, randomness and ids through the runtime only', () => {
    const globals =
      /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bset(Timeout|Interval|Immediate)\(|\brandomUUID\b|\brandomBytes\b|\bperformance\.now\b|\bprocess\.hrtime/;
    const offenders = files.filter((file) => !file.path.startsWith('src/runtime/') && globals.test(code(file.text)));
    expect(offenders.map((file) => file.path)).toEqual([]);
  });

  it('throws nothing but errors of the catalogue', () => {
    const foreign = /\bnew (Type|Range|Syntax|Aggregate)?Error\(/;
    expect(files.filter((file) => foreign.test(code(file.text))).map((file) => file.path)).toEqual([]);
  });

  it('exports nothing by default', () => {
    expect(files.filter((file) => /^export default\b/m.test(file.text)).map((file) => file.path)).toEqual([]);
  });
});

function folder(path: string): string {
  return path.split('/')[1]!;
}

function rank(path: string): number {
  const at = LAYERS.findIndex((layer) => layer.includes(folder(path)));
  if (at < 0) throw new Error(`${path} is in no layer of the design`);
  return at;
}

/** The composition root is one layer of several files. */
function isRoot(path: string): boolean {
  return path.split('/').length === 2;
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
