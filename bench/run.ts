import { run as a2a } from './a2a.js';
import { run as cli } from './cli.js';
import type { Report } from './compare.js';
import { run as coordination } from './coordination.js';
import { run as dashboard } from './dashboard.js';
import { run as durable } from './durable.js';
import { run as links } from './links.js';
import { run as mcp } from './mcp.js';
import { run as mesh } from './mesh.js';
import { run as providers } from './providers.js';
import { run as store } from './store.js';

const SUITES: Readonly<Record<string, (report: Report) => Promise<void>>> = {
  mesh,
  links,
  durable,
  store,
  mcp,
  a2a,
  providers,
  coordination,
  dashboard,
  cli,
};

const words = process.argv.slice(2);
const json = words.includes('--json');
const wanted = words.filter((word) => !word.startsWith('-')).flatMap((word) => word.split(','));
const unknown = wanted.filter((name) => !Object.hasOwn(SUITES, name));
if (words.includes('--help') || unknown.length > 0) {
  console.log(`usage: npm run bench [-- suite...] [--json]\nsuites: ${Object.keys(SUITES).join(', ')}`);
  process.exit(unknown.length > 0 ? 2 : 0);
}

const report: Report = {
  comparison(row) {
    if (json) return console.log(JSON.stringify(row));
    const { suite, name, ratio, ours, theirs, unit, spread, byClock } = row;
    const more = spread ? ` (${spread[0]}–${spread[1]}; ${byClock}× by the clock)` : '';
    console.log(
      `${suite.padEnd(14)}${name.padEnd(36)}${`${ratio}×`.padStart(8)}   ${format(ours)} vs ${format(theirs)} ${unit}${more}`,
    );
  },
  figure(suite, name, value, unit) {
    if (json) return console.log(JSON.stringify({ suite, name, value, unit }));
    console.log(`${suite.padEnd(14)}${name.padEnd(36)}${format(value).padStart(8)}   ${unit}`);
  },
};

for (const name of wanted.length > 0 ? wanted : Object.keys(SUITES)) await SUITES[name]!(report);

function format(value: number): string {
  return value.toLocaleString('en');
}
