/**
 * Fuzzes the parsers and boundaries of `test/fuzz/targets/` with a coverage-guided fuzzer, until one of them breaks a rule
 * of its own or takes too much time or memory.
 *
 *   npm run fuzz                            every target for 30 seconds
 *   npm run fuzz -- glob-pair envelope      these targets
 *   npm run fuzz -- --runs 100000           as many inputs each; --seconds limits the time of each as well
 *   npm run fuzz -- --until 1000000         until each has had as many since its code changed last, over several runs
 *   npm run fuzz -- --json                  one line of JSON for each: { target, inputs, failures, seconds, total }
 *   npm run fuzz -- --corpus                writes a small corpus of each target to test/fuzz/corpus/
 *
 * What it learns is kept in `.fuzz/`. An input that breaks something is saved in `.fuzz/TARGET/findings/`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { useOlderLibraries } from './older-libraries.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'test', 'fuzz');
const kept = join(root, '.fuzz');
const SECONDS = 30;
/** libFuzzer ends an input after this; the bounds of the targets are stricter. */
const HANG_SECONDS = 20;
const RSS_MB = 2_048;
const CORPUS_FILES = 40;
const CORPUS_BYTES = 400;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string' },
    seconds: { type: 'string' },
    until: { type: 'string' },
    json: { type: 'boolean' },
    corpus: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});
const all = readdirSync(join(folder, 'targets'))
  .map((file) => file.replace(/\.ts$/, ''))
  .sort();
const unknown = positionals.filter((name) => !all.includes(name));
if (values.help || unknown.length > 0) {
  const text = readFileSync(fileURLToPath(import.meta.url), 'utf8');
  console.error(
    unknown.length > 0
      ? `no such target: ${unknown.join(', ')}`
      : text.slice(4, text.indexOf('*/')).replace(/^ \* ?/gm, ''),
  );
  console.error(`targets: ${all.join(', ')}`);
  process.exit(values.help ? 0 : 2);
}

const say = (text) => console.error(text);
install();
let failed = false;
for (const name of positionals.length > 0 ? positionals : all) {
  const result = await fuzz(name);
  failed ||= result.failures > 0;
  if (values.json) console.log(JSON.stringify(result));
  else {
    const { inputs, total, failures, seconds } = result;
    console.log(`${name}: ${inputs} inputs in ${seconds} s (${total} in all), ${failures} failures`);
  }
}
process.exitCode = failed ? 1 : 0;

/** The fuzzer has a lock file of its own: the tests do not need it. */
function install() {
  const fuzzer = join(folder, 'node_modules', '@jazzer.js', 'fuzzer');
  if (existsSync(fuzzer)) return;
  say('installing the fuzzer in test/fuzz');
  const { status } = spawnSync('npm', ['ci', '--engine-strict=false', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) process.exit(status ?? 1);
  const load = () => spawnSync(process.execPath, ['-e', `require(${JSON.stringify(fuzzer)})`], { encoding: 'utf8' });
  if (/GLIBC(?:XX)?_[\d.]+' not found/.test(load().stderr)) {
    useOlderLibraries(join(fuzzer, 'prebuilds', `fuzzer-linux-${process.arch}.node`));
  }
  const { status: works, stderr } = load();
  if (works === 0) return;
  say(`the fuzzer does not run on this machine: ${stderr}`);
  process.exit(1);
}

async function fuzz(name) {
  const own = join(kept, name);
  const [corpus, findings] = [join(own, 'corpus'), join(own, 'findings')];
  for (const each of [corpus, findings]) mkdirSync(each, { recursive: true });
  const source = readFileSync(join(folder, 'targets', `${name}.ts`), 'utf8');
  const isAsync = /\basync (?:run|prepare)\(/.test(source);
  const file = join(own, 'target.cjs');
  await bundle(name, file);
  const digest = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16);
  const words = join(own, 'words.dict');
  const start = spawnSync(
    process.execPath,
    ['-e', `require(${JSON.stringify(file)}).begin(${JSON.stringify([corpus, words])})`],
    {
      cwd: root,
      encoding: 'utf8',
    },
  );
  if (start.status !== 0) throw new Error(`${name} does not start: ${start.stderr}`);
  const maxBytes = Number(start.stdout.trim().split('\n').at(-1));
  if (values.corpus) return writeCorpus(name, own, { file, isAsync, maxBytes });

  const before = countOf(own, digest);
  const wanted =
    values.until === undefined ? Number(values.runs ?? -1) : Math.max(0, Number(values.until) - before.inputs);
  if (wanted === 0) return { target: name, inputs: 0, failures: 0, seconds: 0, total: before.inputs };
  const seconds = Number(values.seconds ?? (wanted < 0 ? SECONDS : 0));
  const options = [`-runs=${wanted}`, `-max_total_time=${seconds}`, `-max_len=${maxBytes}`, `-dict=${words}`];
  const began = Date.now();
  const ran = await run(
    { file, isAsync, own },
    [corpus],
    [...options, `-artifact_prefix=${findings}/`, '-use_value_profile=1'],
  );
  const took = Math.round((Date.now() - began) / 1_000);
  const total = before.inputs + ran.inputs;
  // A failure ends the count: the repaired code begins again.
  const isBroken = ran.status !== 0;
  writeFileSync(
    join(own, 'count.json'),
    `${JSON.stringify({ digest, inputs: total, seconds: before.seconds + took })}\n`,
  );
  if (isBroken) say(`${name} failed; the input is in ${findings}\n${ran.text.slice(-4_000)}`);
  return { target: name, inputs: ran.inputs, failures: isBroken ? 1 : 0, seconds: took, total };
}

function countOf(own, digest) {
  const file = join(own, 'count.json');
  const found = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  return found.digest === digest ? found : { inputs: 0, seconds: 0 };
}

/** One file in CommonJS, which the fuzzer can instrument. Packages are not part of what is looked at. */
function bundle(name, outfile) {
  const contents = `
    import { target } from './targets/${name}.ts';
    import { attempt } from './fuzz-target.ts';
    import { seedsOf } from './corpus.ts';
    import { writeFileSync } from 'node:fs';
    import { createHash } from 'node:crypto';
    let ready;
    export function fuzz(data) {
      if (!target.prepare) return attempt(target, data);
      ready ??= target.prepare();
      return ready.then(() => attempt(target, data));
    }
    export async function begin([corpus, words]) {
      const more = (await target.prepare?.()) ?? [];
      for (const seed of [...seedsOf(target), ...more]) {
        writeFileSync(corpus + '/' + createHash('sha1').update(seed).digest('hex'), seed);
      }
      const quoted = (word) => [...Buffer.from(word)].map((byte) => '\\\\x' + byte.toString(16).padStart(2, '0')).join('');
      writeFileSync(words, (target.words ?? []).map((word) => '"' + quoted(word) + '"\\n').join(''));
      console.log(target.maxBytes ?? 4096);
      process.exit();
    }`;
  return build({
    stdin: { contents, resolveDir: folder, loader: 'ts' },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node20',
    define: { 'import.meta.url': 'importMetaUrl' },
    banner: { js: `const importMetaUrl = ${JSON.stringify(new URL('../dist/index.js', import.meta.url).href)};` },
    external: [
      'zod',
      'yaml',
      'yjs',
      'jsonc-parser',
      'ws',
      'hyperdht',
      'hyperswarm',
      '@hyperswarm/*',
      'libsql',
      'pino',
      '@grpc/*',
    ],
    logLevel: 'error',
  });
}

function run({ file, isAsync, own }, corpora, options) {
  const jazzer = join(folder, 'node_modules', '@jazzer.js', 'core', 'dist', 'cli.js');
  const common = ['-print_final_stats=1', `-timeout=${HANG_SECONDS}`, `-rss_limit_mb=${RSS_MB}`];
  const args = [
    ...['--max-old-space-size=1024', jazzer, file, ...corpora],
    ...['-i', 'target.cjs', '-e', 'node_modules', '--disable_bug_detectors', '.*', `--timeout=${HANG_SECONDS * 1_000}`],
    ...(isAsync ? [] : ['--sync']),
    ...['--', ...common, ...options],
  ];
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: own, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    const take = (chunk) => {
      text = (text + chunk).slice(-200_000);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    process.once('SIGTERM', () => child.kill());
    child.on('close', (status) => {
      const executed =
        /stat::number_of_executed_units:\s+(\d+)/.exec(text)?.[1] ?? [...text.matchAll(/^#(\d+)/gm)].at(-1)?.[1];
      resolve({ status, text, inputs: Number(executed ?? 0) });
    });
  });
}

/** The smallest inputs that cover what the whole corpus covers, as far as they are short. */
async function writeCorpus(name, own, built) {
  const merged = join(own, 'merged');
  rmSync(merged, { recursive: true, force: true });
  mkdirSync(merged);
  await run({ ...built, own }, [merged, join(own, 'corpus')], ['-merge=1', `-max_len=${built.maxBytes}`]);
  const files = readdirSync(merged)
    .map((file) => join(merged, file))
    .filter((file) => statSync(file).size <= CORPUS_BYTES)
    .sort((a, b) => statSync(a).size - statSync(b).size || (a < b ? -1 : 1));
  // Evenly from short to long.
  const step = Math.max(1, files.length / CORPUS_FILES);
  const chosen = files.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step));
  const lines = chosen.map((file) => lineOf(readFileSync(file)));
  writeFileSync(join(folder, 'corpus', `${name}.jsonl`), lines.map((line) => `${line}\n`).join(''));
  return { target: name, inputs: chosen.length, failures: 0, seconds: 0, total: chosen.length };
}

/** Text as text, so that people can read it. */
function lineOf(bytes) {
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? JSON.stringify(text) : JSON.stringify({ base64: bytes.toString('base64') });
}
