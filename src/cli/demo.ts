import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { wait } from '../runtime/async.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { flag, text, verb } from './command.js';
import type { Seen } from './demo/scenes.js';
import { oneLine, usage } from './output.js';

const REPORT = 'ecliptic-demo.md';
/** Between scenes on a terminal: time to read, and to look at the dashboard. */
const PAUSE_MS = 3_000;

const run = verb({
  summary: 'three devices on this machine show what Ecliptic does, in less than a minute, without a model or a key',
  options: {
    report: text('FILE', `where to write the report (default: ${REPORT})`),
    stay: flag('keep the devices running afterwards, until Ctrl-C, to look at the dashboard'),
    fast: flag('do not pause between the scenes; without a terminal there are no pauses'),
    'no-browser': flag('do not open the dashboard'),
  },
  examples: ['', '--stay', '--fast --no-browser', '--json'],
  async run({ values, output, env }) {
    const [{ DemoScenes }, { writeSample }, { PrivateDht }, { systemRuntime }, { openInBrowser }] = await Promise.all([
      import('./demo/scenes.js'),
      import('./demo/sample.js'),
      import('../network/discovery/private-dht.js'),
      import('../runtime/system-runtime.js'),
      import('./browser.js'),
    ]);
    const report = resolve(values.report ?? REPORT);
    assertWritable(report);
    const runtime = systemRuntime();
    const pauses = process.stdout.isTTY === true && !output.json && !values.fast;
    const alive = runtime.hold();
    const began = runtime.now();
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-demo-'));
    const say = (line: string) => {
      if (output.json) return;
      const seconds = ((runtime.now() - began) / 1_000).toFixed(1).padStart(5);
      output.line(`${seconds} s  ${oneLine(line)}`);
    };
    const dht = await PrivateDht.start(4, '127.0.0.1', 0);
    const scenes = new DemoScenes({ runtime, folder, sample: writeSample(folder), bootstrap: dht.bootstrap[0]!, say });
    const interrupted = new Promise<'interrupted'>((end) => {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => end('interrupted'));
    });
    const seen: Seen[] = [];
    const play = async () => {
      for (const { title, perform } of scenes.all) {
        if (pauses && seen.length > 0) await wait(runtime, PAUSE_MS);
        if (!output.json) output.line(`\n${title}`);
        seen.push({ scene: title, facts: await perform() });
        if (seen.length > 1) continue;
        const opened = !values['no-browser'] && !output.json && openInBrowser(scenes.laptop.page, folder, env);
        say(`the laptop’s dashboard${opened ? ', opened in your browser' : ''}: ${scenes.laptop.page}`);
      }
    };
    try {
      if ((await Promise.race([play(), interrupted])) === 'interrupted') {
        throw new EclipticError('CANCELLED', 'the demo was interrupted');
      }
      const ms = runtime.now() - began;
      writeFileSync(report, reportText(seen, ms, scenes.review));
      output.value({ ok: true, report, ms, seen }, () =>
        [
          `\nAll of it was seen, in ${(ms / 1_000).toFixed(1)} s. The report is ${report}`,
          ...(values.stay
            ? []
            : ['Look around at the dashboard: ecliptic demo --stay    With your own agents: ecliptic']),
        ].join('\n'),
      );
      if (values.stay && !output.json) {
        output.line('The devices keep running. Ctrl-C ends them.');
        await interrupted;
      }
    } finally {
      await scenes.end();
      await dht.stop();
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
      alive.cancel();
    }
  },
});

/** Before a minute of work has no place for its report. */
function assertWritable(file: string): void {
  try {
    accessSync(dirname(file), constants.W_OK);
  } catch (error) {
    throw usage(`cannot write ${file}: ${describeError(error)}; name another file with --report FILE`);
  }
}

function reportText(seen: readonly Seen[], ms: number, review: string): string {
  return [
    '# What the demo showed',
    '',
    `Three processes on this machine, in ${(ms / 1_000).toFixed(1)} s. Every line was observed while it ran.`,
    ...seen.flatMap(({ scene, facts }) => ['', `## ${scene}`, '', ...facts.map((fact) => `- ${markdown(fact)}`)]),
    '',
    '## What the plan reported',
    '',
    review.replace(/^#+ /gm, '##$&').trimEnd(),
    '',
    'Next: `npx ecliptic` says what to do with your own agents.',
    '',
  ].join('\n');
}

/** Lines of a change are code. */
function markdown(fact: string): string {
  return /^[+-]/.test(fact) ? `\`${fact}\`` : fact;
}

export const verbs = { run };
