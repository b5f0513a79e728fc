import type { TestedRow } from '../coding-agents/wake/wakes.js';
import type { Finding } from '../network/peers/network.js';
import type { Diagnosis, Probing } from '../node/control/rows.js';
import { VERSION } from '../runtime/package.js';
import type { Command, Invocation } from './command.js';
import { printable, usage } from './output.js';

const MARKS = { ok: 'ok      ', warning: 'warning ', problem: 'problem ' } as const;

export const command: Command = {
  summary: 'say what is reachable, what is not, and why; ends with 1 when there is a problem',
  usage: 'doctor [--wake [NAME...]] [--within SECONDS]',
  words: [0, 100],
  options: { wake: { type: 'boolean' }, within: { type: 'string' } },
  optionHelp: [
    ['--wake', 'wake each coding agent that is here (or those named) with a test message, and see whether it is read'],
    ['--within SECONDS', 'how long a test may take (default: onramp.wake.testWithinS, or 60)'],
  ],
  examples: ['ecliptic doctor', 'ecliptic doctor --json', 'ecliptic doctor --wake reviewer'],
  async run(invocation) {
    const { connect, output, values, words } = invocation;
    if (values.wake) return wakeThem(invocation);
    if (words.length > 0) throw usage('names go with --wake');
    const client = await connect();
    const { version, node, pid } = client.server;
    const outdated: Finding[] =
      version === VERSION
        ? []
        : [{ level: 'warning', text: `this command is ${VERSION}, the running node ${version}: restart it` }];
    const show = ({ level, text }: Finding) => {
      if (!output.json) output.line(printable(`  ${MARKS[level]}${text}`));
    };
    if (!output.json) output.line(`node ${node}, ecliptic ${version}, process ${pid}`);
    for (const finding of outdated) show(finding);
    // Each finding is shown as it is made: coding agents that are asked may take half a minute.
    const diagnosis = await client.call<Diagnosis>('doctor', {}, (event) => {
      if ('probing' in (event as object)) {
        if (!output.json)
          process.stderr.write(`asking ${(event as Probing).probing} coding agents of this machine …\n`);
      } else show(event as Finding);
    });
    if (output.json) {
      const findings = [...outdated, ...diagnosis.findings];
      output.line(JSON.stringify({ node, pid, version, ...diagnosis, findings }));
    }
    if (!diagnosis.healthy) output.exitCode = 1;
  },
};

/** Tells no more than was tried: each agent is woken, and must show that it read what it was woken for. */
async function wakeThem({ connect, output, values, words }: Invocation): Promise<void> {
  const seconds = values.within === undefined ? undefined : Number(values.within);
  if (seconds !== undefined && !(seconds > 0)) throw usage('--within is a number of seconds');
  const client = await connect();
  const rows = await client.call<TestedRow[]>('wake.test', {
    ...(words.length > 0 && { names: words }),
    ...(seconds !== undefined && { withinMs: seconds * 1_000 }),
  });
  output.table(
    rows,
    ['AGENT', 'CLIENT', 'WAY', 'TEST', 'SEES MAIL', 'WHY'],
    rows.map(({ name, client, version, way, test, seesMail }) => {
      const tested = way === null ? '-' : test.passed ? `passed in ${(test.tookMs / 1_000).toFixed(1)} s` : 'failed';
      return [name, `${client} ${version ?? ''}`.trim(), way ?? '-', tested, seesMail, test.reason];
    }),
    'No coding agent is here now.',
  );
  if (!output.json && rows.some(({ test }) => test.passed)) {
    output.line('It holds while their sessions last. To have it tried in each: onramp.wake.selfTest in ecliptic.json');
  }
}
