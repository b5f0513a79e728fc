import { WAITING_ACTIONS } from '../http/dashboard/facts.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { verb } from './command.js';
import { shortAddress, usage } from './output.js';

const list = verb({
  summary: 'list everything that waits for you: approvals, mail, held mail, tools, tasks, workers',
  examples: ['', '--json'],
  async run({ call, output }) {
    const items = await call('waiting');
    const now = systemRuntime().now();
    output.rows(items, 'nothing waits for you', ({ id, since, from, title, actions }) => ({
      ID: id,
      AGE: since === null ? '-' : ageText(now - since),
      FROM: shortAddress(from),
      ABOUT: title,
      ANSWERS: actions.join(', ') || '-',
    }));
  },
});

const answer = verb({
  summary: 'answer something that waits for you',
  args: ['ID', 'ACTION', 'TEXT?'],
  argHelp: [
    ['ACTION', 'one of the answers that `ecliptic waiting` shows for it'],
    ['TEXT', 'the text of a reply'],
  ],
  examples: ['approval:01JD… allow-once', 'mail:01JD… reply "Yes, go ahead."'],
  async run({ call, words: [id, given, text], output }) {
    const action = WAITING_ACTIONS.find((one) => one === given);
    if (!action) throw usage(`there is no answer "${given}"; there are ${WAITING_ACTIONS.join(', ')}`);
    const answered = await call('waiting.answer', { id, action, text });
    output.value(answered, () => `${answered.id}: ${answered.action}`);
  },
});

const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
];

function ageText(ms: number): string {
  const [size, unit] = UNITS.find(([least]) => ms >= least) ?? [1_000, 's'];
  return `${Math.max(0, Math.floor(ms / size))}${unit}`;
}

export const verbs = { list, answer };
