import { describe, expect, it } from 'vitest';
import type { Runtime } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { ProgressLines } from './progress-lines.js';

function progress() {
  const clock = { now: 1_000 };
  const runtime: Runtime = { ...systemRuntime(), now: () => clock.now };
  const said: string[] = [];
  const lines = new ProgressLines(
    runtime,
    (line) => line.replaceAll('secret', '***'),
    ({ text }) => said.push(text),
  );
  const numbered = (count: number) => Array.from({ length: count }, (_, n) => `line ${n}`);
  return { clock, lines, said, numbered };
}

describe('progress by lines', () => {
  it('reports 20 lines a second, and how many it left out [WK.E3]', () => {
    const { clock, lines, said, numbered } = progress();
    lines.take(numbered(15));
    lines.take(numbered(15));
    lines.take(numbered(30));
    expect(said).toHaveLength(20);
    clock.now += 1_000;
    lines.take(numbered(1));
    expect(said.slice(20)).toEqual(['… 40 lines left out', 'line 0']);
    lines.take(numbered(30));
    expect(said).toHaveLength(40);
    lines.take(numbered(2));
    lines.end();
    expect(said.slice(40)).toEqual(['… 14 lines left out']);
  });

  it('cleans lines before it cuts them, and says nothing after its end [WK.E3]', () => {
    const { lines, said } = progress();
    lines.take([`${'x'.repeat(1_020)}secret and more`]);
    expect(said).toEqual([`${'x'.repeat(1_020)}*** `]);
    lines.end();
    lines.take(['late']);
    lines.end();
    expect(said).toHaveLength(1);
  });
});
