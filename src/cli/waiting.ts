import { type MissingDevice, WAITING_ACTIONS, type WaitingItem } from '../http/dashboard/facts.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { verb } from './command.js';
import { oneLine, shortAddress, usage } from './output.js';

/** Digits of a node's key in the id of its item; the rest is completed. */
const KEY_DIGITS = 12;

const list = verb({
  summary: 'list everything that waits for you, here and on your other devices: approvals, mail, tasks, workers, …',
  examples: ['', '--json   # {"items":[…],"missing":[…]}'],
  async run({ call, output }) {
    const waiting = await call('waiting');
    const { items, missing } = waiting;
    const now = systemRuntime().now();
    const isElsewhere = items.some(({ node }) => node !== null);
    output.rows(
      items,
      missing.length === 0 ? 'nothing waits for you' : noneKnown(missing),
      (item) => ({
        ID: shortId(item),
        AGE: item.since === null ? '-' : ageText(now - item.since),
        ...(isElsewhere && { NODE: item.node?.name ?? 'this node' }),
        FROM: shortAddress(item.from),
        ABOUT: item.title,
        ANSWERS: answersOf(item, now),
      }),
      waiting,
    );
    if (output.json) return;
    for (const device of missing) output.line(oneLine(missingText(device, now)));
  },
});

const answer = verb({
  summary: 'answer something that waits for you, here or on another of your devices',
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
    const { node, state } = answered;
    const sent = `sent to ${node?.name}, which has not confirmed it yet; this node repeats it until it does`;
    const confirmed = node === null ? '' : `, confirmed by ${node.name}`;
    output.value(answered, () => `${answered.id}: ${answered.action}${state === 'sent' ? `, ${sent}` : confirmed}`);
  },
});

const notify = verb({
  summary: 'send yourself a test notification by each way that "notify" in ecliptic.json sets up',
  examples: [''],
  async run({ call, output }) {
    const results = await call('notify.test');
    const none = 'no way is set up; ecliptic.json has no "notify" with one';
    output.rows(results, none, ({ way, failure }) => ({ WAY: way, RESULT: failure ?? 'sent' }));
    if (results.some(({ failure }) => failure !== null)) process.exitCode = 1;
  },
});

function noneKnown(missing: readonly MissingDevice[]): string {
  const names = missing.map(({ name }) => name).join(', ');
  const away = missing.length === 1 ? 'it is away' : 'they are away';
  return oneLine(`nothing that is known here waits for you; items of ${names} are not known while ${away}`);
}

function shortId({ id, node }: WaitingItem): string {
  return node === null ? id : id.slice(0, id.length - node.node.length + KEY_DIGITS);
}

function answersOf({ actions, answer: sent }: WaitingItem, now: number): string {
  const offered = actions.join(', ') || '-';
  if (sent === null) return offered;
  const when = ageText(now - sent.at);
  if (sent.state === 'sent') return `${sent.action} sent ${when} ago by ${sent.by}, not confirmed`;
  return `${sent.action} refused: ${sent.reason}`;
}

function missingText({ name, since, reason }: MissingDevice, now: number): string {
  const when = since === null ? '' : `, last heard of ${ageText(now - since)} ago`;
  return `items of ${name} are missing: ${reason}${when}`;
}

const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
];

function ageText(ms: number): string {
  const [size, unit] = UNITS.find(([least]) => ms >= least) ?? [1_000, 's'];
  return `${Math.max(0, Math.floor(ms / size))}${unit}`;
}

export const verbs = { list, answer, notify };
