import type { Diagnosis } from '../control/network-methods.js';
import { VERSION } from '../version.js';
import type { Command } from './command.js';

const MARKS = { ok: 'ok      ', warning: 'warning ', problem: 'problem ' } as const;

export const command: Command = {
  summary: 'say what is reachable, what is not, and why',
  usage: 'doctor',
  examples: ['ecliptic doctor', 'ecliptic doctor --json'],
  async run({ connect, output }) {
    const client = await connect();
    const { version, node, pid } = client.server;
    const diagnosis = await client.call<Diagnosis>('doctor');
    const findings = [...diagnosis.findings];
    if (version !== VERSION) {
      findings.unshift({
        level: 'warning',
        text: `this command is ${VERSION}, the running node ${version}: restart it`,
      });
    }
    output.value({ node, pid, version, ...diagnosis, findings }, () =>
      [
        `node ${node}, ecliptic ${version}, process ${pid}`,
        ...findings.map(({ level, text }) => `  ${MARKS[level]}${text}`),
      ].join('\n'),
    );
  },
};
