import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../source-files.js';

const SOAK = process.env.ECLIPTIC_SOAK === '1';
const SECONDS = 20 * 60;
/** The first quarter fills the tables that have a limit. */
const WARM_UP = 1 / 4;
const GROWTH = 1.08;

interface Sample {
  readonly turn: number;
  readonly rss: number;
  readonly heapUsed: number;
  readonly external: number;
}

describe('the memory of a node', () => {
  it.skipIf(!SOAK)(
    'stays flat during twenty minutes of mixed load [T-F15]',
    { timeout: (SECONDS + 300) * 1_000 },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'ecliptic-memory-'));
      try {
        const samples = await load(folder);
        expect(samples.length).toBeGreaterThan(SECONDS / 20);
        const steady = samples.slice(Math.floor(samples.length * WARM_UP));
        const part = Math.floor(steady.length / 5);
        const [early, late] = [steady.slice(0, part), steady.slice(-part)];
        const figures = `${describeSample(samples[0]!)}; ${describeSample(early[0]!)}; ${describeSample(samples.at(-1)!)}`;
        console.log(`memory under mixed load: ${figures}`);
        for (const of of ['rss', 'heapUsed', 'external'] as const) {
          const ratio = median(late.map((sample) => sample[of])) / median(early.map((sample) => sample[of]));
          expect(ratio, `${of}: ${figures}`).toBeLessThan(GROWTH);
        }
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
});

async function load(folder: string): Promise<Sample[]> {
  const args = ['--expose-gc', join(ROOT, 'test', 'memory', 'load.mjs'), String(SECONDS), folder];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const samples: Sample[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => samples.push(JSON.parse(line) as Sample));
  const [code] = await once(child, 'close');
  expect(code).toBe(0);
  return samples;
}

function describeSample({ turn, rss, heapUsed, external }: Sample): string {
  const inMebibytes = (bytes: number) => Math.round(bytes / 1_048_576);
  return `turn ${turn}: ${inMebibytes(rss)} MiB resident, ${inMebibytes(heapUsed)} heap, ${inMebibytes(external)} external`;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}
