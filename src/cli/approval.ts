import type { Device, MissingDevice, WaitingAction, WaitingItem } from '../http/dashboard/facts.js';
import { EclipticError } from '../runtime/errors.js';
import { ambiguousId } from '../runtime/short-ids.js';
import type { Approval, Verdict } from '../system/approvals/approval-queue.js';
import { flag, type Invocation, verb } from './command.js';
import { oneLine, timeText } from './output.js';

/** Digits of a node's key in an id; the rest is completed. */
const KEY_DIGITS = 12;

/** A request on another device of the owner's. */
interface Foreign {
  readonly id: string;
  readonly item: WaitingItem & { readonly node: Device };
}

const list = verb({
  summary: 'list approval requests of agents, on this node and on your other devices',
  options: { all: flag('include recent decisions of this node') },
  examples: ['', '--all --json'],
  async run({ call, values: { all }, output }) {
    const own = await call('approvals', { all });
    const { foreign, missing } = await elsewhere(call);
    const rows = [...own.map(ownRow), ...foreign.map(foreignRow)];
    const json = [...own, ...foreign.map(({ item }) => item)];
    output.rows(
      rows,
      'no approval requests',
      ({ node, ...row }) => ({ ...row, ...(foreign.length > 0 && { NODE: node }) }),
      json,
    );
    if (output.json) return;
    for (const { name, reason } of missing) output.line(oneLine(`requests on ${name} are not known: ${reason}`));
  },
});

function ownRow({ id, createdAt, expiresAt, summary, decision }: Approval) {
  return {
    ID: id,
    SINCE: timeText(createdAt, 'seconds'),
    UNTIL: expiresAt === undefined ? '-' : timeText(expiresAt, 'seconds'),
    QUESTION: summary,
    DECISION: decision ? `${decision.verdict} by ${decision.by}` : '-',
    node: 'this node',
  };
}

function foreignRow({ id, item }: Foreign) {
  const { since, until, title, answer, node } = item;
  return {
    ID: id.slice(0, id.length - node.node.length + KEY_DIGITS),
    SINCE: since === null ? '-' : timeText(since, 'seconds'),
    UNTIL: until === null ? '-' : timeText(until, 'seconds'),
    QUESTION: title,
    DECISION: answer ? `${answer.action} ${answer.state === 'sent' ? 'sent' : `refused: ${answer.reason}`}` : '-',
    node: node.name,
  };
}

const show = verb({
  summary: 'show an approval request: what the agent wants to do, where, the change, and the rule that would allow it',
  args: ['ID'],
  examples: ['01JCQX4M0V7Y8Z9ABCDEFGHJKM', '01JCQX4M0V7Y8Z9ABCDEFGHJKM@3f9a --json'],
  async run({ call, words: [given], output }) {
    const { items } = await call('waiting');
    const found = match(
      given,
      items.filter(isRequest).map((item) => ({ id: bareId(item), item })),
    );
    if (found) return output.value(found.item, () => itemText(found.item));
    const decided = match(given, await call('approvals', { all: true }));
    if (!decided)
      throw new EclipticError('APPROVAL_NOT_FOUND', `there is no approval request "${given}"`, { id: given });
    output.value(decided, () => decidedText(decided));
  },
});

function decide(verdict: Verdict, summary: string, done: string) {
  return verb({
    summary,
    args: ['ID', 'ID...'],
    examples: ['01JCQX4M0V7Y8Z9ABCDEFGHJKM', '01JCQX4M 01JCQX4N   # two, here or on another device of yours'],
    async run({ call, words: given, output }) {
      const { foreign, missing } = await elsewhere(call);
      const known = await call('approvals', { all: true });
      const isAway = (id: string) => id.includes('@') || match(id, [...known, ...foreign])?.id.includes('@') === true;
      const away = given.filter(isAway);
      const own = given.filter((id) => !isAway(id));
      const unknown = own.find((id) => !known.some((one) => one.id.startsWith(id)));
      if (unknown !== undefined && missing.length > 0) {
        const unread = missing.map(({ name, reason }) => `those on ${name} are not known: ${reason}`).join('; ');
        const message = oneLine(`there is no approval request "${unknown}" here; ${unread}`);
        throw new EclipticError('APPROVAL_NOT_FOUND', message, { id: unknown });
      }
      if (own.length > 0) {
        const decided = await call('approvals.decide', { verdict, ids: own });
        output.value(decided, () => decided.map((item) => `${item.summary}: ${done}`).join('\n'));
      }
      for (const id of away) {
        const found = match(id, foreign);
        // A request that waits no longer is on no list; its device knows what became of it.
        const action = found?.item.kind === 'tool' ? toolAction(verdict) : verdict;
        const answered = await call('waiting.answer', { id: found?.item.id ?? `approval:${id}`, action });
        const { node, state } = answered;
        const how = state === 'sent' ? `sent to ${node?.name}, not confirmed yet` : `confirmed by ${node?.name}`;
        output.value(answered, () => `${found?.item.title ?? id}: ${done}, ${how}`);
      }
    },
  });
}

async function elsewhere(call: Invocation['call']): Promise<{ foreign: Foreign[]; missing: readonly MissingDevice[] }> {
  const { items, missing } = await call('waiting');
  const foreign = items.flatMap((item) =>
    isRequest(item) && item.node ? [{ id: bareId(item), item: { ...item, node: item.node } }] : [],
  );
  return { foreign, missing };
}

function isRequest({ kind }: WaitingItem): boolean {
  return kind === 'approval' || kind === 'tool';
}

/** Without the kind. */
function bareId({ id, kind }: WaitingItem): string {
  return id.slice(kind.length + 1);
}

/** A changed tool is approved as it is now; there is no "always". */
function toolAction(verdict: Verdict): WaitingAction {
  return verdict === 'deny' ? 'deny' : 'approve';
}

function match<T extends { readonly id: string }>(given: string, known: readonly T[]): T | undefined {
  const found = known.filter(({ id }) => id.startsWith(given));
  if (found.length > 1) {
    throw ambiguousId(
      given,
      found.map(({ id }) => id),
    );
  }
  return found[0];
}

function itemText(item: WaitingItem): string {
  const { title, from, since, until, node, details, diff, actions } = item;
  const rule = details.find(({ label }) => label === 'rule');
  const id = node ? bareId(item).slice(0, bareId(item).length - node.node.length + KEY_DIGITS) : bareId(item);
  return [
    title,
    ...fact('agent', from),
    ...(node ? fact('on', node.name) : []),
    ...(since === null ? [] : fact('since', timeText(since, 'seconds'))),
    ...(until === null ? [] : fact('until', `${timeText(until, 'seconds')}, then it is denied`)),
    ...details.filter((detail) => detail !== rule).flatMap(({ label, text }) => fact(label, text)),
    ...(diff.length === 0 ? [] : ['', ...diff]),
    '',
    ...(rule
      ? [
          `rule that would allow it ("policy" in ecliptic.json; your rules replace the built-in ones):\n  ${rule.text}`,
          'It allows more than allow-always: everything that the agent calls by that text, whatever the details.',
        ]
      : []),
    `answer: ecliptic approval ${actions.includes('approve') ? 'allow-once|deny' : actions.join('|')} ${id}`,
  ].join('\n');
}

function fact(label: string, text: string): string[] {
  const [first = '', ...more] = text.split('\n');
  return [`  ${label.padEnd(10)} ${first}`, ...more.map((line) => `  ${' '.repeat(10)} ${line}`)];
}

function decidedText({ summary, createdAt, decision, details }: Approval): string {
  const { diff, ...rest } = details;
  return [
    summary,
    ...fact('since', timeText(createdAt, 'seconds')),
    ...(decision ? fact('decision', `${decision.verdict} by ${decision.by}, ${timeText(decision.at, 'seconds')}`) : []),
    ...Object.entries(rest)
      .filter(([, value]) => value !== null && value !== undefined)
      .flatMap(([label, value]) => fact(label, typeof value === 'string' ? value : JSON.stringify(value))),
    ...(Array.isArray(diff) ? ['', ...diff.map((line) => String(line))] : []),
  ].join('\n');
}

export const verbs = {
  list,
  show,
  'allow-once': decide('allow-once', 'allow a request once', 'allowed, this once'),
  'allow-always': decide(
    'allow-always',
    'allow a request, and the same one from now on',
    'allowed, now and from now on',
  ),
  deny: decide('deny', 'deny a request; a request with a time limit is denied when its time is over', 'denied'),
};
