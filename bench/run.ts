import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { main, type Suite } from './main.js';

const SUITES: Readonly<Record<string, Suite>> = {
  mesh: { about: 'messages within one node, beside Moleculer', load: () => import('./mesh.js') },
  links: { about: 'messages between two processes, beside ws, Hyperswarm and NATS', load: () => import('./links.js') },
  join: { about: '30 nodes that join one mesh', load: () => import('./join.js') },
  scale: { about: 'growth with agents, threads, rows, candidates, peers, nodes', load: () => import('./scale.js') },
  durable: { about: 'durable messages, beside SQLite and JetStream', load: () => import('./durable.js') },
  store: { about: 'the journal, with few and with a million rows', load: () => import('./store.js') },
  mcp: { about: 'tool calls, beside the MCP SDK', load: () => import('./mcp.js') },
  a2a: { about: 'tasks of A2A clients, beside the A2A SDK', load: () => import('./a2a.js') },
  providers: { about: 'programs and models as workers, beside bare ones', load: () => import('./providers.js') },
  coordination: { about: 'proposals, swarms and documents', load: () => import('./coordination.js') },
  documents: {
    about: 'documents that grow to 100,000 operations, beside Yjs',
    load: () => import('./documents-growth.js'),
  },
  dashboard: { about: 'the cost of an open page, and its first screen', load: () => import('./dashboard.js') },
  radar: { about: 'changed files of 50,000 on two devices, at rest and when saved', load: () => import('./radar.js') },
  hostile: { about: 'an honest member beside a hostile one', load: () => import('./hostile.js') },
  cli: { about: 'start, commands and memory of the program', load: () => import('./cli.js') },
};

// From the compiled folder, two levels up.
const PAGE = new URL('../../docs/benchmarks.md', import.meta.url);

const code = await main(process.argv.slice(2), SUITES, {
  print: (line) => console.log(line),
  fail: (line) => console.error(line),
  readPage: () => (existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : ''),
  writePage: (text) => writeFileSync(PAGE, text),
});
// Also if a suite that failed left something running.
process.exit(code);
