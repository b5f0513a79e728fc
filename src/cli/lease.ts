import type { LeaseLine } from '../node/control/rows.js';
import { verb } from './command.js';
import { timeText } from './output.js';

const list = verb({
  summary: 'list the files that agents have reserved',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('leases');
    output.value(rows, () => (rows.length === 0 ? 'No leases.' : rows.map(lineOf).join('\n')));
  },
});

const release = verb({
  summary: 'take a lease back; its holder is told',
  args: ['ID'],
  examples: ['4KQ2ZT   # the beginning or the end of the id is enough'],
  async run({ call, words: [id], output }) {
    const released = await call('leases.release', { id });
    output.value(released, () => `${released.name} no longer holds ${released.glob}, and is told.`);
  },
});

function lineOf({ id, name, glob, repositoryName, expiresAt, label, alive, why }: LeaseLine): string {
  const gone = alive ? '' : ', holder gone';
  const reason = why === '' ? '' : `: ${why.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')}`;
  return `${id}  ${name} holds ${glob} in ${repositoryName} until ${timeText(expiresAt, 'seconds')}Z (${label}${gone})${reason}`;
}

export const verbs = { list, release };
