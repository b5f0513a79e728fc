/**
 * Runs what judges the protocols from outside: official suites, clients and servers. Prints protocol × suite × result and
 * writes docs/conformance.md.
 *
 *   npm run conformance               everything
 *   npm run conformance -- a2a acp    the protocols whose names begin so; the page is not written
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const manifest = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));
const { devDependencies, dependencies } = manifest('package.json');
const suites = manifest('test/conformance/package.json').dependencies;
const clients = manifest('test/clients/package.json').dependencies;
const version = (name) =>
  `${name} ${devDependencies[name] ?? dependencies[name] ?? suites[name] ?? clients[name] ?? ''}`.trim();

const A2A = version('@a2a-js/sdk');
const ACP = version('@agentclientprotocol/sdk');
const MESH = /urn:ecliptic:a2a:mesh/;
const GRPC = /'GRPC'/;
/** A judge and the tests in which it judges. Each test is one check, unless the suite counts its scenarios itself. */
const JUDGES = [
  ['A2A 1.0, 0.3', `client of ${A2A}`, ['test/a2a/sdk-client.test.ts'], (name) => !MESH.test(name)],
  ['A2A 1.0, 0.3', `our client at the server of ${A2A}`, ['test/a2a/sdk-server.test.ts'], (name) => !GRPC.test(name)],
  ['A2A 1.0, gRPC', `our client at the server of ${A2A}`, ['test/a2a/sdk-server.test.ts'], (name) => GRPC.test(name)],
  ['A2A 1.0 over the mesh', `client of ${A2A}`, ['test/a2a/sdk-client.test.ts'], (name) => MESH.test(name)],
  [
    'A2A 1.0 over the mesh',
    'rules of the specification, kills and cuts, security suite',
    ['test/a2a/wire-rules.test.ts', 'test/a2a/mesh-binding.test.ts', 'test/edges/mesh.test.ts'],
    (name) => /over mesh |over the mesh/i.test(name),
  ],
  [
    'A2A 1.0',
    `card signatures by ${A2A}, and a strict ProtoJSON reader of the official .proto`,
    ['test/a2a/sdk-card.test.ts'],
  ],
  ['A2A 1.0, gRPC', `${version('@grpc/grpc-js')} with the official .proto`, ['test/a2a/grpc.test.ts']],
  [
    'A2A 1.0, 0.3',
    'rules of the specification, over both HTTP bindings',
    ['test/a2a/wire-rules.test.ts', 'test/a2a/offer.test.ts'],
    (name) => !/over mesh /.test(name),
  ],
  ['MCP', version('@modelcontextprotocol/conformance'), ['test/conformance/conformance.test.ts']],
  ['ACP 1, as agent', `client of ${ACP}`, ['test/coding-agents/editor.test.ts']],
  [
    'ACP 1, as client',
    `agent of ${ACP}`,
    ['test/providers/acp-sessions.test.ts', 'src/providers/acp/acp-client.test.ts'],
  ],
  ['OpenAI API', version('openai'), ['test/chat/openai.test.ts']],
  ['AG-UI 1.0', `${version('@ag-ui/client')}, with its event checks`, ['test/chat/agui.test.ts']],
  ['every HTTP edge', 'one security suite', ['test/edges/security.test.ts']],
];
const NOT_RUN = [
  [
    'ACP 1, as agent',
    version('acpx'),
    'a coding-agent client, installed apart with the others: `npm run test:clients`',
  ],
  ['A2A 1.0', 'a2a-tck, a2a-inspector', 'not on npm'],
];
/** Scenarios of extensions that are not offered, and why. */
const LEFT_OUT = [
  ['auth/enterprise-managed-authorization', 'needs an enterprise identity provider that issues ID-JAG assertions'],
  ['auth/dpop', 'a draft; tokens are bearer tokens'],
  ['auth/wif-jwt-bearer', 'a draft; needs the workload identity of a cloud'],
];
const DEFECTS = [
  [`${A2A}`, 'canonical cards leave out required fields that are empty, so our cards carry a second signature for it'],
  [version('@modelcontextprotocol/conformance'), 'an alpha release: newer revisions of the suite may ask for more'],
];

const wanted = process.argv.slice(2).map((word) => word.toLowerCase());
const chosen = JUDGES.filter(
  ([protocol]) => wanted.length === 0 || wanted.some((word) => protocol.toLowerCase().startsWith(word)),
);
const folder = mkdtempSync(join(tmpdir(), 'ecliptic-conformance-run-'));
const report = join(folder, 'report.json');
const files = [...new Set(chosen.flatMap(([, , paths]) => paths))];
const ran = spawnSync('npx', ['vitest', 'run', ...files, '--reporter=json', `--outputFile=${report}`], {
  cwd: root,
  env: { ...process.env, ECLIPTIC_CONFORMANCE: folder },
  stdio: ['ignore', 'ignore', 'inherit'],
});
const results = JSON.parse(readFileSync(report, 'utf8')).testResults;

const rows = chosen.flatMap(([protocol, judge, paths, counts = () => true]) => {
  const tests = results.filter(({ name }) => paths.some((path) => name.endsWith(path)));
  const count = (...states) =>
    tests
      .flatMap((file) => file.assertionResults)
      .filter(({ status, fullName }) => states.includes(status) && counts(fullName)).length;
  const broken = tests.filter((file) => file.status === 'failed' && file.assertionResults.length === 0).length;
  const missing = paths.length - tests.length;
  const row = {
    protocol,
    judge,
    pass: count('passed'),
    fail: count('failed') + broken + missing,
    skip: count('pending', 'skipped', 'todo'),
  };
  return [{ ...row, why: '' }, ...scenarios(protocol, judge)];
});
/** What the suite of MCP says of its scenarios. */
function scenarios(protocol, judge) {
  if (protocol !== 'MCP') return [];
  return readdirSync(folder)
    .filter((name) => name.startsWith('mcp-'))
    .sort()
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')))
    .map(({ side, revision, passed, failed, skipped }) => ({
      ...{
        protocol: `MCP ${revision}, ${side}`,
        judge: `${judge}: scenarios`,
        pass: passed.length,
        fail: failed.length,
      },
      ...{
        skip: skipped.length,
        why: skipped.map((name) => `${name}: ${LEFT_OUT.find(([prefix]) => name.startsWith(prefix))?.[1]}`).join('; '),
      },
    }));
}
rmSync(folder, { recursive: true, force: true });
rows.push(
  ...(wanted.length === 0
    ? NOT_RUN.map(([protocol, judge, why]) => ({ protocol, judge, pass: 0, fail: 0, skip: 1, why }))
    : []),
);

const table = [
  '| protocol | judge | pass | fail | skip | reason of the skip |',
  '|---|---|---|---|---|---|',
  ...rows.map(
    ({ protocol, judge, pass, fail, skip, why }) => `| ${protocol} | ${judge} | ${pass} | ${fail} | ${skip} | ${why} |`,
  ),
].join('\n');
console.log(table);
if (wanted.length === 0) {
  const page = [
    '# Conformance',
    '',
    'Written by `npm run conformance`, which runs every judge below. All but the skipped ones are part of `npm test`.',
    '',
    table,
    '',
    '## Known defects of the judges',
    '',
    ...DEFECTS.map(([name, what]) => `- ${name}: ${what}.`),
    '',
  ].join('\n');
  writeFileSync(join(root, 'docs', 'conformance.md'), page);
}
if (ran.status !== 0 || rows.some(({ fail }) => fail > 0)) process.exitCode = 1;
